//! `run.json`: what decides a run, saved before its first step.

use crate::durable::{self, FileError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const RUN_FILE: &str = "run.json";

/// Everything that decides the result of a run. Two runs with the same identity have the same weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub version: String,
    pub cohort_blake3: String,
    pub seed: u64,
    /// Hash of the split, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_blake3: Option<String>,
    /// Instruction set of the kernels: results differ between them in the last bits.
    pub instruction_set: String,
    /// The configuration as asked for: sections of keys. Kept as JSON so that records with keys of another version are read.
    pub settings: Value,
    pub settings_blake3: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub total_steps: u64,
    pub steps_per_epoch: u64,
    /// Steps taken before the length of a run limited in time was known; schedules treat them as step 0.
    pub calibration_steps: u64,
    /// Where the schedules stood when the length of a run limited in time was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
}

/// Ties the schedules of a run limited in time to the steps that are left: from the place they had reached they go on to
/// their end, at the pace that reaches it with the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The step at which the length was changed.
    pub step: u64,
    /// The step as schedules counted it there.
    pub counted: u64,
    /// Length of the schedules: the steps the run was first planned for.
    pub scheduled: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    pub identity: Identity,
    pub cohort: PathBuf,
    /// None until the length of the run is known.
    pub plan: Option<Plan>,
}

/// `run.json` cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: expected the record of a run, found {found}", .path.display())]
    Content { path: PathBuf, found: String },
}

impl Plan {
    /// A number of epochs, rounded up to whole steps.
    pub fn of_epochs(epochs: f64, steps_per_epoch: u64) -> Self {
        let total_steps = ((epochs * steps_per_epoch as f64).ceil() as u64).max(1);
        Self { total_steps, steps_per_epoch, calibration_steps: 0, anchor: None }
    }

    /// The same run ending at another step; the schedules go on from where they are at `step` and end with the run.
    #[must_use]
    pub fn ending_at(&self, total_steps: u64, step: u64) -> Self {
        let anchor = Anchor { step, counted: self.counted(step), scheduled: self.scheduled_steps() };
        Self { total_steps: total_steps.max(step), anchor: Some(anchor), ..*self }
    }

    /// Length of the schedules, in the steps that [`counted`](Self::counted) counts.
    pub fn scheduled_steps(&self) -> u64 {
        self.anchor.map_or(self.total_steps, |anchor| anchor.scheduled)
    }

    /// Epochs in all; not a whole number where a run is limited in time.
    pub fn epochs(&self) -> f64 {
        self.total_steps as f64 / self.steps_per_epoch as f64
    }

    /// The epoch of a step and its place in it.
    pub fn position(&self, step: u64) -> (u64, u64) {
        (step / self.steps_per_epoch, step % self.steps_per_epoch)
    }

    /// The step as schedules count it.
    pub fn counted(&self, step: u64) -> u64 {
        let Some(anchor) = self.anchor else { return if step < self.calibration_steps { 0 } else { step } };
        let last = self.total_steps.saturating_sub(1);
        if step >= last {
            return anchor.scheduled.saturating_sub(1);
        }
        let share = step.saturating_sub(anchor.step) as f64 / last.saturating_sub(anchor.step).max(1) as f64;
        let left = anchor.scheduled.saturating_sub(1).saturating_sub(anchor.counted);
        anchor.counted + (share * left as f64).round() as u64
    }
}

impl Identity {
    pub fn blake3(&self) -> String {
        let json = serde_json::to_vec(self).expect("an identity holds only words and numbers");
        blake3::hash(&json).to_hex().to_string()
    }

    pub fn setting(&self, section: &str, key: &str) -> Option<&Value> {
        self.settings.get(section)?.get(key).filter(|value| !value.is_null())
    }

    /// Every setting with a value as `section.key` and text.
    pub fn flat_settings(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (section, keys) in self.settings.as_object().into_iter().flatten() {
            for (key, value) in keys.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
                found.insert(format!("{section}.{key}"), value.to_string());
            }
        }
        found
    }

    /// What differs from another identity, one sentence each.
    pub fn differences(&self, asked: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |name: &str, here: &str, there: &str| {
            if here != there {
                found.push(format!("{name}: the run has {here}, asked for {there}"));
            }
        };
        compare("version", &self.version, &asked.version);
        compare("cohort", &self.cohort_blake3, &asked.cohort_blake3);
        compare("seed", &self.seed.to_string(), &asked.seed.to_string());
        let people = |split: &Option<String>| split.clone().unwrap_or_else(|| "that of the configuration".to_owned());
        compare("division of people", &people(&self.split_blake3), &people(&asked.split_blake3));
        compare("instruction set", &self.instruction_set, &asked.instruction_set);
        let (here, there) = (self.flat_settings(), asked.flat_settings());
        for key in here.keys().chain(there.keys()).collect::<BTreeSet<_>>() {
            let [here, there] = [&here, &there].map(|settings| settings.get(key).map_or("no value", String::as_str));
            compare(key, here, there);
        }
        found
    }
}

impl RunRecord {
    pub fn read(folder: &Path) -> Result<Self, RecordError> {
        let path = folder.join(RUN_FILE);
        let bytes = durable::read(&path)?;
        serde_json::from_slice(&bytes).map_err(|error| RecordError::Content { path, found: error.to_string() })
    }

    pub fn write(&self, folder: &Path) -> Result<(), FileError> {
        durable::write_json(&folder.join(RUN_FILE), self)
    }
}

pub fn is_run(folder: &Path) -> bool {
    folder.join(RUN_FILE).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_go_on_from_where_they_are_and_end_with_the_run() {
        let plan = Plan { total_steps: 1000, steps_per_epoch: 10, calibration_steps: 20, anchor: None };
        let slower = plan.ending_at(400, 100);
        assert_eq!((slower.counted(100), slower.counted(399), slower.scheduled_steps()), (100, 999, 1000));
        assert_eq!(slower.counted(250), 551, "three steps of the schedule with each step");
        // Changed again, and again without a break.
        let faster = slower.ending_at(2000, 250);
        assert_eq!((faster.counted(250), faster.counted(1999), faster.scheduled_steps()), (551, 999, 1000));
        assert!((0..1999).all(|step| faster.counted(step) <= faster.counted(step + 1)));
        assert_eq!(plan.ending_at(1000, 100).counted(700), 700, "an unchanged length changes nothing");
        let text = serde_json::to_string(&plan).unwrap_or_default();
        assert!(!text.contains("anchor"), "{text}");
    }
}
