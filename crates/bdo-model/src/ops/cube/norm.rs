//! The sum of squares of many tensors: one launch each, and one sum over what they leave.

use super::{contiguous, elements, empty_like, threads};
use burn::backend::{Cube, TensorMetadata};
use burn::tensor::{Shape, Tensor};
use cubecl::prelude::*;

/// Threads that share a tensor; each leaves one number.
const SHARES: usize = 4096;

#[cube(launch)]
fn squares_kernel(x: &[f32], sums: &mut [f32], from: usize, shares: usize) {
    if ABSOLUTE_POS < shares {
        let mut sum = f32::new(0.0_f32);
        let rounds = x.len().div_ceil(shares);
        for round in 0..rounds {
            let at = round * shares + ABSOLUTE_POS;
            if at < x.len() {
                sum += x[at] * x[at];
            }
        }
        sums[from + ABSOLUTE_POS] = sum;
    }
}

/// Sum of squares over all tensors, which are on one graphics card and outside any tape: one number [1], still there.
pub(in crate::ops) fn squared_norms<'a>(tensors: impl Iterator<Item = &'a Tensor<1>>) -> Option<Tensor<1>> {
    let tensors: Vec<_> = tensors.map(|tensor| contiguous(tensor.clone())).filter(|x| elements(x) > 0).collect();
    let shares: Vec<usize> = tensors.iter().map(|tensor| elements(tensor).min(SHARES)).collect();
    let sums = empty_like(tensors.first()?, Shape::new([shares.iter().sum()]));
    let mut from = 0;
    for (tensor, shares) in tensors.into_iter().zip(shares) {
        let (count, dim) = threads(&tensor, shares);
        let client = tensor.client.clone();
        let (x, out) = (tensor.into_buffer_arg(), sums.clone().into_buffer_arg());
        squares_kernel::launch(&client, count, dim, x, out, from, shares);
        from += shares;
    }
    debug_assert_eq!(from, sums.shape().num_elements());
    Some(Tensor::<1>::from_primitive::<Cube>(sums).sum())
}
