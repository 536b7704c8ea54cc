//! How a token model is trained: the settings of its public code, all of them fields.

use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_train::learner::At;
use bdo_train::schedule::{CosineEnd, LearningRate, Warmup, half_cosine, linear};
use bdo_train::settings::{Preset, Settings};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecipe {
    pub epochs: usize,
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
    /// BrainLM as its public code trains it, with a batch of this size; the learning rate follows.
    pub fn brain_lm(batch_size: usize) -> Self {
        Self::of_preset(Preset::BrainLm, batch_size)
    }

    /// Brain-JEPA as its public code trains it, with a batch of this size.
    pub fn brain_jepa(batch_size: usize) -> Self {
        Self::of_preset(Preset::BrainJepa, batch_size)
    }

    fn of_preset(preset: Preset, batch_size: usize) -> Self {
        let batch = format!("train.batch_size={}", batch_size.max(1));
        let resolved = Settings::resolve(Some(preset), "", &[batch]).expect("a preset takes any batch size");
        Self::of_settings(&resolved.settings)
    }

    pub fn of_settings(settings: &Settings) -> Self {
        let train = &settings.train;
        Self {
            epochs: train.epochs.ceil() as usize,
            batch_size: train.batch_size,
            rate: [train.learning_rate_start, train.learning_rate, train.learning_rate_end],
            warmup: train.warmup,
            weight_decay: [train.weight_decay_start, train.weight_decay_end],
            momentum: [train.ema_start, train.ema_end],
        }
    }

    pub fn learning_rate(&self, at: &At) -> f64 {
        let [start, peak, end] = self.rate;
        let (warmup, ends) = (Warmup::Share(self.warmup), CosineEnd::LastStep);
        LearningRate::Cosine { start, peak, end, warmup, ends }.at(&at.plan, at.step)
    }

    pub fn momentum(&self, at: &At) -> f64 {
        linear(self.momentum[0], self.momentum[1], &at.plan, at.step)
    }

    fn weight_decay(&self, at: &At) -> f64 {
        let last = at.plan.scheduled_steps().saturating_sub(1);
        half_cosine(self.weight_decay[0], self.weight_decay[1], at.plan.counted(at.step), last)
    }

    /// Optimiser settings of a parameter with so many axes.
    pub(super) fn adam(&self, axes: usize, scale: f64, at: &At) -> Adam {
        Adam {
            learning_rate: self.learning_rate(at),
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: if axes < 2 { WeightDecay::None } else { WeightDecay::Decoupled(self.weight_decay(at)) },
            gradient_scale: scale as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_data::record::Plan;

    #[test]
    fn schedules_start_peak_and_end_where_they_should() {
        let jepa = TokenRecipe::brain_jepa(16);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        let at = |step, steps: u64| At { plan: Plan::of_epochs(steps as f64, 1), step, seed: 0 };
        near(jepa.learning_rate(&at(0, 300)), 5e-5);
        near(jepa.learning_rate(&at(40, 300)), 1e-3);
        near(jepa.learning_rate(&at(299, 300)), 1e-6);
        near(jepa.weight_decay(&at(0, 300)), 0.04);
        near(jepa.weight_decay(&at(299, 300)), 0.4);
        near(jepa.momentum(&at(0, 300)), 0.996);
        near(jepa.momentum(&at(299, 300)), 1.0);
        near(TokenRecipe::brain_lm(128).learning_rate(&at(5, 100)), 5e-4);
    }
}
