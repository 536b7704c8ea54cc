//! Region values of one time point to one token.

use crate::config::ModelConfig;
use crate::layer::{LayerNorm, Linear, Source};
use crate::ops::Epilogue;
use crate::parameters::ParameterError;
use burn::module::Module;
use burn::tensor::Tensor;

/// LN(ReLU(Lin2(LN(ReLU(Lin1(y)))))).
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
