//! The encoders of the token models with a linear head, as networks of the supervised loop: fine-tuning end to end. A batch
//! of theirs holds patches, [B, N * W, 16], where that of a connectivity network holds rows of connectivity.

use crate::brainjepa::{BrainJepaConfig, JepaEncoder};
use crate::brainlm::{BrainLm, BrainLmConfig};
use crate::network::{Batch, Network, Pass, Training};
use crate::table::Table;
use crate::token::place::Places;
use crate::train::objective::Reduction;
use crate::train::recipe::{Rate, Recipe, Selection};
use bdo_eval::finetune::TunePoint;
use bdo_model::init::draw_parameters;
use bdo_model::layer::{Linear, Source};
use bdo_model::parameters::{ParameterError, ParameterSpec, Parameters};
use burn::module::Module;
use burn::tensor::Tensor;
use std::sync::Arc;

/// Scans whose activations are held at once: every token of them is seen, unlike in pre-training.
const SCANS_AT_ONCE: usize = 4;

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

/// The recipe of the protocol's fine-tuning at one point of its grid.
pub fn tuning_recipe(point: &TunePoint, epochs: usize, max_minutes: f64) -> Recipe {
    Recipe {
        epochs,
        batch_size: point.batch_size,
        drop_last: false,
        rate: Rate::Cosine { from: point.learning_rate, to: point.least_learning_rate },
        weight_decay: point.weight_decay,
        mixup: false,
        reduction: Reduction::Mean,
        selection: Selection::Protocol,
        layer_decay: Some(point.layer_decay),
        max_minutes,
    }
}

fn with_head(below: Vec<ParameterSpec>, prefix: &str, width: usize) -> Vec<ParameterSpec> {
    let named = |spec: ParameterSpec| ParameterSpec { name: format!("{prefix}.{}", spec.name), ..spec };
    let mut table = Table::default();
    table.linear("head", width, 1);
    below.into_iter().map(named).chain(table.rows()).collect()
}

/// The values of the trunk, and a head drawn anew.
fn started(values: &Parameters, prefix: &str, width: usize, seed: u64) -> Parameters {
    let mut table = Table::default();
    table.linear("head", width, 1);
    let mut all = draw_parameters(&table.rows(), seed);
    all.0.extend(values.0.iter().map(|(name, array)| (format!("{prefix}.{name}"), array.clone())));
    all
}

/// The trunk's values without the prefix, for a builder that knows its own names.
fn below(source: &mut Source, prefix: &str) -> Parameters {
    let prefix = format!("{prefix}.");
    let own: Vec<String> = source.parameters.0.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
    let taken = own.into_iter().filter_map(|name| {
        let array = source.parameters.0.remove(&name)?;
        Some((name[prefix.len()..].to_owned(), array))
    });
    Parameters(taken.collect())
}

/// Layers between a parameter and the head: 0 for the head and the last norm, one more for each block below, most for what
/// patches go through first.
fn depth(name: &str, blocks: usize) -> usize {
    let block = name.split_once("encoder.trunk.blocks.").and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
    match block {
        Some(block) => blocks - usize::min(block, blocks),
        None if name.contains("encoder.trunk.norm") || name.starts_with("head.") => 0,
        None => blocks + 1,
    }
}

fn headed(head: &Linear, feature: Tensor<2>) -> Pass {
    let [samples, width] = feature.dims();
    let output = head.forward(feature.reshape([samples, 1, width])).reshape([samples, 1]);
    Pass { output, penalty: None, statistics: Vec::new() }
}

impl Network for TunedLm {
    type Config = TuneStart<BrainLmConfig>;
    const SCANS_AT_ONCE: usize = SCANS_AT_ONCE;

    fn table(start: &Self::Config) -> Vec<ParameterSpec> {
        with_head(BrainLm::table(&start.config), "lm", start.config.encoder.width)
    }

    fn initial(start: &Self::Config, seed: u64) -> Parameters {
        started(&start.values, "lm", start.config.encoder.width, seed)
    }

    fn build(start: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let mut own = below(source, "lm");
        let (device, kernels) = (source.device, source.kernels);
        let lm = BrainLm::build(&start.config, &mut Source { parameters: &mut own, device, kernels })?;
        own.finish()?;
        let head = source.linear("head", start.config.encoder.width, 1, true)?;
        Ok(Self { lm, head, places: start.places.clone() })
    }

    fn pass(&self, batch: &Batch, _: Option<&Training>) -> Pass {
        headed(&self.head, self.lm.feature(batch.nodes.clone(), self.places.as_ref()))
    }

    fn depth(start: &Self::Config, name: &str) -> usize {
        depth(name, start.config.encoder.blocks)
    }
}

impl Network for TunedJepa {
    type Config = TuneStart<BrainJepaConfig>;
    const SCANS_AT_ONCE: usize = SCANS_AT_ONCE;

    fn table(start: &Self::Config) -> Vec<ParameterSpec> {
        with_head(JepaEncoder::table(&start.config), "jepa", start.config.encoder.width)
    }

    fn initial(start: &Self::Config, seed: u64) -> Parameters {
        started(&start.values, "jepa", start.config.encoder.width, seed)
    }

    fn build(start: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let mut own = below(source, "jepa");
        let (device, kernels) = (source.device, source.kernels);
        let encoder = JepaEncoder::build(&start.config, &mut Source { parameters: &mut own, device, kernels })?;
        own.finish()?;
        let head = source.linear("head", start.config.encoder.width, 1, true)?;
        Ok(Self { jepa: TunedJepaEncoder { encoder }, head, places: start.places.clone() })
    }

    fn pass(&self, batch: &Batch, _: Option<&Training>) -> Pass {
        let places = self.places.as_ref().expect("a Brain-JEPA is never without places");
        headed(&self.head, self.jepa.encoder.feature(batch.nodes.clone(), places))
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
