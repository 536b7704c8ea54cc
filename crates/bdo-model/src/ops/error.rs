//! Weighted sums of squared differences: the terms of the objective.

use super::Kernels;
use super::fused::{self, FusedOp, constant, tensor, values};
use crate::device::upload;
use bdo_kernels::Isa;
use bdo_kernels::loss::{ErrorShape, MaskedError};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Float, Shape, Tensor, TensorData};
use std::sync::Arc;

/// Which rows and columns count, and how much.
#[derive(Clone, Debug)]
pub struct ErrorWeights {
    /// [B * T] weight of each row; 0 at padding.
    pub rows: Arc<Vec<f32>>,
    /// [B * N] 1 where a column counts, else 0; `None` where all do.
    pub columns: Option<Arc<Vec<f32>>>,
}

/// `sum_rows weight sum_columns (predicted - observed)^2`: both [B, T, N] -> [1]. `observed` is data or a stop-gradient target: no
/// gradient flows into it.
pub fn squared_error(kernels: Kernels, predicted: Tensor<3>, observed: Tensor<3>, weights: &ErrorWeights) -> Tensor<1> {
    if fused::applies(kernels, &predicted).is_some() {
        let observed = constant::<Flex>(observed.into_dispatch());
        return fused::run(Fused { observed, weights: weights.clone() }, [predicted.into_dispatch()]);
    }
    let [batch, slots, width] = predicted.dims();
    let place = (&predicted.device(), predicted.dtype());
    let constant =
        |values: &Arc<Vec<f32>>, shape: [usize; 3]| upload::<3, Float>(TensorData::new(values.to_vec(), shape), place);
    let mut error = predicted - observed.detach();
    if let Some(columns) = &weights.columns {
        error = error * constant(columns, [batch, 1, width]);
    }
    (error.square().sum_dim(2) * constant(&weights.rows, [batch, slots, 1])).sum()
}

/// The kernel, [B, T, n] -> [1].
#[derive(Debug)]
struct Fused {
    observed: FlexTensor,
    weights: ErrorWeights,
}

#[derive(Debug)]
struct Saved {
    op: Fused,
    predicted: FlexTensor,
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

impl FusedOp<1> for Fused {
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
