//! How long steps take, and how many of them fit into the time that is given.

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
}

impl Length {
    /// A number of epochs, however long they take.
    pub fn of_epochs(epochs: f64) -> Self {
        Self { epochs: Some(epochs), minutes: 0.0, whole_epochs: true, later_cost: 1.0 }
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
    /// Seconds of each step.
    pub steps: Vec<f64>,
    /// Seconds of the last validation.
    pub validation: f64,
}

impl Timer {
    /// Nothing timed yet.
    pub fn new(started: Instant) -> Self {
        Self { started, steps: Vec::new(), validation: 0.0 }
    }

    /// Since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Whether enough steps were timed. Steps of seconds are known after two: twenty of them, taken as the first is, could
    /// be all there is time for.
    pub fn knows(&self, length: &Length) -> bool {
        let timed: f64 = self.steps.iter().sum();
        let slow = self.steps.len() >= FEWEST_TIMED && timed > TIMING_SHARE * 60.0 * length.minutes;
        slow || self.steps.len() >= TIMED_STEPS
    }

    /// Whether the time of a run is over.
    pub fn is_past(&self, length: &Length) -> bool {
        length.minutes > 0.0 && self.seconds() > 60.0 * length.minutes
    }

    /// As many steps as fit into the time that is left, with a validation every `between` steps.
    pub fn plan(&self, length: &Length, steps_per_epoch: u64, between: u64, step: u64) -> Plan {
        let mean = self.steps.iter().sum::<f64>() / self.steps.len() as f64;
        let cost = mean * length.later_cost + self.validation / between as f64;
        let left = length.minutes * 60.0 * (1.0 - RESERVE) - self.seconds() - self.validation;
        let more = (left / cost).max(0.0) as u64;
        let mut total_steps = (step + more).max(1);
        if length.whole_epochs {
            total_steps = (total_steps / steps_per_epoch).max(step.div_ceil(steps_per_epoch)).max(1) * steps_per_epoch;
        }
        if let Some(whole) = length.whole(steps_per_epoch) {
            total_steps = total_steps.min(whole.total_steps);
        }
        Plan { total_steps, steps_per_epoch, calibration_steps: step }
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
