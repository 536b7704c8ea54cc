//! What is predicted, and what a wrong prediction costs.

use burn::tensor::{Tensor, TensorData, activation};
use serde::{Deserialize, Serialize};

/// Kind of label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// One of two classes, 0 and 1: binary cross-entropy.
    Class,
    /// A z-scored number: squared error.
    Number,
}

/// How the costs of a batch become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
}

impl Task {
    /// Cost of outputs [B, 1] (or [B, 2] for classes, then cross-entropy) for labels, which may be shares of classes.
    pub fn loss(self, output: Tensor<2>, labels: &[f32], reduction: Reduction) -> Tensor<1> {
        let [samples, outputs] = output.dims();
        let device = output.device();
        let labels = Tensor::<2>::from_data(TensorData::new(labels.to_vec(), [samples, 1]), &device);
        let costs = match (self, outputs) {
            (Self::Number, _) => (output - labels).square(),
            (Self::Class, 1) => {
                // log(1 + e^z) - y z, in the form that does not overflow.
                let magnitude = output.clone().abs().neg().exp().log1p();
                activation::relu(output.clone()) - output * labels + magnitude
            }
            (Self::Class, _) => {
                let shares = Tensor::cat(vec![labels.clone().neg() + 1.0, labels], 1);
                (activation::log_softmax(output, 1) * shares).sum_dim(1).neg()
            }
        };
        match reduction {
            Reduction::Mean => costs.mean(),
            Reduction::Sum => costs.sum(),
        }
    }

    /// Outputs [B, outputs] to what is reported: the probability of class 1, or the z-scored number.
    pub fn predictions(self, output: &Tensor<2>) -> Vec<f32> {
        let outputs = output.dims()[1];
        let values = output.to_data().try_to_vec::<f32>().expect("outputs are f32");
        let logistic = |z: f64| (1.0 / (1.0 + (-z).exp())) as f32;
        values
            .chunks_exact(outputs)
            .map(|row| match (self, row) {
                (Self::Class, [one]) => logistic(f64::from(*one)),
                (Self::Class, [zero, one, ..]) => logistic(f64::from(*one) - f64::from(*zero)),
                (_, row) => row[0],
            })
            .collect()
    }
}
