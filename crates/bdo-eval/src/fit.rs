//! What a wrong prediction costs, and the training of a head on frozen inputs: Adam, batches, a cosine from the learning rate to the
//! least one.

use crate::head::{Head, widened};
use crate::logistic::says;
use crate::supervised::recipe::Reduction;
use bdo_data::target::TargetKind;
use bdo_train::schedule::half_cosine;
use burn::tensor::{Tensor, TensorData, activation};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    SquaredError,
    /// Binary cross-entropy of the logistic function of one output.
    CrossEntropy,
    /// Cross-entropy of the softmax of this many outputs, one for each class.
    Softmax(usize),
}

pub fn loss_of(task: &TargetKind) -> Loss {
    match task.classes().len() {
        0 => Loss::SquaredError,
        2 => Loss::CrossEntropy,
        classes => Loss::Softmax(classes),
    }
}

impl Loss {
    /// Number of classes, 0 for a number.
    pub fn classes(self) -> usize {
        match self {
            Self::SquaredError => 0,
            Self::CrossEntropy => 2,
            Self::Softmax(classes) => classes,
        }
    }

    pub fn outputs(self) -> usize {
        if let Self::Softmax(classes) = self { classes } else { 1 }
    }

    /// Derivatives by the outputs; the label of a class is its position.
    pub fn slopes(self, outputs: &[f64], label: f64) -> Vec<f64> {
        match self {
            Self::SquaredError => vec![2.0 * (outputs[0] - label)],
            Self::CrossEntropy => vec![self.says(outputs)[1] - label],
            Self::Softmax(_) => {
                let mut slopes = self.says(outputs);
                slopes[label as usize] -= 1.0;
                slopes
            }
        }
    }

    /// What a person sees of outputs: the number itself, or the probabilities of all classes.
    pub fn says(self, outputs: &[f64]) -> Vec<f64> {
        says(outputs, self.classes())
    }

    /// Of what a person sees; the label of a class is its position.
    pub fn of_saying(self, said: &[f64], label: f64) -> f64 {
        match self {
            Self::SquaredError => (said[0] - label) * (said[0] - label),
            Self::CrossEntropy | Self::Softmax(_) => -said[label as usize].max(f64::EPSILON).ln(),
        }
    }

    /// Labels as rows of one value an output: a class of many is a row with a single 1.
    pub fn label_rows(self, labels: &[f32]) -> Vec<f32> {
        let Self::Softmax(classes) = self else { return labels.to_vec() };
        let row = |label: &f32| {
            let class = *label as usize;
            (0..classes).map(move |k| f32::from(u8::from(k == class)))
        };
        labels.iter().flat_map(row).collect()
    }
}

/// Cost of outputs [B, outputs] for labels of the same shape, which may be shares of classes.
pub fn cost(loss: Loss, output: Tensor<2>, labels: &[f32], reduction: Reduction) -> Tensor<1> {
    let labels = Tensor::<2>::from_data(TensorData::new(labels.to_vec(), output.dims()), &output.device());
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

/// Outputs [B, outputs] with what is added to them; nothing where that is empty.
pub fn added(output: Tensor<2>, further: &[f32]) -> Tensor<2> {
    if further.is_empty() {
        return output;
    }
    let further = Tensor::<2>::from_data(TensorData::new(further.to_vec(), output.dims()), &output.device());
    output + further
}

/// Outputs [B, outputs] to what is reported: the z-scored number, or the probabilities of all classes.
pub fn predictions(loss: Loss, output: &Tensor<2>) -> Vec<Vec<f64>> {
    let values = output.to_data().try_to_vec::<f32>().expect("outputs are f32");
    values.chunks_exact(output.dims()[1]).map(|row| loss.says(&widened(row))).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbePoint {
    pub batch_size: usize,
    /// At the first step.
    pub learning_rate: f64,
    /// Where the cosine ends, one step after the last; equal to the first means constant.
    pub least_learning_rate: f64,
}

impl ProbePoint {
    /// The twelve points of the protocol.
    pub fn grid() -> Vec<Self> {
        let mut grid = Vec::with_capacity(12);
        for batch_size in [16, 32, 64] {
            for learning_rate in [1e-2, 5e-3] {
                for least_learning_rate in [1e-3, 5e-3] {
                    grid.push(Self { batch_size, learning_rate, least_learning_rate });
                }
            }
        }
        grid
    }
}

/// Scans with labels, in the units of the loss.
#[derive(Debug)]
pub struct Examples<'a, I: ?Sized> {
    pub inputs: Vec<&'a I>,
    pub labels: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitPlan {
    pub point: ProbePoint,
    /// Passes over the training scans; all of them are run.
    pub epochs: usize,
    pub loss: Loss,
}

/// Trains from `start`, with scans in the order given for each epoch, counted from 0; hands the parameters on after every epoch,
/// counted from 1.
pub fn fit<H: Head>(
    head: &H,
    examples: &Examples<'_, H::Input>,
    plan: &FitPlan,
    start: Vec<f64>,
    order: impl Fn(usize) -> Vec<usize>,
    mut after_epoch: impl FnMut(usize, &[f64]),
) {
    const BETA1: f64 = 0.9;
    const BETA2: f64 = 0.999;
    const EPS: f64 = 1e-8;
    let (point, width) = (plan.point, head.parameters());
    let total = plan.epochs * examples.labels.len().div_ceil(point.batch_size);
    let (mut parameters, mut step) = (start, 0usize);
    let (mut first, mut second, mut gradient) = (vec![0.0f64; width], vec![0.0f64; width], vec![0.0f64; width]);
    for epoch in 0..plan.epochs {
        for batch in order(epoch).chunks(point.batch_size) {
            gradient.fill(0.0);
            for &i in batch {
                let slopes = |outputs: &[f64]| {
                    let mut slopes = plan.loss.slopes(outputs, examples.labels[i]);
                    slopes.iter_mut().for_each(|slope| *slope /= batch.len() as f64);
                    slopes
                };
                head.add_gradient(&parameters, examples.inputs[i], &slopes, &mut gradient);
            }
            let rate = half_cosine(point.learning_rate, point.least_learning_rate, step as u64, total as u64);
            step += 1;
            let length = rate / (1.0 - BETA1.powi(step as i32));
            let root = 1.0 / (1.0 - BETA2.powi(step as i32)).sqrt();
            for (((p, g), m), v) in parameters.iter_mut().zip(&gradient).zip(&mut first).zip(&mut second) {
                *m = BETA1 * *m + (1.0 - BETA1) * g;
                *v = BETA2 * *v + (1.0 - BETA2) * g * g;
                *p -= length * *m / (v.sqrt() * root + EPS);
            }
        }
        after_epoch(epoch + 1, &parameters);
    }
}
