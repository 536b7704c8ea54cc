//! How long steps take, and how many of them fit into the time that is given.

use crate::settings::{Kind, Settings};
use bdo_data::record::Plan;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steps that are timed before the length of a run limited in time is fixed.
pub const TIMED_STEPS: u64 = 20;
/// Share of the time that is left for what the timed steps did not show.
const RESERVE: f64 = 0.03;

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

    /// As many steps as fit into the time that is left.
    pub fn plan(&self, settings: &Settings, steps_per_epoch: u64, step: u64) -> Plan {
        let mean = self.steps.iter().sum::<f64>() / self.steps.len() as f64;
        let between = steps_per_epoch.max(settings.train.validation_steps) as f64;
        let cost = mean * later_cost(settings) + self.validation / between;
        let left = settings.train.max_minutes * 60.0 * (1.0 - RESERVE)
            - self.started.elapsed().as_secs_f64()
            - self.validation;
        let more = (left / cost).max(0.0) as u64;
        Plan { total_steps: (step + more).max(1), steps_per_epoch, calibration_steps: step }
    }
}

/// How much longer the mean step of the run takes than the timed ones, which had no latent target if it enters later: it is
/// one pass over the targets, beside three over the context.
fn later_cost(settings: &Settings) -> f64 {
    if settings.model.kind != Kind::Bdo || settings.loss.tau == 0.0 || settings.train.tau_start == 0.0 {
        return 1.0;
    }
    let ratio = settings.mask.ratio;
    1.0 + (1.0 - settings.train.tau_start) * ratio / (3.0 * (1.0 - ratio))
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
