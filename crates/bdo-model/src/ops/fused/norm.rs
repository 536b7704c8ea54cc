//! Layer normalisation.

use super::buffer::{contiguous, tensor, values};
use bdo_kernels::{Isa, norm};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex, TensorMetadata};
use std::sync::Arc;

pub(super) fn infer(x: FlexTensor, weight: FlexTensor, bias: FlexTensor, eps: f32) -> FlexTensor {
    let (x, weight, bias) = (contiguous(x), contiguous(weight), contiguous(bias));
    tensor(norm::forward(Isa::current(), values(&x), values(&weight), values(&bias), eps).y, x.shape())
}

#[derive(Clone, Debug)]
struct Saved {
    x: FlexTensor,
    weight: FlexTensor,
    mean: Arc<Vec<f32>>,
    rstd: Arc<Vec<f32>>,
}

#[derive(Debug)]
struct NormBackward;

impl Backward<Flex, 3> for NormBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = contiguous(grads.consume::<Flex>(&ops.node));
        let [x, weight, bias] = ops.parents;
        let saved = ops.state;
        let found = norm::backward(
            Isa::current(),
            values(&saved.x),
            values(&saved.weight),
            &saved.mean,
            &saved.rstd,
            values(&dy),
        );
        if let Some(x) = x {
            grads.register::<Flex>(x.id, tensor(found.dx, saved.x.shape()));
        }
        if let Some(weight) = weight {
            grads.register::<Flex>(weight.id, tensor(found.dgamma, saved.weight.shape()));
        }
        if let Some(bias) = bias {
            grads.register::<Flex>(bias.id, tensor(found.dbeta, saved.weight.shape()));
        }
    }
}

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

pub(super) fn train<C: CheckpointStrategy>(
    x: Tracked<C>,
    weight: Tracked<C>,
    bias: Tracked<C>,
    eps: f32,
) -> Tracked<C> {
    let ((x, x_node), (weight, weight_node), (bias, bias_node)) =
        (x.into_parts(), weight.into_parts(), bias.into_parts());
    let (x, weight, bias) = (contiguous(x), contiguous(weight), contiguous(bias));
    let output = norm::forward(Isa::current(), values(&x), values(&weight), values(&bias), eps);
    let y = tensor(output.y, x.shape());
    match NormBackward.prepare::<C>([x_node, weight_node, bias_node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            prepared.finish(Saved { x, weight, mean: Arc::new(output.mean), rstd: Arc::new(output.rstd) }, y)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    }
}
