//! What changes from step to step: learning rate, momentum of the moving average, and the warm-ups.

use serde::{Deserialize, Serialize};

/// Shape of the learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSettings {
    /// At the first step.
    pub start: f64,
    /// After the warm-up.
    pub peak: f64,
    /// At the last step.
    pub end: f64,
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Steps in all.
    pub total_steps: u64,
    /// Steps of one pass over the training scans.
    pub steps_per_epoch: u64,
    /// Steps taken before the length was known (a run limited in time); they ran as step 0 does.
    pub calibration_steps: u64,
}

impl Plan {
    /// Passes over the data, rounded up to whole steps.
    pub fn of_epochs(epochs: f64, steps_per_epoch: u64) -> Self {
        let total_steps = ((epochs * steps_per_epoch as f64).ceil() as u64).max(1);
        Self { total_steps, steps_per_epoch, calibration_steps: 0 }
    }

    /// Warm-up: ten epochs or 5 % of all steps, whichever is shorter.
    pub fn warmup_steps(&self) -> u64 {
        (10 * self.steps_per_epoch).min(self.total_steps / 20)
    }

    /// The step as schedules count it: those before the length was known run as the first.
    pub fn counted(&self, step: u64) -> u64 {
        if step < self.calibration_steps { 0 } else { step }
    }

    /// Linear from start to peak over the warm-up, then half a cosine down to the end at the last step.
    pub fn learning_rate(&self, step: u64, rate: &RateSettings) -> f64 {
        let (step, warmup) = (self.counted(step), self.warmup_steps());
        if step < warmup {
            return rate.start + (rate.peak - rate.start) * (step as f64 / warmup as f64);
        }
        let left = self.total_steps.saturating_sub(1).saturating_sub(warmup).max(1);
        let share = ((step - warmup) as f64 / left as f64).min(1.0);
        rate.end + (rate.peak - rate.end) * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
    }

    /// Momentum of the moving average.
    pub fn ema_momentum(&self, step: u64) -> f64 {
        bdo_model::ema::ema_momentum(self.counted(step), self.total_steps)
    }

    /// The same, beginning when `start` of all steps are over; 0 before.
    pub fn ramp_from(&self, step: u64, start: f64, share: f64) -> f64 {
        let first = (start * self.total_steps as f64) as u64;
        if step < first { 0.0 } else { self.ramp(step - first, share) }
    }

    /// Linear up to 1 over a share of all steps; a share of 0 is 1 at once. Never 0, because a weight of zero would
    /// switch the teacher off and the steps timed at the start would not cost what later ones do.
    pub fn ramp(&self, step: u64, share: f64) -> f64 {
        let length = share * self.total_steps as f64;
        if length < 1.0 { 1.0 } else { ((self.counted(step) + 1) as f64 / length).min(1.0) }
    }

    /// The pass over the data a step belongs to, and its place in it.
    pub fn position(&self, step: u64) -> (u64, u64) {
        (step / self.steps_per_epoch, step % self.steps_per_epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: RateSettings = RateSettings { start: 1e-4, peak: 1e-3, end: 1e-4 };

    #[test]
    fn the_rate_starts_peaks_and_ends_where_it_should() {
        let plan = Plan::of_epochs(200.0, 257);
        assert_eq!((plan.total_steps, plan.warmup_steps()), (51_400, 2570));
        assert_eq!(plan.learning_rate(0, &RATE), 1e-4);
        assert_eq!(plan.learning_rate(2570, &RATE), 1e-3);
        assert!((plan.learning_rate(1285, &RATE) - 5.5e-4).abs() < 1e-12);
        assert!((plan.learning_rate(51_399, &RATE) - 1e-4).abs() < 1e-12);
        assert!((plan.ema_momentum(0) - 0.996).abs() < 1e-12 && plan.ema_momentum(51_399) == 1.0);
    }

    #[test]
    fn warm_up_is_the_shorter_of_ten_epochs_and_a_twentieth() {
        assert_eq!(Plan::of_epochs(1000.0, 10).warmup_steps(), 100);
        assert_eq!(Plan::of_epochs(10.0, 10).warmup_steps(), 5);
        let one = Plan::of_epochs(0.1, 3);
        assert_eq!((one.total_steps, one.learning_rate(0, &RATE)), (1, 1e-3));
    }

    #[test]
    fn steps_before_the_length_was_known_run_as_the_first() {
        let plan = Plan { total_steps: 1000, steps_per_epoch: 4, calibration_steps: 20 };
        assert_eq!(plan.learning_rate(19, &RATE), plan.learning_rate(0, &RATE));
        assert!(plan.learning_rate(20, &RATE) > plan.learning_rate(0, &RATE));
        assert_eq!(plan.ramp(10, 0.1), 0.01);
        assert_eq!(plan.ramp(49, 0.1), 0.5);
    }
}
