//! Bidirectional attention over visible tokens, ragged batches padded at the end.

use super::Kernels;
use super::fused::{self, Attention};
use crate::device::upload;
use crate::dropout::Dropout;
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

    /// Visible keys per sample.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
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
        let dropout =
            dropout.map(|(dropout, site)| bdo_kernels::attention::Dropout::new(dropout.at(site), dropout.rate));
        let op = Attention { heads, lengths: padding.lengths.clone(), dropout, precision };
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
