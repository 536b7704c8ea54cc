//! Training a head on frozen inputs: Adam, batches, a cosine from the learning rate to the least one.

use crate::head::Head;
use bdo_data::random::{shuffle, stream};
use bdo_train::schedule::half_cosine;
use serde::{Deserialize, Serialize};

/// One point of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbePoint {
    /// Scans a step.
    pub batch_size: usize,
    /// At the first step.
    pub learning_rate: f64,
    /// Where the cosine ends; equal to the first means constant.
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

    /// Of step `step` out of `total`, as half a cosine that would reach its end one step after the last.
    pub fn rate(&self, step: usize, total: usize) -> f64 {
        half_cosine(self.learning_rate, self.least_learning_rate, step as u64, total as u64)
    }
}

/// What the output is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Squared error.
    SquaredError,
    /// Binary cross-entropy of the logistic function of the output.
    CrossEntropy,
}

impl Loss {
    /// Derivative by the output.
    pub fn slope(self, output: f64, label: f64) -> f64 {
        match self {
            Self::SquaredError => 2.0 * (output - label),
            Self::CrossEntropy => logistic(output) - label,
        }
    }

    /// What a person sees of an output: the number itself, or a probability.
    pub fn prediction(self, output: f64) -> f64 {
        match self {
            Self::SquaredError => output,
            Self::CrossEntropy => logistic(output),
        }
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Scans with labels, in the units of the loss.
#[derive(Debug)]
pub struct Examples<'a, I: ?Sized> {
    /// What the head reads.
    pub inputs: Vec<&'a I>,
    /// What it should say.
    pub labels: Vec<f64>,
}

/// How long, how, and in which order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitPlan {
    /// The settings of this run.
    pub point: ProbePoint,
    /// Passes over the training scans; all of them are run.
    pub epochs: usize,
    /// What is minimised.
    pub loss: Loss,
    /// Decides the order of scans.
    pub seed: u64,
}

/// Trains from `start` and hands the parameters on after every epoch, counted from 1.
pub fn fit<H: Head>(
    head: &H,
    examples: &Examples<'_, H::Input>,
    plan: &FitPlan,
    start: Vec<f64>,
    after_epoch: impl FnMut(usize, &[f64]),
) {
    let count = examples.labels.len();
    fit_in_order(head, examples, plan, start, |epoch| order(plan.seed, epoch, count), after_epoch);
}

/// The same with the order of scans given for each epoch, counted from 0.
pub fn fit_in_order<H: Head>(
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
    let (count, width) = (examples.labels.len(), head.parameters());
    let total = plan.epochs * count.div_ceil(plan.point.batch_size);
    let (mut parameters, mut step) = (start, 0usize);
    let (mut first, mut second, mut gradient) = (vec![0.0f64; width], vec![0.0f64; width], vec![0.0f64; width]);
    for epoch in 0..plan.epochs {
        for batch in order(epoch).chunks(plan.point.batch_size) {
            gradient.fill(0.0);
            for &i in batch {
                let slope = |output| plan.loss.slope(output, examples.labels[i]) / batch.len() as f64;
                head.add_gradient(&parameters, examples.inputs[i], &slope, &mut gradient);
            }
            let rate = plan.point.rate(step, total);
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

/// The order of scans in one epoch: a function of seed and epoch alone.
pub fn order(seed: u64, epoch: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut stream("probe order", &[seed, epoch as u64]));
    order
}
