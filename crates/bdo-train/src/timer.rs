//! How long steps take, and how many of them fit into the time that is given. The first steps say it for a machine that
//! stays as it is; since other work comes and goes, the length is looked at again all through the run.

use bdo_data::record::Plan;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steps that are timed before the length of a run limited in time is fixed.
const TIMED_STEPS: usize = 20;
/// Steps that are timed at least where steps are long.
const FEWEST_TIMED: usize = 2;
/// Share of a run's time that timing may take.
const TIMING_SHARE: f64 = 0.05;
/// Share of the time that is left for what the timed steps did not show.
const RESERVE: f64 = 0.03;
/// Share of the time between two looks at the length of the run.
const LOOK_SHARE: f64 = 0.02;
/// Share of the time whose steps say what the next ones take.
const RECENT_SHARE: f64 = 0.05;
/// Steps that say it at least, the longest of them left aside: a single one may have waited for another program.
const RECENT_STEPS: usize = 10;
/// Share of the time before which no run ends, unless its epochs are over.
const EARLY_SHARE: f64 = 0.95;
/// Steps that a validation is taken to last before one was timed: a short run has its first one at its end.
const UNTIMED_VALIDATION: f64 = 2.0;

/// How long a run is asked to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Passes over the training scans; none where only the time decides.
    pub epochs: Option<f64>,
    /// Time limit; 0 for none.
    pub minutes: f64,
    /// Whether a run limited in time is cut at the end of an epoch.
    pub whole_epochs: bool,
    /// How much longer the mean step of the run takes than the first ones.
    pub later_cost: f64,
    /// What comes after the last step, in steps.
    pub afterwards: f64,
}

impl Length {
    /// A number of epochs, however long they take.
    pub fn of_epochs(epochs: f64) -> Self {
        Self { epochs: Some(epochs), minutes: 0.0, whole_epochs: true, later_cost: 1.0, afterwards: 0.0 }
    }

    /// The plan, where nothing has to be timed for it.
    pub fn known(&self, steps_per_epoch: u64) -> Option<Plan> {
        let whole = self.whole(steps_per_epoch)?;
        (self.minutes == 0.0 || whole.total_steps <= TIMED_STEPS as u64).then_some(whole)
    }

    fn whole(&self, steps_per_epoch: u64) -> Option<Plan> {
        self.epochs.map(|epochs| Plan::of_epochs(epochs, steps_per_epoch))
    }
}

/// How long things take in this process.
#[derive(Clone, Debug)]
pub struct Timer {
    started: Instant,
    /// Seconds that earlier processes spent on the run.
    pub before: f64,
    /// Seconds of training when the length was last looked at.
    pub looked: f64,
    pub steps: Vec<f64>,
    pub validation: f64,
}

impl Timer {
    pub fn new(started: Instant) -> Self {
        Self { started, before: 0.0, looked: 0.0, steps: Vec::new(), validation: 0.0 }
    }

    /// Since the start of the run, without the time between two processes.
    pub fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// Whether enough steps were timed. Steps of seconds are known after two: twenty of them, taken as the first is, could
    /// be all there is time for.
    pub fn knows(&self, length: &Length) -> bool {
        let timed: f64 = self.steps.iter().sum();
        let slow = self.steps.len() >= FEWEST_TIMED && timed > TIMING_SHARE * 60.0 * length.minutes;
        slow || self.steps.len() >= TIMED_STEPS
    }

    /// Whether the length should be looked at again after `now` seconds of training: from time to time, and after every
    /// step once the time is over.
    pub fn is_due(&self, length: &Length, now: f64) -> bool {
        let limit = 60.0 * length.minutes;
        limit > 0.0 && !self.steps.is_empty() && (now > limit || now >= self.looked + LOOK_SHARE * limit)
    }

    /// Whether a run whose last step comes would end too early, since its steps became cheaper than they were.
    pub fn is_early(&self, length: &Length, now: f64) -> bool {
        let mean = self.steps.iter().sum::<f64>() / self.steps.len() as f64;
        // Not a number, and so not early, without a step.
        now + length.afterwards * mean < EARLY_SHARE * 60.0 * length.minutes
    }

    /// The plan with as many more steps as fit into what is left after `now` seconds, judged by the last steps.
    pub fn revised(&self, plan: &Plan, length: &Length, now: f64, between: u64, step: u64) -> Plan {
        let enough = RECENT_SHARE * 60.0 * length.minutes;
        let (mut count, mut recent, mut longest) = (0usize, 0.0, 0.0f64);
        for seconds in self.steps.iter().rev() {
            if count >= RECENT_STEPS && recent - longest >= enough {
                break;
            }
            (count, recent, longest) = (count + 1, recent + seconds, longest.max(*seconds));
        }
        let usual = if count >= RECENT_STEPS { (recent - longest) / (count - 1) as f64 } else { recent / count as f64 };
        let cost = usual + self.validation / between as f64;
        let total_steps = self.fitting(length, cost, plan.steps_per_epoch, now, step);
        plan.ending_at(total_steps, step)
    }

