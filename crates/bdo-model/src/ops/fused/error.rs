//! Weighted sums of squares: the terms of the objective.

use super::buffer::{tensor, values};
use super::{FusedOp, constant};
use crate::ops::error::ErrorWeights;
use bdo_kernels::Isa;
use bdo_kernels::loss::{ErrorShape, MaskedError};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Shape, Tensor};

/// Weighted sum of squared differences [B, T, n] -> [1]. The observed side is data or a stop-gradient target: nothing flows into it.
#[derive(Debug)]
pub(in crate::ops) struct SquaredError {
    observed: FlexTensor,
    weights: ErrorWeights,
}

#[derive(Debug)]
pub(in crate::ops) struct Saved {
    op: SquaredError,
    predicted: FlexTensor,
}

impl SquaredError {
    pub(in crate::ops) fn new(observed: Tensor<3>, weights: ErrorWeights) -> Self {
        Self { observed: constant::<Flex>(observed.into_dispatch()), weights }
    }
}

impl Saved {
    fn shape(&self) -> ErrorShape {
        let [batch, rows, columns] = self.predicted.shape().dims();
        ErrorShape { batch, rows, columns }
    }

    fn view(&self) -> MaskedError<'_> {
        MaskedError {
            prediction: values(&self.predicted),
            target: values(&self.op.observed),
            row_weights: &self.op.weights.rows,
            valid: self.op.weights.columns.as_ref().map(|columns| columns.as_slice()),
        }
    }
}

impl FusedOp<1> for SquaredError {
    type On = Flex;
    type Saved = Saved;

    fn forward(self, [predicted]: [FlexTensor; 1]) -> (FlexTensor, Saved) {
        let saved = Saved { op: self, predicted };
        let sum = saved.view().forward(Isa::current(), saved.shape()) as f32;
        (tensor(vec![sum], Shape::from([1])), saved)
    }

    fn backward(saved: &Saved, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let gradient = saved.view().backward(Isa::current(), saved.shape(), values(&dy)[0]);
        [Some(tensor(gradient, saved.predicted.shape()))]
    }
}
