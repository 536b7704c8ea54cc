//! One pre-norm transformer block with the extra norm before the attention's output projection.

use crate::config::ModelConfig;
use crate::dropout::Dropout;
use crate::layer::{LayerNorm, Linear, Source};
use crate::ops::{self, Epilogue, Kernels, KeyPadding};
use crate::parameters::ParameterError;
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
        };
        Self::build(&format!("encoder.blocks.{index}"), shape, source)
    }

    /// A block whose parameters are named `name.*`.
    pub fn build(name: &str, config: BlockShape, source: &mut Source) -> Result<Self, ParameterError> {
        let (d, eps) = (config.width, config.layer_norm_eps);
        let norm1 = source.norm(&format!("{name}.norm1"), d, eps)?;
        let attn = Attention {
            qkv: source.linear(&format!("{name}.attn.qkv"), d, 3 * d, config.qkv_bias)?,
            norm: if config.attention_norm { Some(source.norm(&format!("{name}.attn.norm"), d, eps)?) } else { None },
            proj: source.linear(&format!("{name}.attn.proj"), d, d, true)?,
            heads: config.heads,
            kernels: source.kernels,
        };
        let norm2 = source.norm(&format!("{name}.norm2"), d, eps)?;
        let hidden = config.ffn_ratio * d;
        let ffn = FeedForward {
            linear1: source.linear(&format!("{name}.ffn.linear1"), d, hidden, true)?,
            linear2: source.linear(&format!("{name}.ffn.linear2"), hidden, d, true)?,
        };
        Ok(Self { norm1, attn, norm2, ffn })
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
