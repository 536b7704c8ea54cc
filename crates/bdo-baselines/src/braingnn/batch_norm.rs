//! Batch normalisation with running statistics.

use bdo_model::layer::Source;
use bdo_model::parameters::{ParameterError, Start};
use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};

const EPS: f64 = 1e-5;
/// Weight of the newest batch in the running statistics.
const NEWEST: f32 = 0.1;

/// Normalises each feature over the batch when training, by running statistics when predicting.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// [d].
    pub weight: Param<Tensor<1>>,
    /// [d].
    pub bias: Param<Tensor<1>>,
    /// [d], not trained.
    pub running_mean: Param<Tensor<1>>,
    /// [d], not trained.
    pub running_variance: Param<Tensor<1>>,
}

impl BatchNorm {
    pub(super) fn build(name: &str, width: usize, source: &mut Source) -> Result<Self, ParameterError> {
        source.under(name, |source| {
            Ok(Self {
                weight: source.take("weight", [width], Start::Ones)?,
                bias: source.take("bias", [width], Start::Zeros)?,
                running_mean: source.parameter("running_mean", [width], Start::Zeros, false)?,
                running_variance: source.parameter("running_variance", [width], Start::Ones, false)?,
            })
        })
    }

    /// [B, 1, d] -> [B, 1, d], and the new running mean and variance if training.
    pub(super) fn forward(&self, x: Tensor<3>, training: bool) -> (Tensor<3>, Option<[Vec<f32>; 2]>) {
        let [samples, _, width] = x.dims();
        let (mean, variance) = if training {
            let mean = x.clone().mean_dim(0);
            let variance = (x.clone() - mean.clone()).square().mean_dim(0);
            (mean, variance)
        } else {
            let shape = [1, 1, width];
            (self.running_mean.val().reshape(shape), self.running_variance.val().reshape(shape))
        };
        let scaled = (x - mean.clone()) / (variance.clone() + EPS).sqrt();
        let y = scaled * self.weight.val().unsqueeze() + self.bias.val().unsqueeze();
        let statistics = training.then(|| {
            let numbers = |t: &Tensor<3>| t.to_data().try_to_vec::<f32>().expect("activations are f32");
            let old = |p: &Param<Tensor<1>>| p.val().to_data().try_to_vec::<f32>().expect("statistics are f32");
            let mix = |old: Vec<f32>, new: Vec<f32>, factor: f32| -> Vec<f32> {
                old.iter().zip(&new).map(|(o, n)| (1.0 - NEWEST) * o + NEWEST * factor * n).collect()
            };
            // The variance that is kept is the unbiased one, that which normalises is not: as in PyTorch.
            let unbias = samples as f32 / samples.saturating_sub(1).max(1) as f32;
            [
                mix(old(&self.running_mean), numbers(&mean), 1.0),
                mix(old(&self.running_variance), numbers(&variance), unbias),
            ]
        });
        (y, statistics)
    }

    pub(super) fn absorb(mut self, mean: &[f32], variance: &[f32]) -> Self {
        let replace = |param: Param<Tensor<1>>, values: &[f32]| {
            param.map(|old| {
                let data = TensorData::new(values.to_vec(), [values.len()]);
                Tensor::from_data(data, &old.device()).set_require_grad(false)
            })
        };
        self.running_mean = replace(self.running_mean, mean);
        self.running_variance = replace(self.running_variance, variance);
        self
    }
}
