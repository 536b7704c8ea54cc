//! The update of a moving average in one launch, in place.

use super::{contiguous, elements, owned, primitive, threads};
use burn::backend::Cube;
use burn::tensor::Tensor;
use cubecl::prelude::*;

#[cube(launch)]
fn blend_kernel(slow: &mut [f32], fast: &[f32], momentum: f32, rest: f32) {
    if ABSOLUTE_POS < slow.len() {
        slow[ABSOLUTE_POS] = slow[ABSOLUTE_POS] * momentum + fast[ABSOLUTE_POS] * rest;
    }
}

pub(in crate::ops) fn blend<const D: usize>(slow: Tensor<D>, fast: Tensor<D>, momentum: f64) -> Tensor<D> {
    let (slow, fast) = (owned(primitive(slow)), contiguous(fast));
    let (count, dim) = threads(&slow, elements(&slow));
    let (slow_arg, fast_arg) = (slow.clone().into_buffer_arg(), fast.into_buffer_arg());
    let client = slow.client.clone();
    blend_kernel::launch(&client, count, dim, slow_arg, fast_arg, momentum as f32, (1.0 - momentum) as f32);
    Tensor::from_primitive::<Cube>(slow)
}
