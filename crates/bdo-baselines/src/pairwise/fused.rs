//! The kernel as a framework op with its own backward pass.

use super::kernel::{self, PairShape};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, DType, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Bytes, Shape};

/// The kernel, seen as an op of a backend.
#[backend_extension(Flex, Autodiff)]
pub(super) trait PairOps: Backend {
    /// row [B, C, I], column [B, C, J], weight [O, C, J] -> [B, I, O].
    fn fused_pair_sum(
        row: FloatTensor<Self>,
        column: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        slope: f32,
    ) -> FloatTensor<Self>;
}

impl PairOps for Flex {
    fn fused_pair_sum(row: FlexTensor, column: FlexTensor, weight: FlexTensor, slope: f32) -> FlexTensor {
        Saved::new([row, column, weight], slope).forward()
    }
}

impl<C: CheckpointStrategy> PairOps for Autodiff<Flex, C> {
    fn fused_pair_sum(
        row: FloatTensor<Self>,
        column: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        slope: f32,
    ) -> FloatTensor<Self> {
        let [row, column, weight] = [row, column, weight].map(FloatTensor::<Self>::into_parts);
        let nodes = [row.1, column.1, weight.1];
        let saved = Saved::new([row.0, column.0, weight.0], slope);
        let y = saved.forward();
        match PairBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish(saved, y),
            OpsKind::UnTracked(prepared) => prepared.finish(y),
        }
    }
}

/// The inputs: everything the backward pass needs, since it works the pairs out again.
#[derive(Clone, Debug)]
struct Saved {
    inputs: [FlexTensor; 3],
    slope: f32,
}

impl Saved {
    fn new(inputs: [FlexTensor; 3], slope: f32) -> Self {
        Self { inputs: inputs.map(contiguous), slope }
    }

    fn shape(&self) -> PairShape {
        let [batch, channels, rows] = self.inputs[0].shape().dims();
        let [outputs, _, columns] = self.inputs[2].shape().dims();
        PairShape { batch, channels, rows, columns, outputs }
    }

    fn slices(&self) -> [&[f32]; 3] {
        [0, 1, 2].map(|i| values(&self.inputs[i]))
    }

    fn forward(&self) -> FlexTensor {
        let [row, column, weight] = self.slices();
        let shape = self.shape();
        let y = kernel::forward(shape, row, column, weight, self.slope);
        tensor(y, Shape::from([shape.batch, shape.rows, shape.outputs]))
    }
}

#[derive(Debug)]
struct PairBackward;

impl Backward<Flex, 3> for PairBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let upstream = contiguous(grads.consume::<Flex>(&ops.node));
        let saved = ops.state;
        let [row, column, weight] = saved.slices();
        let found = kernel::backward(saved.shape(), row, column, weight, saved.slope, values(&upstream));
        for ((parent, gradient), input) in
            ops.parents.into_iter().zip([found.row, found.column, found.weight]).zip(&saved.inputs)
        {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, tensor(gradient, input.shape()));
            }
        }
    }
}

fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.as_slice::<f32>().is_some() { tensor } else { tensor.to_contiguous() }
}

fn values(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("a contiguous f32 tensor: it went through `contiguous`")
}

fn tensor(values: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), DType::F32)
}
