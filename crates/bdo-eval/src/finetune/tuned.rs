//! Encoder, control and head as one module on a gradient tape. Basis, rates, initial state and decoder are carried along
//! untouched: nothing downstream reads them, and the model directory stays whole.

use crate::fit::Loss;
use crate::fitted::HeadKind;
use crate::head::{AttentionHead, Head, LinearHead};
use bdo_model::batch::BatchError;
use bdo_model::config::ModelConfig;
use bdo_model::dynamics::Frames;
use bdo_model::model::{Bdo, BuildError};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{Array, ParameterError, ParameterSpec, Parameters, Start, encoder_table, parameter_table};
use burn::module::{Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};

/// The head: one output a scan.
#[derive(Module, Debug)]
pub struct TunedHead {
    /// [1, d].
    pub weight: Param<Tensor<2>>,
    /// [1].
    pub bias: Param<Tensor<1>>,
    /// [1, d], where frames are pooled by attention.
    pub query: Option<Param<Tensor<2>>>,
}

/// All that is trained.
#[derive(Module, Debug)]
pub struct Tuned {
    /// The model.
    pub bdo: Bdo,
    /// The head.
    pub head: TunedHead,
}

/// Names and shapes of a head's parameters.
pub fn head_table(kind: HeadKind, width: usize) -> Vec<ParameterSpec> {
    let spec = |name: &str, shape: &[usize]| ParameterSpec {
        name: format!("head.{name}"),
        shape: shape.to_vec(),
        start: Start::Zeros,
        trainable: true,
    };
    let mut table = vec![spec("weight", &[1, width]), spec("bias", &[1])];
    if kind == HeadKind::Attention {
        table.push(spec("query", &[1, width]));
    }
    table
}

/// Names and shapes of everything that is kept.
pub fn whole_table(config: &ModelConfig, kind: HeadKind) -> Vec<ParameterSpec> {
    let mut table = parameter_table(config);
    table.extend(head_table(kind, config.width));
    table
}

/// Names and shapes of what is trained.
pub fn trained_table(config: &ModelConfig, kind: HeadKind) -> Vec<ParameterSpec> {
    let mut table = encoder_table(config);
    table.extend(parameter_table(config).into_iter().filter(|spec| spec.name == "dynamics.control.weight"));
    table.extend(head_table(kind, config.width));
    table
}

/// A model's parameters with those of a fresh head.
pub fn with_fresh_head(mut parameters: Parameters, kind: HeadKind, width: usize, seed: u64) -> Parameters {
    let flat = match kind {
        HeadKind::Linear | HeadKind::Ridge => LinearHead { width }.start(seed),
        HeadKind::Attention => AttentionHead { width }.start(seed),
    };
    let mut rest = flat.into_iter().map(|x| x as f32);
    for spec in head_table(kind, width) {
        let values = rest.by_ref().take(spec.shape.iter().product()).collect();
        parameters.0.insert(spec.name, Array { shape: spec.shape, values });
    }
    parameters
}

/// The head's parameters in the order a fitted head keeps them.
pub fn head_parameters(parameters: &Parameters, kind: HeadKind, width: usize) -> Vec<f32> {
    let values = |spec: ParameterSpec| parameters.0.get(&spec.name).map(|array| array.values.clone());
    head_table(kind, width).into_iter().filter_map(values).flatten().collect()
}

/// The model's parameters without the head's.
pub fn without_head(mut parameters: Parameters) -> Parameters {
    parameters.0.retain(|name, _| !name.starts_with("head."));
    parameters
}

impl Tuned {
    /// Puts everything onto a device.
    pub fn from_parameters(
        config: &ModelConfig,
        mut parameters: Parameters,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, BuildError> {
        let missing = |name: &str| ParameterError::Missing { name: name.to_owned() };
        let mut take = |name: &str| parameters.0.remove(name);
        let matrix = |array: Array| {
            Param::from_tensor(Tensor::from_data(TensorData::new(array.values, [1, config.width]), device))
        };
        let weight = take("head.weight").ok_or_else(|| missing("head.weight"))?;
        let bias = take("head.bias").ok_or_else(|| missing("head.bias"))?;
        let query = take("head.query").map(matrix);
        let head = TunedHead {
            weight: matrix(weight),
            bias: Param::from_tensor(Tensor::from_data(TensorData::new(bias.values, [1]), device)),
            query,
        };
        Ok(Self { bdo: Bdo::from_parameters(config, parameters, kernels, device)?, head })
    }

    /// Host copies, the model's under their own names.
    pub fn parameters(&self) -> Parameters {
        let mut parameters = self.bdo.parameters();
        parameters.0.extend(Parameters::of_module(&self.head, "head").0);
        parameters
    }

    /// One output a scan: [B, 1].
    pub fn output(&self, series: &Tensor<3>, frames: &Frames, region_valid: &[bool]) -> Result<Tensor<2>, BatchError> {
        let controls = self.bdo.controls(series, frames, region_valid)?;
        let pooled = match &self.head.query {
            None => controls.mean(),
            Some(query) => {
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
        let output = (pooled * self.head.weight.val()).sum_dim(1); // [B, 1]
        Ok(output + self.head.bias.val().reshape([1, 1]))
    }
}

/// Sum over scans of the loss: outputs [B, 1] and labels in units of the loss.
pub fn summed_loss(loss: Loss, output: Tensor<2>, labels: &[f64]) -> Tensor<1> {
    let labels: Vec<f32> = labels.iter().map(|y| *y as f32).collect();
    let place = (&output.device(), output.dtype());
    let labels = Tensor::<2>::from_data(TensorData::new(labels, output.dims()), place);
    match loss {
        Loss::SquaredError => (output - labels).square().sum(),
        // log(1 + e^x) - x y, written so that no exponential overflows.
        Loss::CrossEntropy => {
            let softplus = ((output.clone().abs() * -1.0).exp() + 1.0).log() + output.clone().clamp_min(0.0);
            (softplus - output * labels).sum()
        }
    }
}
