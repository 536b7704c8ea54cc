//! Softmax over the last axis.

use super::Kernels;
use super::fused::{self, FusedOp, last, tensor, values};
use bdo_kernels::{Isa, softmax as kernel};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Tensor, activation};

/// x [B, T, n] -> [B, T, n], each row non-negative and summing to one.
pub fn softmax(kernels: Kernels, x: Tensor<3>) -> Tensor<3> {
    if fused::applies(kernels, &x).is_some() {
        return fused::run(Fused, [x.into_dispatch()]);
    }
    activation::softmax(x, 2)
}

/// The kernel; keeps its output.
#[derive(Debug)]
struct Fused;

impl FusedOp<1> for Fused {
    type On = Flex;
    type Saved = FlexTensor;

    fn forward(self, [x]: [FlexTensor; 1]) -> (FlexTensor, FlexTensor) {
        let y = tensor(kernel::forward(Isa::current(), values(&x), last(&x)), x.shape());
        (y.clone(), y)
    }

    fn backward(y: &FlexTensor, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let dx = kernel::backward(Isa::current(), values(y), values(&dy), last(y));
        [Some(tensor(dx, y.shape()))]
    }
}
