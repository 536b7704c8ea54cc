//! How a token model is trained: the settings of its public code, all of them fields.

use super::step::StepSettings;
use bdo_train::settings::{Kind, Settings};
use serde::{Deserialize, Serialize};

/// Settings of one training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecipe {
    /// Passes over the scans.
    pub epochs: usize,
    /// Scans a step.
    pub batch_size: usize,
    /// Learning rate at the first step, after the warm-up and at the last step.
    pub rate: [f64; 3],
    /// Share of all steps that warm up.
    pub warmup: f64,
    /// Decoupled weight decay at the first and at the last step, half a cosine between; none on vectors.
    pub weight_decay: [f64; 2],
    /// Momentum of the moving average at the first and at the last step, linear between.
    pub momentum: [f64; 2],
}

impl TokenRecipe {
    /// BrainLM: the learning rate goes with the batch.
    pub fn brain_lm(batch_size: usize) -> Self {
        let peak = 1e-3 * batch_size as f64 / 256.0;
        Self {
            epochs: 100,
            batch_size,
            rate: [0.0, peak, 0.0],
            warmup: 0.05,
            weight_decay: [0.05, 0.05],
            momentum: [1.0, 1.0],
        }
    }

    /// Brain-JEPA: 40 of 300 epochs warm up. The moving average ends at 1, as was meant; the public code ends at 0.9965.
    pub fn brain_jepa(batch_size: usize) -> Self {
        Self {
            epochs: 300,
            batch_size,
            rate: [5e-5, 1e-3, 1e-6],
            warmup: 40.0 / 300.0,
            weight_decay: [0.04, 0.4],
            momentum: [0.996, 1.0],
        }
    }

    /// The training of the public code of a method, with a batch of this size.
    pub fn of_kind(kind: Kind, batch_size: usize) -> Self {
        if kind == Kind::BrainJepa { Self::brain_jepa(batch_size) } else { Self::brain_lm(batch_size) }
    }

    /// What a configuration says, and the public code where it is silent.
    pub fn of_settings(settings: &Settings) -> Self {
        let train = &settings.train;
        let own = Self::of_kind(settings.model.kind, train.batch_size);
        Self {
            epochs: train.epochs.ceil() as usize,
            batch_size: train.batch_size,
            rate: [train.learning_rate_start, train.learning_rate, train.learning_rate_end],
            warmup: train.warmup.unwrap_or(own.warmup),
            weight_decay: [
                train.weight_decay_start.unwrap_or(own.weight_decay[0]),
                train.weight_decay_end.unwrap_or(own.weight_decay[1]),
            ],
            momentum: [train.ema_start.unwrap_or(own.momentum[0]), train.ema_end.unwrap_or(own.momentum[1])],
        }
    }

    /// What holds at a step of `total`.
    pub fn at(&self, step: u64, total: u64) -> StepSettings {
        StepSettings {
            learning_rate: self.rate_at(step, total),
            weight_decay: self.weight_decay_at(step, total),
            momentum: self.momentum_at(step, total),
        }
    }

    fn rate_at(&self, step: u64, total: u64) -> f64 {
        let [start, peak, end] = self.rate;
        let warmup = (self.warmup * total as f64) as u64;
        if step < warmup {
            return start + (peak - start) * (step as f64 / warmup as f64);
        }
        half_cosine(peak, end, step - warmup, total - warmup)
    }

    fn weight_decay_at(&self, step: u64, total: u64) -> f64 {
        half_cosine(self.weight_decay[0], self.weight_decay[1], step, total)
    }

    fn momentum_at(&self, step: u64, total: u64) -> f64 {
        let share = step as f64 / total.saturating_sub(1).max(1) as f64;
        self.momentum[0] + (self.momentum[1] - self.momentum[0]) * share.min(1.0)
    }
}

/// From the first step's value to the last step's.
fn half_cosine(from: f64, to: f64, step: u64, total: u64) -> f64 {
    let share = (step as f64 / total.saturating_sub(1).max(1) as f64).min(1.0);
    to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_start_peak_and_end_where_they_should() {
        let jepa = TokenRecipe::brain_jepa(16);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(jepa.rate_at(0, 300), 5e-5);
        near(jepa.rate_at(40, 300), 1e-3);
        near(jepa.rate_at(299, 300), 1e-6);
        near(jepa.weight_decay_at(0, 300), 0.04);
        near(jepa.weight_decay_at(299, 300), 0.4);
        near(jepa.momentum_at(0, 300), 0.996);
        near(jepa.momentum_at(299, 300), 1.0);
        near(TokenRecipe::brain_lm(128).rate_at(5, 100), 5e-4);
    }
}
