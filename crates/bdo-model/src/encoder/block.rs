//! One pre-norm transformer block with the extra norm before the attention's output projection.

use crate::config::ModelConfig;
use crate::dropout::Dropout;
use crate::layer::{LayerNorm, Linear, LinearStart, Source};
use crate::ops::{self, Epilogue, Kernels, KeyPadding};
use crate::parameters::{ParameterError, Start};
use burn::module::Module;
use burn::tensor::Tensor;

/// x + attn(norm1(x)), then + ffn(norm2(.)).
#[derive(Module, Debug)]
pub struct Block {
    /// Before attention.
    pub norm1: LayerNorm,
    /// Attention over visible tokens.
    pub attn: Attention,
    /// Before the feed-forward layer.
    pub norm2: LayerNorm,
    /// Feed-forward layer.
    pub ffn: FeedForward,
}

/// Multi-head attention.
#[derive(Module, Debug)]
pub struct Attention {
    /// d -> 3d: all q, all k, all v; head-major inside each.
    pub qkv: Linear,
    /// The extra norm.
    pub norm: Option<LayerNorm>,
    /// d -> d.
    pub proj: Linear,
    heads: usize,
    #[module(skip)]
    kernels: Kernels,
}

/// d -> ratio d -> d with the exact GELU between.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// d -> ratio d.
    pub linear1: Linear,
    /// ratio d -> d.
    pub linear2: Linear,
}

/// Shape and options of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockShape {
    /// Width of a token, d.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width of the feed-forward layer as a multiple of `width`.
    pub ffn_ratio: usize,
    /// Added to the variance inside every layer norm.
    pub layer_norm_eps: f64,
    /// Bias of the query, key and value projections.
    pub qkv_bias: bool,
    /// The extra layer norm between attention and its output projection.
    pub attention_norm: bool,
    /// Start of the query, key and value projections.
    pub qkv_start: LinearStart,
    /// Start of the output projection of attention.
    pub proj_start: LinearStart,
    /// Start of both feed-forward layers.
    pub ffn_start: LinearStart,
}

impl Block {
    pub(crate) fn take(config: &ModelConfig, index: usize, source: &mut Source) -> Result<Self, ParameterError> {
        let shape = BlockShape {
            width: config.width,
            heads: config.heads,
            ffn_ratio: config.ffn_ratio,
            layer_norm_eps: config.layer_norm_eps,
            qkv_bias: config.qkv_bias,
            attention_norm: config.attention_norm,
            // Each of q, k and v counts as its own d x d matrix, so the bound is not that of a 3d x d one.
            qkv_start: LinearStart::Weight(Start::Uniform(xavier(config.width))),
            proj_start: LinearStart::Weight(Start::Uniform(config.attention_output_init * xavier(config.width))),
            ffn_start: LinearStart::FanIn,
        };
        Self::build(&format!("encoder.blocks.{index}"), shape, source)
    }

    /// A block whose parameters are named `name.*`.
    pub fn build(name: &str, config: BlockShape, source: &mut Source) -> Result<Self, ParameterError> {
        source.under(name, |source| {
            let (d, eps, hidden) = (config.width, config.layer_norm_eps, config.ffn_ratio * config.width);
            Ok(Self {
                norm1: source.norm("norm1", d, eps)?,
                attn: Attention {
                    qkv: source.linear_from("attn.qkv", d, 3 * d, config.qkv_start, config.qkv_bias)?,
                    norm: if config.attention_norm { Some(source.norm("attn.norm", d, eps)?) } else { None },
                    proj: source.linear_from("attn.proj", d, d, config.proj_start, true)?,
                    heads: config.heads,
                    kernels: source.kernels,
                },
                norm2: source.norm("norm2", d, eps)?,
                ffn: FeedForward {
                    linear1: source.linear_from("ffn.linear1", d, hidden, config.ffn_start, true)?,
                    linear2: source.linear_from("ffn.linear2", hidden, d, config.ffn_start, true)?,
                },
            })
        })
    }

    /// [B, T, d] -> [B, T, d].
    pub fn forward(&self, x: Tensor<3>, padding: &KeyPadding, dropout: Option<(Dropout, usize)>) -> Tensor<3> {
        let mixed = self.attn.mix(self.norm1.forward(x.clone()), padding, dropout);
        let u = self.attn.proj.forward_then(mixed, Epilogue::Add(x));
        let hidden = self.ffn.linear1.forward_then(self.norm2.forward(u.clone()), Epilogue::Gelu);
        self.ffn.linear2.forward_then(hidden, Epilogue::Add(u))
    }
}

impl Attention {
    /// Everything before the output projection: [B, T, d] -> [B, T, d].
    fn mix(&self, x: Tensor<3>, padding: &KeyPadding, dropout: Option<(Dropout, usize)>) -> Tensor<3> {
        let mixed = ops::attention(self.kernels, self.qkv.forward(x), self.heads, padding, dropout);
        match &self.norm {
            Some(norm) => norm.forward(mixed),
            None => mixed,
        }
    }
}

/// The Xavier-uniform bound of a d x d matrix.
fn xavier(d: usize) -> f64 {
    (6.0 / (2 * d) as f64).sqrt()
}
