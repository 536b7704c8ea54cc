//! Encoder, control and head as one module on a gradient tape. Basis, rates, initial state and decoder are carried along
//! untouched: nothing downstream reads them, and the model directory stays whole.

use crate::closed_form::FittedProbe;
use crate::fit::loss_of;
use crate::head::{Head, LinearHead};
use crate::supervised::network::{Input, Mix, Network, Pass, Training, depth_in_blocks};
use bdo_data::target::{LabelScale, TargetKind};
use bdo_model::batch::BatchError;
use bdo_model::config::ModelConfig;
use bdo_model::control::ScanBatch;
use bdo_model::intake::CutScan;
use bdo_model::layer::Source;
use bdo_model::model::Bdo;
use bdo_model::parameters::{Array, ParameterError, ParameterSpec, Parameters, Start, encoder_table, parameter_table};
use burn::module::{Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use std::sync::Arc;

/// What a head in training reads of the control along a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Its mean over the frames.
    Mean,
    /// Its mean under a learned query.
    Attended,
    /// How far and how fast it moves, in units that are not tuned.
    Movement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    pub reads: Reads,
    /// Numbers it reads: the width of the latents, twice that of a movement.
    pub width: usize,
    /// One, or one for each class.
    pub outputs: usize,
}

impl HeadShape {
    /// On latents of a width.
    pub fn of(reads: Reads, latents: usize, task: &TargetKind) -> Self {
        let width = if reads == Reads::Movement { 2 * latents } else { latents };
        Self { reads, width, outputs: loss_of(task).outputs() }
    }
}

/// The head: one output a scan, or one for each class.
#[derive(Module, Debug)]
pub struct TunedHead {
    /// [outputs, d].
    pub weight: Param<Tensor<2>>,
    /// [outputs].
    pub bias: Param<Tensor<1>>,
    /// [1, d], where frames are pooled by attention.
    pub query: Option<Param<Tensor<2>>>,
    /// [2, d], what is subtracted from a movement and what it is divided by.
    pub units: Option<Param<Tensor<2>>>,
}

#[derive(Module, Debug)]
pub struct Tuned {
    pub bdo: Bdo,
    pub head: TunedHead,
}

/// Names and shapes of a head's parameters.
pub fn head_table(shape: HeadShape) -> Vec<ParameterSpec> {
    Source::list(|source| TunedHead::take(shape, source))
}

impl TunedHead {
    /// Where it starts is decided by [`head_of_probe`] or [`fresh_head`].
    fn take(shape: HeadShape, source: &mut Source) -> Result<Self, ParameterError> {
        let HeadShape { reads, width, outputs } = shape;
        source.under("head", |source| {
            Ok(Self {
                weight: source.take("weight", [outputs, width], Start::Zeros)?,
                bias: source.take("bias", [outputs], Start::Zeros)?,
                query: (reads == Reads::Attended)
                    .then(|| source.take("query", [1, width], Start::Zeros))
                    .transpose()?,
                units: (reads == Reads::Movement)
                    .then(|| source.parameter("units", [2, width], Start::Zeros, false))
                    .transpose()?,
            })
        })
    }
}

/// Names and shapes of what the mean control of a model is computed with.
pub fn used_table(config: &ModelConfig) -> Vec<ParameterSpec> {
    let mut table = encoder_table(config);
    let used = |name: &str| name == "dynamics.control.weight" || name.starts_with("fingerprint.");
    table.extend(parameter_table(config).into_iter().filter(|spec| used(&spec.name)));
    table
}

/// Those of them that are tuned: all but what was fitted once.
pub fn tuned_table(config: &ModelConfig) -> Vec<ParameterSpec> {
    used_table(config).into_iter().filter(|spec| spec.trainable).collect()
}

/// Numbers in a table.
pub fn count(table: &[ParameterSpec]) -> usize {
    table.iter().map(|spec| spec.shape.iter().product::<usize>()).sum()
}

/// Parameters of a head that says of the mean control what the closed form says.
pub fn head_of_probe(probe: &FittedProbe, units: LabelScale) -> Vec<f32> {
    let (weights, intercepts) = probe.on_features();
    let intercepts = intercepts.iter().map(|intercept| units.to_loss(*intercept));
    weights.iter().map(|w| w / units.spread).chain(intercepts).map(|x| x as f32).collect()
}

/// Parameters of a head that knows nothing yet.
pub fn fresh_head(HeadShape { width, outputs, .. }: HeadShape, seed: u64) -> Vec<f32> {
    LinearHead { width, outputs }.start(seed).into_iter().map(|x| x as f32).collect()
}

/// The head's parameters in the order a fitted head keeps them.
pub fn head_parameters(parameters: &Parameters, shape: HeadShape) -> Vec<f32> {
    let values = |spec: ParameterSpec| parameters.0.get(&spec.name).map(|array| array.values.clone());
    head_table(shape).into_iter().filter_map(values).flatten().collect()
}

pub fn without_head(mut parameters: Parameters) -> Parameters {
    parameters.0.retain(|name, _| !name.starts_with("head."));
    parameters
}

