//! `training.json`: how a model was trained.

use crate::autocorrelation::Autocorrelation;
use crate::intake::MaskSettings;
use bdo_data::durable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// How the model was trained, and what evaluation compares it with.
pub const TRAINING_FILE: &str = "training.json";

/// Contents of `training.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingNotes {
    /// How frames were drawn.
    pub mask: MaskSettings,
    /// Of the training people; what kriging uses.
    pub autocorrelation: Autocorrelation,
    /// Hash of the configuration.
    pub settings_blake3: String,
    /// Hash of the cohort.
    pub cohort_blake3: String,
    /// Seed of the run.
    pub seed: u64,
    /// Steps taken.
    pub steps: u64,
    /// Hashes of the people that settings may have been chosen by: not trained on, but not new either.
    #[serde(default)]
    pub validation_people: BTreeSet<String>,
}

/// Reads `training.json`, where there is one.
pub fn read_notes(folder: &Path) -> Option<TrainingNotes> {
    let bytes = durable::read(&folder.join(TRAINING_FILE)).ok()?;
    serde_json::from_slice(&bytes).ok()
}
