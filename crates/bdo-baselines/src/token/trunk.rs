//! The transformer both token models have: pre-norm blocks, shared with BDO's encoder, and a final norm.

use bdo_model::dropout::Dropout;
use bdo_model::encoder::{Block, BlockShape};
use bdo_model::layer::{LayerNorm, LinearStart, Source};
use bdo_model::ops::KeyPadding;
use bdo_model::parameters::ParameterError;
use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

const EPS: f64 = 1e-6;
const FFN_RATIO: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrunkShape {
    /// Width of a token.
    pub width: usize,
    pub blocks: usize,
    pub heads: usize,
}

#[derive(Module, Debug)]
pub struct Trunk {
    /// Pre-norm blocks.
    pub blocks: Vec<Block>,
    /// After the last.
    pub norm: LayerNorm,
}

impl Trunk {
    pub(crate) fn build(
        name: &str,
        shape: TrunkShape,
        start: LinearStart,
        source: &mut Source,
    ) -> Result<Self, ParameterError> {
        let block = BlockShape {
            width: shape.width,
            heads: shape.heads,
            ffn_ratio: FFN_RATIO,
            layer_norm_eps: EPS,
            qkv_bias: true,
            attention_norm: false,
            qkv_start: start,
            proj_start: start,
            ffn_start: start,
        };
        source.under(name, |source| {
            let blocks = (0..shape.blocks).map(|i| Block::build(&format!("blocks.{i}"), block, source));
            Ok(Self { blocks: blocks.collect::<Result<_, _>>()?, norm: source.norm("norm", shape.width, EPS)? })
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
