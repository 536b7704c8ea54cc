//! What changes parameters: an optimiser step, the update of a moving average, both in place where nobody else holds the old values,
//! and the norm gradients are clipped by. The training loop owns the schedule and the moments; only the arithmetic is here, beside the
//! other places that touch a tensor's memory.

use super::Kernels;
use super::fused::{self, primitive, values};
use bdo_kernels::{Isa, ema};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
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
    let AdamState { value, mean, square } = state;
    if fused::applies(kernels, &value).is_some() {
        let mut all = [value, mean, square].map(primitive);
        let [p, m, v] = all.each_mut().map(FlexTensor::storage_mut::<f32>);
        adam.step(Isa::current(), step, p, values(&primitive(gradient)), m, v);
        let [value, mean, square] = all.map(Tensor::from_primitive::<Flex>);
        return AdamState { value, mean, square };
    }
    #[cfg(feature = "cube")]
    if super::cube::applies(kernels, &value) {
        return super::cube::adam_step(adam, step, AdamState { value, mean, square }, gradient);
    }
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

/// momentum slow + (1 - momentum) fast, outside any gradient tape; a momentum of 1 leaves `slow` as it is.
pub fn blend<const D: usize>(kernels: Kernels, slow: Tensor<D>, fast: Tensor<D>, momentum: f64) -> Tensor<D> {
    if momentum == 1.0 {
        return slow;
    }
    if fused::applies(kernels, &slow).is_some() && !slow.is_autodiff() && !fast.is_autodiff() {
        let (mut slow, fast) = (primitive(slow), primitive(fast));
        ema::update(Isa::current(), momentum, slow.storage_mut::<f32>(), values(&fast));
        return Tensor::from_primitive::<Flex>(slow);
    }
    #[cfg(feature = "cube")]
    if super::cube::applies(kernels, &slow) && !slow.is_autodiff() && !fast.is_autodiff() {
        return super::cube::blend(slow, fast, momentum);
    }
    slow * momentum + fast * (1.0 - momentum)
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