/// A model to begin with.
#[derive(Clone, Debug)]
pub struct TuneStart {
    pub config: ModelConfig,
    pub head: HeadShape,
    pub parameters: Arc<Parameters>,
    /// Those of the head: weights and bias. A query of attention starts as 0, under which all frames weigh the same.
    pub head_values: Vec<f32>,
}

impl Input for CutScan {
    type Batch = ScanBatch;

    fn on(inputs: &[Arc<Self>], _: Option<&Mix>, device: &Device) -> ScanBatch {
        ScanBatch::on(&inputs.iter().map(Arc::as_ref).collect::<Vec<_>>(), device)
    }
}

impl Network for Tuned {
    type Config = TuneStart;
    type Input = CutScan;

    const SCANS_AT_ONCE: usize = 8;

    fn initial(start: &TuneStart, _: u64) -> Parameters {
        let named = |(name, array): (&String, &Array)| (format!("bdo.{name}"), array.clone());
        let mut parameters = Parameters(start.parameters.0.iter().map(named).collect());
        let mut rest = start.head_values.iter().copied();
        for spec in head_table(start.head) {
            let count = spec.shape.iter().product();
            let mut values: Vec<f32> = rest.by_ref().take(count).collect();
            values.resize(count, 0.0);
            parameters.0.insert(spec.name, Array { shape: spec.shape, values });
        }
        parameters
    }

    fn build(start: &TuneStart, source: &mut Source) -> Result<Self, ParameterError> {
        let bdo = source.under("bdo", |source| Bdo::take(&start.config, source))?;
        Ok(Self { bdo, head: TunedHead::take(start.head, source)? })
    }

    fn pass(&self, batch: &ScanBatch, _: Option<&Training>) -> Pass {
        self.output(batch).expect("scans were matched with the regions of the model").into()
    }

    fn depth(start: &TuneStart, name: &str) -> usize {
        let first = |name: &str| name.contains("encoder.embed.");
        depth_in_blocks(name, "encoder.blocks.", first, start.config.blocks)
    }
}

impl Tuned {
    /// Values under the names they have in the model and in the head.
    pub fn model_names(parameters: Parameters) -> Parameters {
        let named = |(name, array): (String, Array)| (name.strip_prefix("bdo.").unwrap_or(&name).to_owned(), array);
        Parameters(parameters.0.into_iter().map(named).collect())
    }

    /// The outputs of each scan: [B, outputs].
    pub fn output(&self, batch: &ScanBatch) -> Result<Tensor<2>, BatchError> {
        let pooled = match (&self.head.query, &self.head.units) {
            (None, None) => self.bdo.mean_control_of(batch)?,
            (None, Some(units)) => {
                let units = units.val();
                (self.bdo.controls_of(batch)?.movement(batch.times_seconds()) - units.clone().narrow(0, 0, 1))
                    / units.narrow(0, 1, 1)
            }
            (Some(query), _) => {
                let controls = self.bdo.controls_of(batch)?;
                let [batch, slots, width] = controls.control.dims();
                let place = (&controls.control.device(), controls.control.dtype());
                // Far enough below any score that padding weighs nothing.
                let outside = |&count: &usize| (0..slots).map(move |s| if s < count { 0.0f32 } else { -1e9 });
                let mask: Vec<f32> = controls.counts.iter().flat_map(outside).collect();
                let mask = Tensor::<3>::from_data(TensorData::new(mask, [batch, slots, 1]), place);
                let scores = (controls.control.clone() * query.val().reshape([1, 1, width])).sum_dim(2); // [B, C, 1]
                let weights = softmax(scores * (1.0 / (width as f64).sqrt()) + mask, 1);
                (controls.control * weights).sum_dim(1).squeeze_dim(1) // [B, d]
            }
        };
        let weight = self.head.weight.val();
        let ([batch, width], [outputs, _]) = (pooled.dims(), weight.dims());
        let terms = pooled.reshape([batch, 1, width]) * weight.reshape([1, outputs, width]); // [B, outputs, d]
        let output: Tensor<2> = terms.sum_dim(2).squeeze_dim(2); // [B, outputs]
        Ok(output + self.head.bias.val().reshape([1, outputs]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_from_the_head_down() {
        let config = ModelConfig { blocks: 12, ..ModelConfig::default() };
        let head = HeadShape { reads: Reads::Mean, width: config.width, outputs: 1 };
        let start = TuneStart { config, head, parameters: Arc::default(), head_values: vec![] };
        let depth = |name: &str| Tuned::depth(&start, name);
        assert_eq!(depth("bdo.encoder.embed.linear1.weight"), 13);
        assert_eq!(depth("bdo.encoder.blocks.0.norm1.weight"), 12);
        assert_eq!(depth("bdo.encoder.blocks.11.attn.qkv.weight"), 1);
        for top in ["bdo.encoder.norm.weight", "bdo.dynamics.control.weight", "head.weight"] {
            assert_eq!(depth(top), 0, "{top}");
        }
    }
}
