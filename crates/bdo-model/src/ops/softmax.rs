//! Softmax over the last axis.

use super::Kernels;
use super::fused::{self, Softmax};
use burn::tensor::{Tensor, activation};

/// x [B, T, n] -> [B, T, n], each row non-negative and summing to one.
pub fn softmax(kernels: Kernels, x: Tensor<3>) -> Tensor<3> {
    if fused::applies(kernels, &x).is_some() {
        return fused::run(Softmax, [x.into_dispatch()]);
    }
    activation::softmax(x, 2)
}
