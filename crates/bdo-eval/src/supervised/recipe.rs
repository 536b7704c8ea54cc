//! How a network is trained: the settings of its public code, all of them fields.

use bdo_data::record::Plan;
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_train::schedule::half_cosine;
use bdo_train::timer::Length;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub epochs: usize,
    pub batch_size: usize,
    /// Leave out the last, smaller batch of an epoch.
    pub drop_last: bool,
    pub rate: Rate,
    /// L2 penalty added to the gradient of every parameter; with `layer_decay` decoupled, on matrices only.
    pub weight_decay: f64,
    pub mixup: bool,
    pub reduction: Reduction,
    pub selection: Selection,
    /// Factor on the learning rate from each layer to the one below, as in fine-tuning; `None` for one rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_decay: Option<f64>,
    /// Run only as many epochs as fit into this time, judged by the first steps; 0 means no limit.
    #[serde(default)]
    pub max_minutes: f64,
    /// Purpose of the random stream that orders the scans.
    #[serde(skip, default = "baseline_order")]
    pub order: &'static str,
}

fn baseline_order() -> &'static str {
    BASELINE_ORDER
}

/// The order of scans in the training of a baseline.
pub const BASELINE_ORDER: &str = "baseline order";

impl Rate {
    /// At a step.
    pub fn at(self, plan: &Plan, step: u64) -> f64 {
        let (steps, counted) = (plan.scheduled_steps(), plan.counted(step));
        match self {
            Self::Cosine { from, to } => half_cosine(from, to, counted, steps.saturating_sub(1)),
            Self::OpenCosine { from, to } => half_cosine(from, to, counted, steps),
            Self::Steps { from, factor, every } => {
                from * factor.powi((plan.position(step).0 / (every as u64).max(1)) as i32)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Half a cosine from the first step to the last, without a warm-up.
    Cosine { from: f64, to: f64 },
    /// The same, with its end one step after the last.
    OpenCosine { from: f64, to: f64 },
    /// Multiplied by a factor every so many epochs.
    Steps { from: f64, factor: f64, every: usize },
}

/// How the costs of a batch become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    Mean,
    Sum,
}

/// How the best epoch is chosen on the validation people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// As for every method: accuracy, then macro-F1, then loss for classes; squared error for numbers.
    Protocol,
    /// The smallest loss among epochs after this many, as BrainGNN's code has it.
    LossAfter(usize),
}

impl Recipe {
    /// BrainNetCNN and BrainNetTF.
    pub fn brain_network_transformer() -> Self {
        Self {
            drop_last: true,
            mixup: true,
            reduction: Reduction::Sum,
            ..Self::plain(200, 16, Rate::Cosine { from: 1e-4, to: 1e-5 }, 1e-4)
        }
    }

    pub fn brain_gnn() -> Self {
        Self::plain(100, 100, Rate::Steps { from: 0.01, factor: 0.5, every: 20 }, 5e-3)
    }

    /// Every scan in every epoch, the mean of the losses, the protocol's selection, and one rate for all layers.
    pub fn plain(epochs: usize, batch_size: usize, rate: Rate, weight_decay: f64) -> Self {
        Self {
            epochs,
            batch_size,
            drop_last: false,
            rate,
            weight_decay,
            mixup: false,
            reduction: Reduction::Mean,
            selection: Selection::Protocol,
            layer_decay: None,
            max_minutes: 0.0,
            order: BASELINE_ORDER,
        }
    }

    /// Settings of a parameter with so many axes at a scheduled rate, so many layers below the output.
    pub(super) fn adam(&self, rate: f64, depth: usize, axes: usize, scale: f64) -> Adam {
        let plain = Adam {
            learning_rate: rate,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: WeightDecay::Coupled(self.weight_decay),
            gradient_scale: scale as f32,
        };
        let Some(decay) = self.layer_decay else { return plain };
        let decoupled = if axes > 1 { WeightDecay::Decoupled(self.weight_decay) } else { WeightDecay::None };
        Adam { learning_rate: rate * decay.powi(depth as i32), weight_decay: decoupled, ..plain }
    }

    pub(super) fn length(&self) -> Length {
        Length { minutes: self.max_minutes, ..Length::of_epochs(self.epochs as f64) }
    }

    /// Where batches of an epoch begin and end. Batch statistics need two scans, so a rest of one is always left out; with
    /// fewer scans than a batch, all of them are one.
    pub(super) fn batches(&self, scans: usize) -> Vec<std::ops::Range<usize>> {
        let size = self.batch_size.clamp(1, scans.max(1));
        let least = if self.drop_last { size } else { 2.min(size) };
        let starts = (0..scans).step_by(size);
        starts.map(|from| from..(from + size).min(scans)).filter(|range| range.len() >= least).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_batches_are_those_of_the_public_code() {
        let cosine = Recipe::brain_network_transformer();
        let plan = Plan::of_epochs(101.0, 1);
        let rate = |step| cosine.rate.at(&plan, step);
        assert_eq!(rate(0), 1e-4);
        assert!((rate(50) - 5.5e-5).abs() < 1e-12);
        assert!((rate(100) - 1e-5).abs() < 1e-12);
        let steps = Recipe::brain_gnn();
        assert_eq!([0, 19, 20, 40].map(|e| steps.rate.at(&plan, e)), [0.01, 0.01, 0.005, 0.0025]);
        // A rate in steps changes between epochs.
        let plan = Plan::of_epochs(100.0, 3);
        assert_eq!([0, 59, 60, 120].map(|step| steps.rate.at(&plan, step)), [0.01, 0.01, 0.005, 0.0025]);
        assert_eq!(cosine.batches(35), [0..16, 16..32]);
        assert_eq!(cosine.batches(9).len(), 1);
        assert_eq!(cosine.batches(9)[0], 0..9);
        assert_eq!(steps.batches(201), [0..100, 100..200]);
        assert_eq!(steps.batches(250), [0..100, 100..200, 200..250]);
    }
}
