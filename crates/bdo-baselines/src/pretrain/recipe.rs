//! How a token model is trained, step by step, as the settings of a run say.

use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_train::learner::At;
use bdo_train::schedule::{CosineEnd, LearningRate, Warmup, half_cosine, linear};
use bdo_train::settings::{Preset, Settings, TrainSettings};

/// The training of a public code with a batch of this size; the learning rate follows.
pub fn of_preset(preset: Preset, batch_size: usize) -> TrainSettings {
    let batch = format!("train.batch_size={}", batch_size.max(1));
    Settings::resolve(Some(preset), "", &[batch]).expect("a preset takes any batch size").settings.train
}

pub(super) fn learning_rate(train: &TrainSettings, at: &At) -> f64 {
    let (start, peak, end) = (train.learning_rate_start, train.learning_rate, train.learning_rate_end);
    let (warmup, ends) = (Warmup::Share(train.warmup), CosineEnd::LastStep);
    LearningRate::Cosine { start, peak, end, warmup, ends }.at(&at.plan, at.step)
}

/// Of the moving average: linear from the first to the last step.
pub(super) fn momentum(train: &TrainSettings, at: &At) -> f64 {
    linear(train.ema_start, train.ema_end, &at.plan, at.step)
}

/// Half a cosine from the first to the last step.
fn weight_decay(train: &TrainSettings, at: &At) -> f64 {
    let last = at.plan.scheduled_steps().saturating_sub(1);
    half_cosine(train.weight_decay_start, train.weight_decay_end, at.plan.counted(at.step), last)
}

/// Optimiser settings of a parameter with so many axes: decoupled weight decay, none on vectors.
pub(super) fn adam(train: &TrainSettings, axes: usize, scale: f64, at: &At) -> Adam {
    Adam {
        learning_rate: learning_rate(train, at),
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: if axes < 2 { WeightDecay::None } else { WeightDecay::Decoupled(weight_decay(train, at)) },
        gradient_scale: scale as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_data::record::Plan;

    #[test]
    fn schedules_start_peak_and_end_where_they_should() {
        let jepa = of_preset(Preset::BrainJepa, 16);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        let at = |step, steps: u64| At { plan: Plan::of_epochs(steps as f64, 1), step, seed: 0 };
        near(learning_rate(&jepa, &at(0, 300)), 5e-5);
        near(learning_rate(&jepa, &at(40, 300)), 1e-3);
        near(learning_rate(&jepa, &at(299, 300)), 1e-6);
        near(weight_decay(&jepa, &at(0, 300)), 0.04);
        near(weight_decay(&jepa, &at(299, 300)), 0.4);
        near(momentum(&jepa, &at(0, 300)), 0.996);
        near(momentum(&jepa, &at(299, 300)), 1.0);
        near(learning_rate(&of_preset(Preset::BrainLm, 128), &at(5, 100)), 5e-4);
    }
}