    /// As many steps as fit into the time that is left, with a validation every `between` steps.
    pub fn plan(&self, length: &Length, steps_per_epoch: u64, between: u64, step: u64) -> Plan {
        let mean = self.steps.iter().sum::<f64>() / self.steps.len() as f64;
        let cost = mean * length.later_cost + self.validation / between as f64;
        let total_steps = self.fitting(length, cost, steps_per_epoch, self.seconds(), step);
        Plan { total_steps, steps_per_epoch, calibration_steps: step, anchor: None }
    }

    /// The step at which a run ends in time if each further step costs so much. One more is always taken, with which the
    /// schedules end.
    fn fitting(&self, length: &Length, cost: f64, steps_per_epoch: u64, now: f64, step: u64) -> u64 {
        let validation = if self.validation > 0.0 { self.validation } else { UNTIMED_VALIDATION * cost };
        let end = validation + length.afterwards * cost;
        let left = length.minutes * 60.0 * (1.0 - RESERVE) - now - end;
        let more = (left / cost).max(0.0) as u64;
        let mut total_steps = step + more.max(1);
        if length.whole_epochs {
            total_steps = (total_steps / steps_per_epoch).max((step + 1).div_ceil(steps_per_epoch)) * steps_per_epoch;
        }
        if let Some(whole) = length.whole(steps_per_epoch) {
            total_steps = total_steps.min(whole.total_steps);
        }
        total_steps
    }
}

/// Seconds since 1970.
pub fn wall_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Memory in use, where the system says it.
pub fn memory_mib() -> f64 {
    let pages = std::fs::read_to_string(Path::new("/proc/self/statm"))
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
    pages.map_or(0.0, |pages| pages * rustix::param::page_size() as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{LearningRate, Warmup};

    /// Trains for ten minutes with steps of so many seconds at each share of the time: when it ends, as a share of its
    /// minutes, and the learning rate of its last step.
    fn trained(cost: impl Fn(f64) -> f64, afterwards: f64) -> (f64, f64) {
        let rate = LearningRate { start: 0.0, peak: 1.0, end: 0.0, warmup: Warmup::TenEpochs };
        let length = Length { epochs: None, minutes: 10.0, whole_epochs: false, later_cost: 1.0, afterwards };
        let mut timer = Timer::new(Instant::now());
        let (mut now, mut step, mut last) = (0.0, 0, 0.0);
        let mut plan: Option<Plan> = None;
        while plan.is_none_or(|plan| step < plan.total_steps) {
            last = plan.map_or(0.0, |plan| rate.at(&plan, step));
            timer.steps.push(cost(now / 600.0));
            now += cost(now / 600.0);
            step += 1;
            match plan {
                None if timer.knows(&length) => {
                    timer.before = now - timer.seconds();
                    (plan, timer.looked) = (Some(timer.plan(&length, 8, 8, step)), now);
                }
                Some(fixed)
                    if timer.is_due(&length, now)
                        || (step + 1 >= fixed.total_steps && timer.is_early(&length, now)) =>
                {
                    (plan, timer.looked) = (Some(timer.revised(&fixed, &length, now, 8, step)), now);
                }
                _ => {}
            }
        }
        (now / 600.0, last)
    }

    #[test]
    fn a_run_ends_annealed_and_in_time_however_busy_the_machine_becomes() {
        let busy_later = |share: f64| if share < 0.1 { 0.1 } else { 0.3 };
        let busy_first = |share: f64| if share < 0.2 { 0.3 } else { 0.1 };
        let busy_at_the_end = |share: f64| if share < 0.95 { 0.1 } else { 0.2 };
        let long_steps = |share: f64| if share < 0.5 { 4.0 } else { 7.0 };
        let comes_and_goes = |share: f64| if ((share * 10.0) as u64).is_multiple_of(2) { 0.1 } else { 0.4 };
        // One step in a while waits for seconds, the others do not.
        let hiccups = |share: f64| if (share * 1000.0) as u64 % 100 == 33 { 10.0 } else { 0.1 };
        let one_long_wait = |share: f64| if (0.3..0.3001).contains(&share) { 120.0 } else { 0.05 };
        let costs: [&dyn Fn(f64) -> f64; 7] =
            [&busy_later, &busy_first, &busy_at_the_end, &long_steps, &comes_and_goes, &hiccups, &one_long_wait];
        for (number, cost) in costs.into_iter().enumerate() {
            let (ended, rate) = trained(cost, 0.0);
            assert!((0.95..=1.05).contains(&ended), "case {number} ended at {ended}");
            assert!(rate < 1e-3, "case {number} ended with a learning rate of {rate}");
        }
        // Work worth 600 steps comes after: a tenth of ten minutes of steps of 0.1 s.
        let (ended, rate) = trained(|_| 0.1, 600.0);
        assert!((0.85..=0.91).contains(&ended) && rate < 1e-3, "ended at {ended} with a learning rate of {rate}");
    }
}
