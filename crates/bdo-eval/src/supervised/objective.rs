//! What a wrong prediction costs, on tensors.

use crate::fit::Loss;
use burn::tensor::{Tensor, TensorData, activation};
use serde::{Deserialize, Serialize};

/// How the costs of a batch become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
}

/// Cost of outputs [B, 1] (or [B, 2] for classes, then cross-entropy) for labels, which may be shares of classes.
pub fn cost(loss: Loss, output: Tensor<2>, labels: &[f32], reduction: Reduction) -> Tensor<1> {
    let [samples, outputs] = output.dims();
    let device = output.device();
    let labels = Tensor::<2>::from_data(TensorData::new(labels.to_vec(), [samples, 1]), &device);
    let costs = match (loss, outputs) {
        (Loss::SquaredError, _) => (output - labels).square(),
        (Loss::CrossEntropy, 1) => {
            // log(1 + e^z) - y z, in the form that does not overflow.
            let magnitude = output.clone().abs().neg().exp().log1p();
            activation::relu(output.clone()) - output * labels + magnitude
        }
        (Loss::CrossEntropy, _) => {
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
pub fn predictions(loss: Loss, output: &Tensor<2>) -> Vec<f32> {
    let outputs = output.dims()[1];
    let values = output.to_data().try_to_vec::<f32>().expect("outputs are f32");
    let one = |row: &[f32]| match row {
        [zero, one, ..] if loss == Loss::CrossEntropy => loss.prediction(f64::from(*one) - f64::from(*zero)) as f32,
        _ => loss.prediction(f64::from(row[0])) as f32,
    };
    values.chunks_exact(outputs).map(one).collect()
}
