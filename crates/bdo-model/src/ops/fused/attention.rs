//! Attention on packed qkv.

use super::FusedOp;
use super::buffer::{tensor, values, with_last};
use bdo_kernels::attention::{self, AttentionSaved, AttentionShape, Dropout, Products};
use bdo_kernels::{Isa, Precision};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};

/// Packed qkv [B, T, 3d] -> [B, T, d]; keys from `lengths[b]` on are hidden.
#[derive(Debug)]
pub(in crate::ops) struct Attention {
    pub(in crate::ops) heads: usize,
    pub(in crate::ops) lengths: Vec<usize>,
    pub(in crate::ops) dropout: Option<Dropout>,
    pub(in crate::ops) precision: Precision,
}

#[derive(Debug)]
pub(in crate::ops) struct Saved {
    op: Attention,
    qkv: FlexTensor,
    kept: AttentionSaved,
}

impl Attention {
    fn products(&self) -> Products {
        Products::new(Isa::current(), self.precision)
    }

    fn shape(&self, qkv: &FlexTensor) -> AttentionShape {
        let [batch, length, packed] = qkv.shape().dims();
        AttentionShape { batch, length, heads: self.heads, head_width: packed / 3 / self.heads }
    }
}

impl FusedOp<1> for Attention {
    type On = Flex;
    type Saved = Saved;

    fn infer(self, [qkv]: [FlexTensor; 1]) -> FlexTensor {
        let shape = self.shape(&qkv);
        let y = attention::infer(self.products(), shape, values(&qkv), Some(&self.lengths), self.dropout);
        tensor(y, with_last(&qkv, shape.width()))
    }

    fn forward(self, [qkv]: [FlexTensor; 1]) -> (FlexTensor, Saved) {
        let shape = self.shape(&qkv);
        let (y, kept) = attention::forward(self.products(), shape, values(&qkv), Some(&self.lengths), self.dropout);
        (tensor(y, with_last(&qkv, shape.width())), Saved { op: self, qkv, kept })
    }

    fn backward(saved: &Saved, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Saved { op, qkv, kept } = saved;
        let lengths = Some(&op.lengths[..]);
        let (shape, dy) = (op.shape(qkv), values(&dy));
        let found = attention::backward(op.products(), shape, values(qkv), lengths, op.dropout, kept, dy);
        [Some(tensor(found, qkv.shape()))]
    }
}
