//! Rows of a table.

use super::Kernels;
use crate::device::upload;
use burn::tensor::{Int, Tensor};

/// x [B, K, n], rows of the flattened [B * K] -> [B, slots, n]. A row may be named again where the slots of its sample are padded:
/// no gradient is expected there.
pub fn rows(kernels: Kernels, x: &Tensor<3>, list: &[usize], slots: usize) -> Tensor<3> {
    let [batch, frames, width] = x.dims();
    let x = x.clone().reshape([batch * frames, width]);
    #[cfg(feature = "cube")]
    if super::cube::applies(kernels, &x) && x.is_autodiff() {
        return super::cube::rows(x, list).reshape([batch, slots, width]); // [B, slots, n]
    }
    let _ = kernels; // Only cards have a kernel of their own.
    let list: Vec<i32> = list.iter().map(|&row| row as i32).collect();
    let list = upload::<1, Int>(list.as_slice(), &x.device());
    x.select(0, list).reshape([batch, slots, width]) // [B, slots, n]
}
