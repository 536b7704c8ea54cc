//! What a wrong prediction costs, on tensors.

use crate::fit::Loss;
use crate::select::widened;
use burn::tensor::{Tensor, TensorData, activation};
use serde::{Deserialize, Serialize};

/// How the costs of a batch become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    Mean,
    Sum,
}

/// Cost of outputs [B, outputs] for labels of the same shape, which may be shares of classes.
pub fn cost(loss: Loss, output: Tensor<2>, labels: &[f32], reduction: Reduction) -> Tensor<1> {
    let [samples, outputs] = output.dims();
    let device = output.device();
    let labels = Tensor::<2>::from_data(TensorData::new(labels.to_vec(), [samples, outputs]), &device);
    let costs = match loss {
        Loss::SquaredError => (output - labels).square(),
        Loss::CrossEntropy => {
            // log(1 + e^z) - y z, in the form that does not overflow.
            let magnitude = output.clone().abs().neg().exp().log1p();
            activation::relu(output.clone()) - output * labels + magnitude
        }
        Loss::Softmax(_) => (activation::log_softmax(output, 1) * labels).sum_dim(1).neg(),
    };
    match reduction {
        Reduction::Mean => costs.mean(),
        Reduction::Sum => costs.sum(),
    }
}

/// Outputs [B, outputs] to what is reported: the z-scored number, or the probabilities of all classes.
pub fn predictions(loss: Loss, output: &Tensor<2>) -> Vec<Vec<f64>> {
    let outputs = output.dims()[1];
    let values = output.to_data().try_to_vec::<f32>().expect("outputs are f32");
    values.chunks_exact(outputs).map(|row| loss.says(&widened(row))).collect()
}
