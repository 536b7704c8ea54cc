//! The moving average, in place where nobody else holds the old values.

use super::adam::primitive;
use super::buffer::values;
use bdo_kernels::{Isa, ema};
use burn::backend::Flex;
use burn::tensor::Tensor;

/// Both tensors live on the plain CPU device.
pub(in crate::ops) fn blend<const D: usize>(slow: Tensor<D>, fast: Tensor<D>, momentum: f64) -> Tensor<D> {
    let (mut slow, fast) = (primitive(slow), primitive(fast));
    ema::update(Isa::current(), momentum, slow.storage_mut::<f32>(), values(&fast));
    Tensor::from_primitive::<Flex>(slow)
}
