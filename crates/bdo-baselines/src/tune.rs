//! The encoders of the token models with a linear head, as networks trained with labels: fine-tuning end to end.

use crate::brainjepa::{BrainJepaConfig, JepaEncoder};
use crate::brainlm::{BrainLm, BrainLmConfig};
use crate::head::rows_on;
use crate::token::grid::PATCH;
use crate::token::place::Places;
use crate::token::trunk::TrunkShape;
use bdo_eval::supervised::network::{Input, Mix, Network, Pass, Training, depth_in_blocks};
use bdo_model::init::draw_parameters;
use bdo_model::layer::{Linear, Source};
use bdo_model::parameters::{ParameterError, Parameters};
use burn::module::{Module, ModuleDisplay};
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
    pub config: C,
    /// Outputs of the head on top of it.
    pub outputs: usize,
    pub places: Option<Places>,
    pub values: Arc<Parameters>,
}

/// An encoder that can be trained further.
pub trait TokenEncoder: Module + ModuleDisplay + Sync {
    type Config: Clone + std::fmt::Debug + Send + Sync;

    fn build(config: &Self::Config, source: &mut Source) -> Result<Self, ParameterError>;

    fn shape(config: &Self::Config) -> TrunkShape;

    /// Patches [B, N * W, 16] -> [B, d].
    fn feature(&self, patches: Tensor<3>, places: Option<&Places>) -> Tensor<2>;
}

/// The decoder is carried along untouched.
impl TokenEncoder for BrainLm {
    type Config = BrainLmConfig;

    fn build(config: &BrainLmConfig, source: &mut Source) -> Result<Self, ParameterError> {
        Self::build(config, source)
    }

    fn shape(config: &BrainLmConfig) -> TrunkShape {
        config.encoder
    }

    fn feature(&self, patches: Tensor<3>, places: Option<&Places>) -> Tensor<2> {
        self.feature(patches, places)
    }
}

/// The slowly moving encoder of Brain-JEPA, under the name it has in the model.
#[derive(Module, Debug)]
pub struct SlowJepa {
    pub encoder: JepaEncoder,
}

impl TokenEncoder for SlowJepa {
    type Config = BrainJepaConfig;

    fn build(config: &BrainJepaConfig, source: &mut Source) -> Result<Self, ParameterError> {
        Ok(Self { encoder: JepaEncoder::build(config, source)? })
    }

    fn shape(config: &BrainJepaConfig) -> TrunkShape {
        config.encoder
    }

    fn feature(&self, patches: Tensor<3>, places: Option<&Places>) -> Tensor<2> {
        self.encoder.feature(patches, places.expect("a Brain-JEPA is never without places"))
    }
}

#[derive(Module, Debug)]
pub struct Tuned<E> {
    pub trunk: E,
    /// d -> outputs.
    pub head: Linear,
    #[module(skip)]
    places: Option<Places>,
}

/// Layers between a parameter and the head: none for the head and the last norm, most for what patches go through first.
fn depth(name: &str, blocks: usize) -> usize {
    let first = |name: &str| !name.contains("encoder.trunk.norm") && !name.starts_with("head.");
    depth_in_blocks(name, "encoder.trunk.blocks.", first, blocks)
}

impl<E: TokenEncoder> Network for Tuned<E> {
    type Config = TuneStart<E::Config>;
    type Input = Patches;
    const SCANS_AT_ONCE: usize = SCANS_AT_ONCE;

    /// The values of the encoder, and a head drawn anew.
    fn initial(start: &Self::Config, seed: u64) -> Parameters {
        let width = E::shape(&start.config).width;
        let mut all = draw_parameters(&Source::list(|source| source.linear("head", width, start.outputs)), seed);
        all.0.extend(start.values.0.iter().map(|(name, array)| (format!("trunk.{name}"), array.clone())));
        all
    }

    fn build(start: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let trunk = source.under("trunk", |source| E::build(&start.config, source))?;
        let head = source.linear("head", E::shape(&start.config).width, start.outputs)?;
        Ok(Self { trunk, head, places: start.places.clone() })
    }

    fn pass(&self, batch: &Tensor<3>, _: Option<&Training>) -> Pass {
        let feature = self.trunk.feature(batch.clone(), self.places.as_ref());
        let [samples, width] = feature.dims();
        let output: Tensor<2> = self.head.forward(feature.reshape([samples, 1, width])).squeeze_dim(1); // [B, outputs]
        output.into()
    }

    fn depth(start: &Self::Config, name: &str) -> usize {
        depth(name, E::shape(&start.config).blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_from_the_head_down() {
        assert_eq!(depth("head.weight", 12), 0);
        assert_eq!(depth("trunk.encoder.trunk.norm.bias", 12), 0);
        assert_eq!(depth("trunk.encoder.trunk.blocks.11.attn.qkv.weight", 12), 1);
        assert_eq!(depth("trunk.encoder.trunk.blocks.0.norm1.weight", 12), 12);
        assert_eq!(depth("trunk.encoder.patch.weight", 12), 13);
    }
}
