//! Weighted sums of squares: the terms of the objective.

use super::buffer::{contiguous, tensor, values};
use bdo_kernels::Isa;
use bdo_kernels::loss::{ErrorShape, MaskedError};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex, TensorMetadata};
use burn::tensor::Shape;
use std::sync::Arc;

/// Constant side of a masked squared error.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Weights {
    /// [B * T] weight of each row.
    pub(in crate::ops) rows: Arc<Vec<f32>>,
    /// [B * N] 1 where a column counts, else 0; `None` where all do.
    pub(in crate::ops) columns: Option<Arc<Vec<f32>>>,
}

#[derive(Clone, Debug)]
struct Saved {
    predicted: FlexTensor,
    observed: FlexTensor,
    weights: Weights,
}

impl Saved {
    fn new(predicted: FlexTensor, observed: FlexTensor, weights: Weights) -> Self {
        Self { predicted: contiguous(predicted), observed: contiguous(observed), weights }
    }

    fn shape(&self) -> ErrorShape {
        let [batch, rows, columns] = self.predicted.shape().dims();
        ErrorShape { batch, rows, columns }
    }

    fn view(&self) -> MaskedError<'_> {
        MaskedError {
            prediction: values(&self.predicted),
            target: values(&self.observed),
            row_weights: &self.weights.rows,
            valid: self.weights.columns.as_ref().map(|columns| columns.as_slice()),
        }
    }

    fn sum(&self) -> FlexTensor {
        tensor(vec![self.view().forward(Isa::current(), self.shape()) as f32], Shape::from([1]))
    }
}

pub(super) fn infer(predicted: FlexTensor, observed: FlexTensor, weights: Weights) -> FlexTensor {
    Saved::new(predicted, observed, weights).sum()
}

#[derive(Debug)]
struct ErrorBackward;

impl Backward<Flex, 1> for ErrorBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let upstream = contiguous(grads.consume::<Flex>(&ops.node));
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            let saved = ops.state;
            let gradient = saved.view().backward(Isa::current(), saved.shape(), values(&upstream)[0]);
            grads.register::<Flex>(parent.id, tensor(gradient, saved.predicted.shape()));
        }
    }
}

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

/// The observed side is data or a stop-gradient target: nothing flows into it.
pub(super) fn train<C: CheckpointStrategy>(
    predicted: Tracked<C>,
    observed: Tracked<C>,
    weights: Weights,
) -> Tracked<C> {
    let ((predicted, node), (observed, _)) = (predicted.into_parts(), observed.into_parts());
    let saved = Saved::new(predicted, observed, weights);
    let sum = saved.sum();
    match ErrorBackward.prepare::<C>([node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(saved, sum),
        OpsKind::UnTracked(prepared) => prepared.finish(sum),
    }
}
