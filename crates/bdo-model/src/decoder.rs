//! Latent states back to region values.

use crate::config::ModelConfig;
use crate::dropout::Dropout;
use crate::layer::{Linear, Source};
use crate::ops::Epilogue;
use crate::parameters::ParameterError;
use burn::module::Module;
use burn::tensor::Tensor;

/// `Lin(d -> d)`, `ReLU`, `Lin(d -> N)`.
#[derive(Module, Debug)]
pub struct Decoder {
    /// d -> d.
    pub linear1: Linear,
    /// d -> N.
    pub linear2: Linear,
}

impl Decoder {
    pub(crate) fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        Ok(Self {
            linear1: source.linear("decoder.linear1", config.width, config.width)?,
            linear2: source.linear("decoder.linear2", config.width, config.regions)?,
        })
    }

    /// [B, T, d] -> [B, T, N]. The dropout's second field tells draws apart.
    pub fn forward(&self, latent: Tensor<3>, dropout: Option<(Dropout, usize)>) -> Tensor<3> {
        let mut hidden = self.linear1.forward_then(latent, Epilogue::Relu);
        if let Some((dropout, site)) = dropout {
            hidden = dropout.apply(site, hidden);
        }
        self.linear2.forward(hidden)
    }
}
