//! The transformer over visible frames: one token per time point.

mod block;
mod time;

pub use block::{Attention, Block, BlockShape, FeedForward};
pub use time::{time_code, write_gaps};

use crate::config::ModelConfig;
use crate::dropout::Dropout;
use crate::layer::{LayerNorm, Linear, Source};
use crate::ops::{Epilogue, Kernels, KeyPadding};
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

/// Region values of one time point to one token: LN(ReLU(Lin2(LN(ReLU(Lin1(y)))))).
#[derive(Module, Debug)]
pub struct Embed {
    /// N -> d.
    pub linear1: Linear,
    /// After the first layer.
    pub norm1: LayerNorm,
    /// d -> d.
    pub linear2: Linear,
    /// After the second layer.
    pub norm2: LayerNorm,
}

impl Embed {
    pub(crate) fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (d, eps) = (config.width, config.layer_norm_eps);
        Ok(Self {
            linear1: source.linear("encoder.embed.linear1", config.regions, d)?,
            norm1: source.norm("encoder.embed.norm1", d, eps)?,
            linear2: source.linear("encoder.embed.linear2", d, d)?,
            norm2: source.norm("encoder.embed.norm2", d, eps)?,
        })
    }

    /// [B, T, N] -> [B, T, d].
    pub fn forward(&self, values: Tensor<3>) -> Tensor<3> {
        let hidden = self.norm1.forward(self.linear1.forward_then(values, Epilogue::Relu));
        self.norm2.forward(self.linear2.forward_then(hidden, Epilogue::Relu))
    }
}
