//! Features of a cohort on the disk: several labels, and a run that is taken up again, need them once.

use bdo_data::durable::{self, FileError};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Features with what made them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureFile {
    /// Hash of the model.
    pub model_blake3: String,
    /// Hash of the cohort.
    pub cohort_blake3: String,
    /// Number of a scan in the cohort, and its feature.
    pub rows: Vec<(usize, Vec<f32>)>,
}

impl FeatureFile {
    /// The file, if it is there and of this model and cohort; anything else is computed anew.
    pub fn find(path: &Path, model_blake3: &str, cohort_blake3: &str) -> Option<Self> {
        let found: Self = serde_json::from_slice(&durable::read(path).ok()?).ok()?;
        (found.model_blake3 == model_blake3 && found.cohort_blake3 == cohort_blake3).then_some(found)
    }

    /// Writes it, whole or not at all.
    pub fn keep(&self, path: &Path) -> Result<(), FileError> {
        let text = serde_json::to_vec(self).expect("features are numbers");
        durable::write(path, &text)
    }
}
