//! What is trained with labels on top of a token model: a linear head on its features, or its encoder with a head, end to end.

use crate::token::grid::PATCH;
use crate::token::{TokenEncoder, TokenShape};
use bdo_eval::fit::ProbePoint;
use bdo_eval::supervised::network::{Input, Mix, Network, Pass, Training, depth_in_blocks};
use bdo_eval::supervised::recipe::{Rate, Recipe};
use bdo_model::init::draw_parameters;
use bdo_model::layer::{Linear, Source};
use bdo_model::parameters::{ParameterError, Parameters};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
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

#[derive(Clone, Debug, PartialEq)]
pub struct Feature(pub Vec<f32>);

impl Input for Feature {
    /// [B, 1, d].
    type Batch = Tensor<3>;

    fn on(inputs: &[Arc<Self>], mix: Option<&Mix>, device: &Device) -> Tensor<3> {
        rows_on(inputs.iter().map(|input| &input.0), 1, mix, device)
    }
}

/// Rows of several scans, `rows` of each, as one tensor [B, rows, width].
fn rows_on<'a>(
    inputs: impl ExactSizeIterator<Item = &'a Vec<f32>>,
    rows: usize,
    mix: Option<&Mix>,
    device: &Device,
) -> Tensor<3> {
    let count = inputs.len();
    let mut values: Vec<f32> = inputs.flatten().copied().collect();
    let width = values.len() / (count * rows).max(1);
    if let Some(mix) = mix {
        values = mix.blend(&values, rows * width);
    }
    Tensor::from_data(TensorData::new(values, [count, rows, width]), device)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// Of the feature.
    pub width: usize,
    /// One, or one for each class.
    pub outputs: usize,
}

#[derive(Module, Debug)]
pub struct LinearHead {
    /// d -> outputs.
    pub linear: Linear,
}

impl Network for LinearHead {
    type Config = HeadShape;
    type Input = Feature;

    fn build(config: &HeadShape, source: &mut Source) -> Result<Self, ParameterError> {
        Ok(Self { linear: source.linear("linear", config.width, config.outputs)? })
    }

    fn pass(&self, batch: &Tensor<3>, _: Option<&Training>) -> Pass {
        let output: Tensor<2> = self.linear.forward(batch.clone()).squeeze_dim(1); // [B, outputs]
        output.into()
    }
}

/// The twelve settings of the protocol's linear probe.
pub fn probe_recipes() -> Vec<Recipe> {
    let recipe = |point: ProbePoint| {
        let rate = Rate::Cosine { from: point.learning_rate, to: point.least_learning_rate };
        Recipe::plain(50, point.batch_size, rate, 0.0)
    };
    ProbePoint::grid().into_iter().map(recipe).collect()
}

/// A trunk to begin with.
#[derive(Clone, Debug)]
pub struct TuneStart<C> {
    pub config: C,
    /// Outputs of the head on top of it.
    pub outputs: usize,
    pub values: Arc<Parameters>,
}

#[derive(Module, Debug)]
pub struct Tuned<E> {
    pub trunk: E,
    /// d -> outputs.
    pub head: Linear,
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
        let width = start.config.encoder().width;
        let mut all = draw_parameters(&Source::list(|source| source.linear("head", width, start.outputs)), seed);
        all.0.extend(start.values.0.iter().map(|(name, array)| (format!("trunk.{name}"), array.clone())));
        all
    }

    fn build(start: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let trunk = source.under("trunk", |source| E::build(&start.config, source))?;
        Ok(Self { trunk, head: source.linear("head", start.config.encoder().width, start.outputs)? })
    }

    fn pass(&self, batch: &Tensor<3>, _: Option<&Training>) -> Pass {
        let feature = self.trunk.feature(batch.clone());
        let [samples, width] = feature.dims();
        let output: Tensor<2> = self.head.forward(feature.reshape([samples, 1, width])).squeeze_dim(1); // [B, outputs]
        output.into()
    }

    fn depth(start: &Self::Config, name: &str) -> usize {
        depth(name, start.config.encoder().blocks)
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
