//! The optimiser's arithmetic, in place where nobody else holds the old values.

use super::buffer::{contiguous, values};
use crate::ops::adam::AdamState;
use bdo_kernels::Isa;
use bdo_kernels::adam::{self, Adam};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;

/// All tensors live on the plain CPU device.
pub(in crate::ops) fn adam_step<const D: usize>(
    adam: &Adam,
    step: u64,
    state: AdamState<D>,
    gradient: Tensor<D>,
) -> AdamState<D> {
    let [mut value, mut mean, mut square] = [state.value, state.mean, state.square].map(primitive);
    adam.step(
        Isa::current(),
        step,
        value.storage_mut::<f32>(),
        values(&primitive(gradient)),
        mean.storage_mut::<f32>(),
        square.storage_mut::<f32>(),
    );
    let [value, mean, square] = [value, mean, square].map(Tensor::from_primitive::<Flex>);
    AdamState { value, mean, square }
}

pub(in crate::ops) fn squared_norm<const D: usize>(x: Tensor<D>) -> f64 {
    adam::squared_norm(Isa::current(), values(&primitive(x)))
}

/// The CPU tensor behind a framework tensor.
pub(super) fn primitive<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    contiguous(tensor.inner().try_into_primitive::<Flex>().expect("a tensor of the plain CPU device"))
}
