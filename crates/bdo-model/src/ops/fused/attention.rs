//! Attention on packed qkv.

use super::buffer::{contiguous, tensor, values, with_last};
use bdo_kernels::attention::{self, AttentionSaved, AttentionShape, Products};
use bdo_kernels::{Isa, Precision};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex, TensorMetadata};
use std::fmt;
use std::sync::Arc;

pub(super) fn infer(qkv: FlexTensor, heads: usize, lengths: &[usize], precision: Precision) -> FlexTensor {
    let qkv = contiguous(qkv);
    let shape = shape_of(&qkv, heads);
    tensor(attention::infer(products(precision), shape, values(&qkv), Some(lengths)), with_last(&qkv, shape.width()))
}

fn products(precision: Precision) -> Products {
    Products::new(Isa::current(), precision)
}

fn shape_of(qkv: &FlexTensor, heads: usize) -> AttentionShape {
    let [batch, length, packed] = qkv.shape().dims();
    AttentionShape { batch, length, heads, head_width: packed / 3 / heads }
}

#[derive(Clone)]
struct Saved {
    qkv: FlexTensor,
    heads: usize,
    lengths: Arc<Vec<usize>>,
    precision: Precision,
    kept: Arc<AttentionSaved>,
}

impl fmt::Debug for Saved {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_struct("Saved").field("qkv", &self.qkv).field("heads", &self.heads).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct AttentionBackward;

impl Backward<Flex, 1> for AttentionBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = contiguous(grads.consume::<Flex>(&ops.node));
        let [parent] = ops.parents;
        let saved = ops.state;
        if let Some(parent) = parent {
            let shape = shape_of(&saved.qkv, saved.heads);
            let found = attention::backward(
                products(saved.precision),
                shape,
                values(&saved.qkv),
                Some(&saved.lengths),
                &saved.kept,
                values(&dy),
            );
            grads.register::<Flex>(parent.id, tensor(found, saved.qkv.shape()));
        }
    }
}

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

pub(super) fn train<C: CheckpointStrategy>(
    qkv: Tracked<C>,
    heads: usize,
    lengths: Vec<usize>,
    precision: Precision,
) -> Tracked<C> {
    let (qkv, node) = qkv.into_parts();
    let qkv = contiguous(qkv);
    match AttentionBackward.prepare::<C>([node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let shape = shape_of(&qkv, heads);
            let (y, kept) = attention::forward(products(precision), shape, values(&qkv), Some(&lengths));
            let y = tensor(y, with_last(&qkv, shape.width()));
            let saved = Saved { qkv, heads, lengths: Arc::new(lengths), precision, kept: Arc::new(kept) };
            prepared.finish(saved, y)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(infer(qkv, heads, &lengths, precision)),
    }
}
