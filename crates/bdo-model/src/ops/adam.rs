//! One optimiser step of one parameter, and the norm gradients are clipped by. The training loop owns the schedule and
//! the moments; only the arithmetic is here, beside the other places that touch a tensor's memory.

use super::{Kernels, fused};
use burn::tensor::Tensor;

pub use bdo_kernels::adam::{Adam, WeightDecay};

/// A parameter and its two moments, all of one shape and outside any gradient tape.
#[derive(Clone, Debug)]
pub struct AdamState<const D: usize> {
    /// The parameter.
    pub value: Tensor<D>,
    /// First moment.
    pub mean: Tensor<D>,
    /// Second moment.
    pub square: Tensor<D>,
}

/// Step number `step`, counted from 1.
pub fn adam_step<const D: usize>(
    kernels: Kernels,
    adam: &Adam,
    step: u64,
    state: AdamState<D>,
    gradient: Tensor<D>,
) -> AdamState<D> {
    if fused::applies(kernels, &state.value).is_some() {
        return fused::adam_step(adam, step, state, gradient);
    }
    #[cfg(feature = "cube")]
    if super::cube::applies(kernels, &state.value) {
        return super::cube::adam_step(adam, step, state, gradient);
    }
    let AdamState { value, mean, square } = state;
    let correction = |beta: f64| 1.0 - beta.powf(step as f64);
    let mut gradient = gradient * adam.gradient_scale;
    let value = match adam.weight_decay {
        WeightDecay::None => value,
        WeightDecay::Decoupled(decay) => value * (1.0 - adam.learning_rate * decay),
        WeightDecay::Coupled(decay) => {
            gradient = gradient + value.clone() * decay;
            value
        }
    };
    let mean = mean * adam.beta1 + gradient.clone() * (1.0 - adam.beta1);
    let square = square * adam.beta2 + gradient.square() * (1.0 - adam.beta2);
    let root = square.clone().sqrt() * (1.0 / correction(adam.beta2).sqrt()) + adam.eps;
    let value = value - mean.clone() / root * (adam.learning_rate / correction(adam.beta1));
    AdamState { value, mean, square }
}

/// Sum of squares of a tensor outside any gradient tape, in double precision where it can be had.
pub fn squared_norm<const D: usize>(kernels: Kernels, x: Tensor<D>) -> f64 {
    if fused::applies(kernels, &x).is_some() {
        return fused::squared_norm(x);
    }
    f64::from(x.square().sum().into_scalar::<f32>())
}

/// Sum of squares of all tensors of a device that is not the CPU, where they are: [1]. None of none.
pub fn squared_norms<'a>(kernels: Kernels, tensors: impl Iterator<Item = &'a Tensor<1>>) -> Option<Tensor<1>> {
    let mut tensors = tensors.peekable();
    #[cfg(feature = "cube")]
    if super::cube::applies(kernels, tensors.peek()?) {
        return super::cube::squared_norms(tensors);
    }
    let _ = (kernels, tensors.peek()?);
    tensors.map(|x| x.clone().square().sum()).reduce(|sum, next| sum + next)
}
