//! All that a run carries from one step to the next. Everything else follows from the settings and the step number.

use crate::optimiser::AdamState;
use crate::step::StepReport;
use bdo_data::record::Skipped;
use bdo_model::config::ModelConfig;
use bdo_model::ema::EmaEncoder;
use bdo_model::model::{Bdo, BuildError};
use bdo_model::ops::Kernels;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// The state of a run between two steps.
#[derive(Debug)]
pub struct TrainState {
    /// The step to take next.
    pub step: u64,
    /// The model that is trained.
    pub model: Bdo,
    /// Its moving average.
    pub teacher: EmaEncoder,
    /// Adam's moments.
    pub adam: AdamState,
    /// What watches over the loss.
    pub guard: Guard,
}

impl TrainState {
    /// A fresh model.
    pub fn fresh(config: &ModelConfig, seed: u64, kernels: Kernels, device: &Device) -> Result<Self, BuildError> {
        let model = Bdo::init(config, seed, kernels, device)?;
        let teacher = EmaEncoder::new(&model.encoder);
        Ok(Self { step: 0, model, teacher, adam: AdamState::default(), guard: Guard::default() })
    }
}

/// Taken steps before the average of the loss means anything.
const SETTLING_STEPS: u64 = 50;
/// A loss this many times the average is a spike.
const SPIKE_FACTOR: f64 = 5.0;
/// Weight of the newest loss in the average.
const NEWEST: f64 = 0.02;
/// So many skipped steps in a row are no accident.
pub const SKIPS_BEFORE_ROLLBACK: u32 = 10;
/// After so many rollbacks the run stops.
pub const MOST_ROLLBACKS: u32 = 3;

/// Watches the loss: decides what is a spike and when to give up on the present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// Moving average of the loss.
    pub loss_average: f64,
    /// Steps taken.
    pub taken: u64,
    /// Steps skipped in all.
    pub skipped: u64,
    /// Steps skipped since the last one taken.
    pub skipped_in_row: u32,
    /// How often the run went back to a checkpoint; each time the data come in another order.
    pub rollbacks: u32,
}

impl Guard {
    /// The largest loss a step may have.
    pub fn loss_limit(&self) -> f64 {
        if self.taken < SETTLING_STEPS { f64::INFINITY } else { SPIKE_FACTOR * self.loss_average }
    }

    /// Takes note of a step.
    pub fn note(&mut self, report: &StepReport) -> Option<Skipped> {
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
        report.skipped
    }

    /// Whether skipping has gone on for too long.
    pub fn must_roll_back(&self) -> bool {
        self.skipped_in_row >= SKIPS_BEFORE_ROLLBACK
    }
}
