//! The transformer both token models have: pre-norm blocks, shared with BDO's encoder, and a final norm.

use crate::table::Table;
use bdo_model::dropout::Dropout;
use bdo_model::encoder::{Block, BlockShape};
use bdo_model::layer::{LayerNorm, Source};
use bdo_model::ops::KeyPadding;
use bdo_model::parameters::{ParameterError, Start};
use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

const EPS: f64 = 1e-6;
const FFN_RATIO: usize = 4;

/// Sizes of a trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrunkShape {
    /// Width of a token.
    pub width: usize,
    /// Blocks.
    pub blocks: usize,
    /// Attention heads.
    pub heads: usize,
}

/// How the weights of linear layers start; biases start at zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightStart {
    /// Uniform in the Xavier bound.
    Xavier,
    /// Normal with standard deviation 0.02, cut off at two of them.
    Truncated,
}

impl WeightStart {
    /// A linear layer.
    pub(crate) fn linear(self, table: &mut Table, name: &str, inputs: usize, outputs: usize) {
        match self {
            Self::Xavier => table.xavier_linear(name, inputs, outputs),
            Self::Truncated => {
                table.push(&format!("{name}.weight"), &[outputs, inputs], Start::TruncatedNormal(0.02));
                table.push(&format!("{name}.bias"), &[outputs], Start::Zeros);
            }
        }
    }
}

/// Blocks and a norm.
#[derive(Module, Debug)]
pub struct Trunk {
    /// Pre-norm blocks.
    pub blocks: Vec<Block>,
    /// After the last.
    pub norm: LayerNorm,
}

impl Trunk {
    pub(crate) fn describe(table: &mut Table, name: &str, shape: TrunkShape, start: WeightStart) {
        let d = shape.width;
        for i in 0..shape.blocks {
            let block = format!("{name}.blocks.{i}");
            table.norm(&format!("{block}.norm1"), d);
            start.linear(table, &format!("{block}.attn.qkv"), d, 3 * d);
            start.linear(table, &format!("{block}.attn.proj"), d, d);
            table.norm(&format!("{block}.norm2"), d);
            start.linear(table, &format!("{block}.ffn.linear1"), d, FFN_RATIO * d);
            start.linear(table, &format!("{block}.ffn.linear2"), FFN_RATIO * d, d);
        }
        table.norm(&format!("{name}.norm"), d);
    }

    pub(crate) fn build(name: &str, shape: TrunkShape, source: &mut Source) -> Result<Self, ParameterError> {
        let block = BlockShape {
            width: shape.width,
            heads: shape.heads,
            ffn_ratio: FFN_RATIO,
            layer_norm_eps: EPS,
            qkv_bias: true,
            attention_norm: false,
        };
        Ok(Self {
            blocks: (0..shape.blocks)
                .map(|i| Block::build(&format!("{name}.blocks.{i}"), block, source))
                .collect::<Result<_, _>>()?,
            norm: source.norm(&format!("{name}.norm"), shape.width, EPS)?,
        })
    }

    /// [B, T, d] -> [B, T, d]; dropout acts on attention.
    pub fn forward(&self, mut x: Tensor<3>, dropout: Option<Dropout>) -> Tensor<3> {
        let [samples, tokens, _] = x.dims();
        let padding = KeyPadding::new(vec![tokens; samples], tokens, &x.device());
        for (site, block) in self.blocks.iter().enumerate() {
            x = block.forward(x, &padding, dropout.map(|dropout| (dropout, site)));
        }
        self.norm.forward(x)
    }
}
