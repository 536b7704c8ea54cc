//! `training.json`: how a model was trained.

use crate::autocorrelation::Autocorrelation;
use crate::intake::MaskSettings;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;

/// How the model was trained, and what evaluation compares it with.
pub const TRAINING_FILE: &str = "training.json";

/// Contents of `training.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingNotes {
    /// How frames were drawn.
    #[serde(deserialize_with = "known_keys")]
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

/// Leaves out keys that only earlier versions had, so that their models are read as before.
fn known_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MaskSettings, D::Error> {
    let mut found = serde_json::Map::deserialize(deserializer)?;
    let known = serde_json::to_value(MaskSettings::default()).map_err(D::Error::custom)?;
    found.retain(|key, _| known.get(key).is_some());
    MaskSettings::deserialize(serde_json::Value::Object(found)).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_an_earlier_version_are_read() {
        let text = r#"{"mask": {"ratio": 0.5, "frames": 24, "stretch": 1.0, "centre": "visible", "a_key_of_old": 7.0},
                       "autocorrelation": {"lag_seconds": 1.0, "values": [1.0]}, "settings_blake3": "", "cohort_blake3": "",
                       "seed": 1, "steps": 2}"#;
        let notes: TrainingNotes = serde_json::from_str(text).expect("notes with a key that is gone");
        assert_eq!((notes.mask.frames, notes.mask.stretch), (24, 1.0));
    }
}
