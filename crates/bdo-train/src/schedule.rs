//! What changes from step to step: learning rate, momentum of the moving average, and ramps. All are functions of the plan
//! and the step.

use bdo_data::record::Plan;

/// The learning rate over a run: linear from `start` to `peak` over the warm-up, then half a cosine that is down at `end` with the
/// last step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    pub start: f64,
    pub peak: f64,
    pub end: f64,
    pub warmup: Warmup,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// Ten epochs or 5 % of all steps, whichever is shorter.
    TenEpochs,
    /// A share of all steps; 0 for no warm-up.
    Share(f64),
}

impl Warmup {
    pub fn steps(self, plan: &Plan) -> u64 {
        match self {
            Self::TenEpochs => (10 * plan.steps_per_epoch).min(plan.scheduled_steps() / 20),
            Self::Share(share) => (share * plan.scheduled_steps() as f64) as u64,
        }
    }
}

impl LearningRate {
    pub fn at(&self, plan: &Plan, step: u64) -> f64 {
        let (step, warmup) = (plan.counted(step), self.warmup.steps(plan));
        if step < warmup {
            return self.start + (self.peak - self.start) * (step as f64 / warmup as f64);
        }
        let left = plan.scheduled_steps().saturating_sub(1);
        half_cosine(self.peak, self.end, step - warmup, left.saturating_sub(warmup))
    }
}

/// Half a cosine from one value to another, which it reaches at step `length`.
pub fn half_cosine(from: f64, to: f64, step: u64, length: u64) -> f64 {
    let share = (step as f64 / length.max(1) as f64).min(1.0);
    to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
}

/// Linear from one value to another, which it reaches at the last step.
pub fn linear(from: f64, to: f64, plan: &Plan, step: u64) -> f64 {
    let share = plan.counted(step) as f64 / plan.scheduled_steps().saturating_sub(1).max(1) as f64;
    from + (to - from) * share.min(1.0)
}

/// 0 until `start` of all steps are over, then linear up to 1 over a share of all steps; a share of 0 is 1 at once. Never 0 once it
/// began, because a weight of zero would switch the teacher off and the steps timed at the start would not cost what later ones do.
pub fn ramp(plan: &Plan, step: u64, start: f64, share: f64) -> f64 {
    let steps = plan.scheduled_steps() as f64;
    let (counted, first, length) = (plan.counted(step), (start * steps) as u64, share * steps);
    match counted.checked_sub(first) {
        None => 0.0,
        Some(_) if length < 1.0 => 1.0,
        Some(since) => ((since + 1) as f64 / length).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: LearningRate = LearningRate { start: 1e-4, peak: 1e-3, end: 1e-4, warmup: Warmup::TenEpochs };

    #[test]
    fn the_rate_starts_peaks_and_ends_where_it_should() {
        let plan = Plan::of_epochs(200.0, 257);
        assert_eq!((plan.total_steps, Warmup::TenEpochs.steps(&plan)), (51_400, 2570));
        assert_eq!(RATE.at(&plan, 0), 1e-4);
        assert_eq!(RATE.at(&plan, 2570), 1e-3);
        assert!((RATE.at(&plan, 1285) - 5.5e-4).abs() < 1e-12);
        assert!((RATE.at(&plan, 51_399) - 1e-4).abs() < 1e-12);
    }

    #[test]
    fn warm_up_is_the_shorter_of_ten_epochs_and_a_twentieth() {
        assert_eq!(Warmup::TenEpochs.steps(&Plan::of_epochs(1000.0, 10)), 100);
        assert_eq!(Warmup::TenEpochs.steps(&Plan::of_epochs(10.0, 10)), 5);
        let one = Plan::of_epochs(0.1, 3);
        assert_eq!((one.total_steps, RATE.at(&one, 0)), (1, 1e-3));
    }

    #[test]
    fn steps_before_the_length_was_known_run_as_the_first() {
        let plan = Plan { total_steps: 1000, steps_per_epoch: 4, calibration_steps: 20, anchor: None };
        assert_eq!(RATE.at(&plan, 19), RATE.at(&plan, 0));
        assert!(RATE.at(&plan, 20) > RATE.at(&plan, 0));
        assert_eq!(ramp(&plan, 10, 0.0, 0.1), 0.01);
        assert_eq!(ramp(&plan, 49, 0.0, 0.1), 0.5);
    }
}
