//! One optimiser step of one parameter in one launch, in place.

use super::{contiguous, elements, owned, primitive, threads};
use crate::ops::adam::AdamState;
use bdo_kernels::adam::{Adam, Factors};
use burn::backend::Cube;
use burn::tensor::Tensor;
use cubecl::prelude::*;

#[cube(launch)]
fn adam_kernel(
    value: &mut [f32],
    mean: &mut [f32],
    square: &mut [f32],
    gradient: &[f32],
    beta1: f32,
    rest1: f32,
    beta2: f32,
    rest2: f32,
    step: f32,
    root: f32,
    eps: f32,
    keep: f32,
    coupled: f32,
    gradient_scale: f32,
) {
    if ABSOLUTE_POS < value.len() {
        let old = value[ABSOLUTE_POS];
        let g = gradient[ABSOLUTE_POS] * gradient_scale + coupled * old;
        let m = mean[ABSOLUTE_POS] * beta1 + g * rest1;
        let v = square[ABSOLUTE_POS] * beta2 + g * g * rest2;
        mean[ABSOLUTE_POS] = m;
        square[ABSOLUTE_POS] = v;
        value[ABSOLUTE_POS] = old * keep - step * m / (v.sqrt() * root + eps);
    }
}

pub(in crate::ops) fn adam_step<const D: usize>(
    adam: &Adam,
    step: u64,
    state: AdamState<D>,
    gradient: Tensor<D>,
) -> AdamState<D> {
    let [value, mean, square] = [state.value, state.mean, state.square].map(|tensor| owned(primitive(tensor)));
    let gradient = contiguous(gradient);
    let (count, dim) = threads(&value, elements(&value));
    let Factors { beta1, rest1, beta2, rest2, step, root, eps, keep, coupled, gradient_scale } = adam.factors(step);
    adam_kernel::launch(
        &value.client.clone(),
        count,
        dim,
        value.clone().into_buffer_arg(),
        mean.clone().into_buffer_arg(),
        square.clone().into_buffer_arg(),
        gradient.into_buffer_arg(),
        beta1,
        rest1,
        beta2,
        rest2,
        step,
        root,
        eps,
        keep,
        coupled,
        gradient_scale,
    );
    let [value, mean, square] = [value, mean, square].map(Tensor::from_primitive::<Cube>);
    AdamState { value, mean, square }
}
