//! Bidirectional attention over visible tokens, ragged batches padded at the end.

use super::fused::{self, FusedOp, tensor, values, with_last};
use super::{Kernels, Precision};
use crate::device::upload;
use crate::dropout::Dropout;
use bdo_kernels::Isa;
use bdo_kernels::attention::{self as kernel, AttentionSaved, AttentionShape, Products};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Bool, Device, Tensor, TensorData, activation};

/// How many leading tokens of each sample are real.
#[derive(Clone, Debug)]
pub struct KeyPadding {
    lengths: Vec<usize>,
    hidden: Option<Tensor<4, Bool>>,
}

impl KeyPadding {
    /// `lengths[b]` of `tokens` keys are visible in sample b; each length is at least 1.
    pub fn new(lengths: Vec<usize>, tokens: usize, device: &Device) -> Self {
        let ragged = lengths.iter().any(|&length| length != tokens);
        let hidden = ragged.then(|| {
            let flags: Vec<bool> = lengths.iter().flat_map(|&length| (0..tokens).map(move |t| t >= length)).collect();
            upload(TensorData::new(flags, [lengths.len(), 1, 1, tokens]), device)
        });
        Self { lengths, hidden }
    }
}

/// Packed qkv [B, T, 3d] (all q, all k, all v; head-major inside each) -> [B, T, d]. Dropout acts on the
/// probabilities; its second field tells layers apart. Rows of padding hold unused values.
pub fn attention(
    kernels: Kernels,
    qkv: Tensor<3>,
    heads: usize,
    padding: &KeyPadding,
    dropout: Option<(Dropout, usize)>,
) -> Tensor<3> {
    // A score no real one can approach; a true infinity would turn into NaN if a device multiplied it by zero.
    const HIDDEN_SCORE: f32 = -1e30;
    if let Some(precision) = fused::applies(kernels, &qkv) {
        // The masks of the composed form, drawn again where they are needed in place of a square of memory per head.
        let dropout = dropout.map(|(dropout, site)| kernel::Dropout::new(dropout.at(site), dropout.rate));
        let op = Fused { heads, lengths: padding.lengths.clone(), dropout, precision };
        return fused::run(op, [qkv.into_dispatch()]);
    }
    let [batch, tokens, packed] = qkv.dims();
    let width = packed / 3;
    let head_width = width / heads;
    let part = |i: usize| {
        qkv.clone().narrow(2, i * width, width).reshape([batch, tokens, heads, head_width]).swap_dims(1, 2) // [B, heads, T, head_width]
    };
    let scores = (part(0) * (1.0 / (head_width as f64).sqrt())).matmul(part(1).transpose()); // [B, heads, T, T]
    let scores = match &padding.hidden {
        Some(hidden) => scores.mask_fill(hidden.clone().expand([batch, heads, tokens, tokens]), HIDDEN_SCORE),
        None => scores,
    };
    let mut probabilities = activation::softmax(scores, 3);
    if let Some((dropout, site)) = dropout {
        probabilities = dropout.apply(site, probabilities);
    }
    probabilities.matmul(part(2)).swap_dims(1, 2).reshape([batch, tokens, width]) // [B, T, d]
}

/// The kernel; keys from `lengths[b]` on are hidden.
#[derive(Debug)]
struct Fused {
    heads: usize,
    lengths: Vec<usize>,
    dropout: Option<kernel::Dropout>,
    precision: Precision,
}

#[derive(Debug)]
struct Saved {
    op: Fused,
    qkv: FlexTensor,
    kept: AttentionSaved,
}

impl Fused {
    fn products(&self) -> Products {
        Products::new(Isa::current(), self.precision)
    }

    fn shape(&self, qkv: &FlexTensor) -> AttentionShape {
        let [batch, length, packed] = qkv.shape().dims();
        AttentionShape { batch, length, heads: self.heads, head_width: packed / 3 / self.heads }
    }
}

impl FusedOp<1> for Fused {
    type On = Flex;
    type Saved = Saved;

    fn infer(self, [qkv]: [FlexTensor; 1]) -> FlexTensor {
        let shape = self.shape(&qkv);
        let y = kernel::infer(self.products(), shape, values(&qkv), &self.lengths, self.dropout);
        tensor(y, with_last(&qkv, shape.width()))
    }

    fn forward(self, [qkv]: [FlexTensor; 1]) -> (FlexTensor, Saved) {
        let shape = self.shape(&qkv);
        let (y, kept) = kernel::forward(self.products(), shape, values(&qkv), &self.lengths, self.dropout);
        (tensor(y, with_last(&qkv, shape.width())), Saved { op: self, qkv, kept })
    }

    fn backward(saved: &Saved, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Saved { op, qkv, kept } = saved;
        let (shape, dy) = (op.shape(qkv), values(&dy));
        let found = kernel::backward(op.products(), shape, values(qkv), &op.lengths, op.dropout, kept, dy);
        [Some(tensor(found, qkv.shape()))]
    }
}
