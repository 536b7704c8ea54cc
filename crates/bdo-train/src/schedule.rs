//! What changes from step to step: learning rate, momentum of the moving average, and ramps. All are functions of the plan
//! and the step.

use bdo_data::record::Plan;

/// The learning rate over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LearningRate {
    /// Linear from `start` to `peak` over the warm-up, then half a cosine down to `end`.
    Cosine {
        /// At the first step.
        start: f64,
        /// After the warm-up.
        peak: f64,
        /// At the end.
        end: f64,
        /// Length of the warm-up.
        warmup: Warmup,
        /// Where the end is.
        ends: CosineEnd,
    },
    /// Multiplied by a factor every so many epochs.
    Steps {
        /// In the first epochs.
        first: f64,
        /// The factor.
        factor: f64,
        /// Epochs between two changes.
        every: u64,
    },
}

/// Length of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// Ten epochs or 5 % of all steps, whichever is shorter.
    TenEpochs,
    /// A share of all steps; 0 for no warm-up.
    Share(f64),
}

/// Which step a cosine ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CosineEnd {
    /// The last one.
    LastStep,
    /// The one that would follow the last.
    AfterLastStep,
}

impl Warmup {
    /// Steps of the warm-up.
    pub fn steps(self, plan: &Plan) -> u64 {
        match self {
            Self::TenEpochs => (10 * plan.steps_per_epoch).min(plan.scheduled_steps() / 20),
            Self::Share(share) => (share * plan.scheduled_steps() as f64) as u64,
        }
    }
}

impl LearningRate {
    /// The rate at a step.
    pub fn at(&self, plan: &Plan, step: u64) -> f64 {
        match *self {
            Self::Cosine { start, peak, end, warmup, ends } => {
                let (step, warmup) = (plan.counted(step), warmup.steps(plan));
                if step < warmup {
                    return start + (peak - start) * (step as f64 / warmup as f64);
                }
                let left = plan.scheduled_steps().saturating_sub(u64::from(ends == CosineEnd::LastStep));
                half_cosine(peak, end, step - warmup, left.saturating_sub(warmup))
            }
            Self::Steps { first, factor, every } => first * factor.powi((plan.position(step).0 / every.max(1)) as i32),
        }
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

/// Linear up to 1 over a share of all steps; a share of 0 is 1 at once. Never 0, because a weight of zero would switch the
/// teacher off and the steps timed at the start would not cost what later ones do.
pub fn ramp(plan: &Plan, step: u64, share: f64) -> f64 {
    ramp_of(plan, plan.counted(step), share)
}

fn ramp_of(plan: &Plan, counted: u64, share: f64) -> f64 {
    let length = share * plan.scheduled_steps() as f64;
    if length < 1.0 { 1.0 } else { ((counted + 1) as f64 / length).min(1.0) }
}

/// The same, beginning when `start` of all steps are over; 0 before.
pub fn ramp_from(plan: &Plan, step: u64, start: f64, share: f64) -> f64 {
    let first = (start * plan.scheduled_steps() as f64) as u64;
    if plan.counted(step) < first { 0.0 } else { ramp_of(plan, plan.counted(step) - first, share) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: LearningRate = LearningRate::Cosine {
        start: 1e-4,
        peak: 1e-3,
        end: 1e-4,
        warmup: Warmup::TenEpochs,
        ends: CosineEnd::LastStep,
    };

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
        assert_eq!(ramp(&plan, 10, 0.1), 0.01);
        assert_eq!(ramp(&plan, 49, 0.1), 0.5);
    }

    #[test]
    fn a_rate_in_steps_changes_between_epochs() {
        let rate = LearningRate::Steps { first: 0.01, factor: 0.5, every: 20 };
        let plan = Plan::of_epochs(100.0, 3);
        assert_eq!([0, 59, 60, 120].map(|step| rate.at(&plan, step)), [0.01, 0.01, 0.005, 0.0025]);
    }
}
