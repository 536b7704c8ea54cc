//! The transformer over visible frames: one token per time point.

mod block;
mod embed;
mod time;

pub use block::{Attention, Block, BlockShape, FeedForward};
pub use embed::Embed;
pub use time::{time_code, write_gaps};

use crate::config::ModelConfig;
use crate::dropout::Dropout;
use crate::layer::{LayerNorm, Source};
use crate::ops::{Kernels, KeyPadding};
use crate::parameters::ParameterError;
use burn::module::Module;
use burn::tensor::Tensor;

/// Embedder, blocks and final norm: everything the moving average covers.
#[derive(Module, Debug)]
pub struct Encoder {
    /// Region values to tokens.
    pub embed: Embed,
    /// Pre-norm transformer blocks.
    pub blocks: Vec<Block>,
    /// The norm after the last block.
    pub norm: Option<LayerNorm>,
}

/// Visible tokens of a batch, padded at the end.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// [B, T, N] region values.
    pub values: Tensor<3>,
    /// [B, T, d] time code.
    pub code: Tensor<3>,
    /// How many tokens of each sample are real.
    pub padding: KeyPadding,
}

impl Encoder {
    pub(crate) fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let embed = Embed::take(config, source)?;
        let blocks = (0..config.blocks).map(|i| Block::take(config, i, source)).collect::<Result<_, _>>()?;
        let norm = if config.final_norm {
            Some(source.norm("encoder.norm", config.width, config.layer_norm_eps)?)
        } else {
            None
        };
        Ok(Self { embed, blocks, norm })
    }

    /// Which implementation the layers run.
    pub fn kernels(&self) -> Kernels {
        self.embed.linear1.kernels()
    }

    /// Visible tokens -> latents z [B, T, d]; rows of padding hold unused values.
    pub fn forward(&self, tokens: Tokens, dropout: Option<Dropout>) -> Tensor<3> {
        let mut h = self.embed.forward(tokens.values) + tokens.code;
        for (site, block) in self.blocks.iter().enumerate() {
            h = block.forward(h, &tokens.padding, dropout.map(|dropout| (dropout, site)));
        }
        match &self.norm {
            Some(norm) => norm.forward(h),
            None => h,
        }
    }
}
