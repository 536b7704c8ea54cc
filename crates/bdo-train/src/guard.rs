//! Watches the loss of a run: which losses are spikes, and when to return to a checkpoint.

use crate::step::StepReport;
use serde::{Deserialize, Serialize};

/// Taken steps before the average of the loss means anything.
const SETTLING_STEPS: u64 = 50;
/// A loss this many times the average is a spike.
const SPIKE_FACTOR: f64 = 5.0;
/// Weight of the newest loss in the average.
const NEWEST: f64 = 0.02;
/// Skipped steps in a row before the run goes back to a checkpoint.
pub const SKIPS_BEFORE_ROLLBACK: u32 = 10;
/// After so many rollbacks a run is given up.
pub const MOST_ROLLBACKS: u32 = 3;

/// Watches the loss: decides what is a spike and when to give up on the present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    pub loss_average: f64,
    pub taken: u64,
    pub skipped: u64,
    pub skipped_in_row: u32,
    /// How often the run went back to a checkpoint; each time the data come in another order.
    pub rollbacks: u32,
}

impl Guard {
    /// The largest loss a step may have.
    pub fn loss_limit(&self) -> f64 {
        if self.taken < SETTLING_STEPS { f64::INFINITY } else { SPIKE_FACTOR * self.loss_average }
    }

    /// Forgets the losses so far: those to come weigh their terms differently and cannot be compared with them.
    pub fn start_anew(&mut self) {
        self.taken = 0;
    }

    pub fn note(&mut self, report: &StepReport) {
        if report.skipped.is_some() {
            self.skipped += 1;
            self.skipped_in_row += 1;
        } else {
            let newest = report.loss.total;
            self.loss_average =
                if self.taken == 0 { newest } else { self.loss_average + NEWEST * (newest - self.loss_average) };
            self.taken += 1;
            self.skipped_in_row = 0;
        }
    }

    /// Whether skipping has gone on for too long.
    pub fn must_roll_back(&self) -> bool {
        self.skipped_in_row >= SKIPS_BEFORE_ROLLBACK
    }
}
