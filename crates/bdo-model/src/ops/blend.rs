//! The update of a moving average.

use super::{Kernels, fused};
use burn::tensor::Tensor;

/// momentum slow + (1 - momentum) fast, outside any gradient tape; a momentum of 1 leaves `slow` as it is.
pub fn blend<const D: usize>(kernels: Kernels, slow: Tensor<D>, fast: Tensor<D>, momentum: f64) -> Tensor<D> {
    if momentum == 1.0 {
        return slow;
    }
    if fused::applies(kernels, &slow).is_some() && !slow.is_autodiff() && !fast.is_autodiff() {
        return fused::blend(slow, fast, momentum);
    }
    #[cfg(feature = "cube")]
    if super::cube::applies(kernels, &slow) && !slow.is_autodiff() && !fast.is_autodiff() {
        return super::cube::blend(slow, fast, momentum);
    }
    slow * momentum + fast * (1.0 - momentum)
}
