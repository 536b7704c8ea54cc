//! Softmax over the last axis.

use super::buffer::{contiguous, last, tensor, values};
use bdo_kernels::{Isa, softmax};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex, TensorMetadata};

pub(super) fn infer(x: FlexTensor) -> FlexTensor {
    let x = contiguous(x);
    tensor(softmax::forward(Isa::current(), values(&x), last(&x)), x.shape())
}

#[derive(Debug)]
struct SoftmaxBackward;

impl Backward<Flex, 1> for SoftmaxBackward {
    type State = FlexTensor;

    fn backward(self, ops: Ops<FlexTensor, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = contiguous(grads.consume::<Flex>(&ops.node));
        let [x] = ops.parents;
        let y = ops.state;
        if let Some(x) = x {
            let dx = softmax::backward(Isa::current(), values(&y), values(&dy), last(&y));
            grads.register::<Flex>(x.id, tensor(dx, y.shape()));
        }
    }
}

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

pub(super) fn train<C: CheckpointStrategy>(x: Tracked<C>) -> Tracked<C> {
    let (x, node) = x.into_parts();
    let y = infer(x);
    match SoftmaxBackward.prepare::<C>([node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(y.clone(), y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    }
}
