//! Softmax over the last axis.

use super::FusedOp;
use super::buffer::{last, tensor, values};
use bdo_kernels::{Isa, softmax};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};

/// x [.., n] -> [.., n]; keeps its output.
#[derive(Debug)]
pub(in crate::ops) struct Softmax;

impl FusedOp<1> for Softmax {
    type On = Flex;
    type Saved = FlexTensor;

    fn forward(self, [x]: [FlexTensor; 1]) -> (FlexTensor, FlexTensor) {
        let y = tensor(softmax::forward(Isa::current(), values(&x), last(&x)), x.shape());
        (y.clone(), y)
    }

    fn backward(y: &FlexTensor, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let dx = softmax::backward(Isa::current(), values(y), values(&dy), last(y));
        [Some(tensor(dx, y.shape()))]
    }
}
