//! A linear head on a feature vector, as a network trained with labels.

use bdo_eval::fit::ProbePoint;
use bdo_eval::supervised::network::{Input, Mix, Network, Pass, Training};
use bdo_eval::supervised::recipe::{Rate, Recipe};
use bdo_model::layer::{Linear, Source};
use bdo_model::parameters::ParameterError;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use std::sync::Arc;

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
pub(crate) fn rows_on<'a>(
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
