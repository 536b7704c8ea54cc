//! The kernel as a framework op with its own backward pass.

use super::kernel::{self, PairShape};
use bdo_model::ops::fused::{FusedOp, tensor, values};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::Shape;

/// row [B, C, I], column [B, C, J], weight [O, C, J] -> [B, I, O].
#[derive(Debug)]
pub(super) struct PairSum {
    pub(super) slope: f32,
}

/// The inputs: everything the backward pass needs, since it works the pairs out again.
#[derive(Debug)]
pub(super) struct Saved {
    inputs: [FlexTensor; 3],
    slope: f32,
}

impl Saved {
    fn shape(&self) -> PairShape {
        let [batch, channels, rows] = self.inputs[0].shape().dims();
        let [outputs, _, columns] = self.inputs[2].shape().dims();
        PairShape { batch, channels, rows, columns, outputs }
    }
}

impl FusedOp<3> for PairSum {
    type On = Flex;
    type Saved = Saved;

    fn forward(self, inputs: [FlexTensor; 3]) -> (FlexTensor, Saved) {
        let saved = Saved { inputs, slope: self.slope };
        let [row, column, weight] = saved.inputs.each_ref().map(values);
        let shape = saved.shape();
        let y = kernel::forward(shape, row, column, weight, self.slope);
        (tensor(y, Shape::from([shape.batch, shape.rows, shape.outputs])), saved)
    }

    fn backward(saved: &Saved, dy: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let [row, column, weight] = saved.inputs.each_ref().map(values);
        let found = kernel::backward(saved.shape(), row, column, weight, saved.slope, values(&dy));
        let mut like = saved.inputs.iter();
        [found.row, found.column, found.weight].map(|gradient| like.next().map(|like| tensor(gradient, like.shape())))
    }
}
