//! The encoders of the token models with a linear head, as networks trained with labels: fine-tuning end to end.

use crate::brainjepa::{BrainJepaConfig, JepaEncoder};
use crate::brainlm::{BrainLm, BrainLmConfig};
use crate::head::rows_on;
use crate::token::grid::PATCH;
use crate::token::place::Places;
use bdo_eval::supervised::network::{Input, Mix, Network, Pass, Training, depth_in_blocks};
use bdo_model::init::draw_parameters;
use bdo_model::layer::{Linear, Source};
use bdo_model::parameters::{ParameterError, Parameters};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use std::sync::Arc;

/// Scans whose activations are held at once: every token of them is seen, unlike in pre-training.
const SCANS_AT_ONCE: usize = 4;

/// The patches of a scan, row-major [tokens, 16].
#[derive(Clone, Debug, PartialEq)]
pub struct Patches(pub Vec<f32>);

impl Input for Patches {
    /// [B, N * W, 16].
    type Batch = Tensor<3>;

    fn on(inputs: &[Arc<Self>], mix: Option<&Mix>, device: &Device) -> Tensor<3> {
        let tokens = inputs.first().map_or(0, |input| input.0.len() / PATCH);
        rows_on(inputs.iter().map(|input| &input.0), tokens, mix, device)
    }
}

/// A trunk to begin with.
#[derive(Clone, Debug)]
pub struct TuneStart<C> {
    /// Its shape.
    pub config: C,
    /// Where regions are.
    pub places: Option<Places>,
    /// Its values.
    pub values: Arc<Parameters>,
}

/// BrainLM and a head. The decoder is carried along untouched.
#[derive(Module, Debug)]
pub struct TunedLm {
    /// The model.
    pub lm: BrainLm,
    /// d -> 1.
    pub head: Linear,
    #[module(skip)]
    places: Option<Places>,
}

/// The slowly moving encoder of Brain-JEPA and a head.
#[derive(Module, Debug)]
pub struct TunedJepa {
    /// The encoder.
    pub jepa: TunedJepaEncoder,
    /// d -> 1.
    pub head: Linear,
    #[module(skip)]
    places: Option<Places>,
}

/// The encoder under the name it has in the model.
#[derive(Module, Debug)]
pub struct TunedJepaEncoder {
    /// The encoder.
    pub encoder: JepaEncoder,
}

/// The values of the trunk, and a head drawn anew.
fn started(values: &Parameters, prefix: &str, width: usize, seed: u64) -> Parameters {
    let mut all = draw_parameters(&Source::list(|source| source.linear("head", width, 1)), seed);
    all.0.extend(values.0.iter().map(|(name, array)| (format!("{prefix}.{name}"), array.clone())));
    all
}

/// Layers between a parameter and the head: none for the head and the last norm, most for what patches go through first.
fn depth(name: &str, blocks: usize) -> usize {
    let first = |name: &str| !name.contains("encoder.trunk.norm") && !name.starts_with("head.");
    depth_in_blocks(name, "encoder.trunk.blocks.", first, blocks)
}

fn headed(head: &Linear, feature: Tensor<2>) -> Pass {
    let [samples, width] = feature.dims();
    head.forward(feature.reshape([samples, 1, width])).reshape([samples, 1]).into()
}

impl Network for TunedLm {
    type Config = TuneStart<BrainLmConfig>;
    type Input = Patches;
    const SCANS_AT_ONCE: usize = SCANS_AT_ONCE;

    fn initial(start: &Self::Config, seed: u64) -> Parameters {
        started(&start.values, "lm", start.config.encoder.width, seed)
    }

    fn build(start: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let lm = source.under("lm", |source| BrainLm::build(&start.config, source))?;
        let head = source.linear("head", start.config.encoder.width, 1)?;
        Ok(Self { lm, head, places: start.places.clone() })
    }

    fn pass(&self, batch: &Tensor<3>, _: Option<&Training>) -> Pass {
        headed(&self.head, self.lm.feature(batch.clone(), self.places.as_ref()))
    }

    fn depth(start: &Self::Config, name: &str) -> usize {
        depth(name, start.config.encoder.blocks)
    }
}

impl Network for TunedJepa {
    type Config = TuneStart<BrainJepaConfig>;
    type Input = Patches;
    const SCANS_AT_ONCE: usize = SCANS_AT_ONCE;

    fn initial(start: &Self::Config, seed: u64) -> Parameters {
        started(&start.values, "jepa", start.config.encoder.width, seed)
    }

    fn build(start: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let encoder = source.under("jepa", |source| JepaEncoder::build(&start.config, source))?;
        let head = source.linear("head", start.config.encoder.width, 1)?;
        Ok(Self { jepa: TunedJepaEncoder { encoder }, head, places: start.places.clone() })
    }

    fn pass(&self, batch: &Tensor<3>, _: Option<&Training>) -> Pass {
        let places = self.places.as_ref().expect("a Brain-JEPA is never without places");
        headed(&self.head, self.jepa.encoder.feature(batch.clone(), places))
    }

    fn depth(start: &Self::Config, name: &str) -> usize {
        depth(name, start.config.encoder.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_from_the_head_down() {
        assert_eq!(depth("head.weight", 12), 0);
        assert_eq!(depth("lm.encoder.trunk.norm.bias", 12), 0);
        assert_eq!(depth("lm.encoder.trunk.blocks.11.attn.qkv.weight", 12), 1);
        assert_eq!(depth("jepa.encoder.trunk.blocks.0.norm1.weight", 12), 12);
        assert_eq!(depth("jepa.encoder.patch.weight", 12), 13);
    }
}
