//! Checkpoints of any learner: sets of files that are complete or absent. A set is written under another name, flushed, and
//! renamed; its manifest holds the BLAKE3 of every file and of itself. A damaged set is put aside and the one before is used.

use crate::error::TrainError;
use crate::guard::Guard;
use crate::learner::WeightFiles;
use crate::optimiser::{AdamState, Moments};
use bdo_data::durable::{self, FileError, InFile};
use bdo_data::record::{Plan, ValidationEntry};
use bdo_model::parameters::{Array, ParameterSpec, Parameters};
use bdo_model::weights::{read_parameters, write_parameters};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FORMAT: &str = "bdo-checkpoint/1";
const MANIFEST_FILE: &str = "manifest.json";
const FIRST: &str = "first_moments.safetensors";
const SECOND: &str = "second_moments.safetensors";

/// Where the sets are and what they are of.
#[derive(Clone, Debug)]
pub struct CheckpointSets {
    pub folder: PathBuf,
    pub run_blake3: String,
    pub keep: usize,
    pub weights: WeightFiles,
}

/// Where a run stands between two steps, besides weights and optimiser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub step: u64,
    pub guard: Guard,
    /// Length of the run, once that is known.
    #[serde(default)]
    pub plan: Option<Plan>,
    /// Seconds of training so far, for a run limited in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Sum of the losses since the last validation, weighted by scans, and the sum of the weights.
    #[serde(default)]
    pub train_loss: (f64, f64),
    #[serde(default)]
    pub validations: Vec<ValidationEntry>,
    /// Number of the validation whose weights are kept as the best.
    #[serde(default)]
    pub best: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct StoredState {
    pub progress: Progress,
    pub adam: AdamState,
    /// One per file of [`CheckpointSets::weights`].
    pub weights: Vec<Parameters>,
    /// The same of the best validation, for learners that choose by it.
    pub best: Option<Vec<Parameters>>,
}

/// A restored state, and what had to be put aside to get it.
#[derive(Debug)]
pub struct RestoredSet {
    /// The newest undamaged state, if there is one.
    pub state: Option<StoredState>,
    /// One sentence for each damaged set.
    pub damaged: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    format: String,
    run_blake3: String,
    adam_steps: u64,
    #[serde(flatten)]
    progress: Progress,
    files: BTreeMap<String, String>,
}

impl CheckpointSets {
    /// Writes a set and removes those beyond the number kept.
    pub fn save(&self, state: &StoredState) -> Result<(), TrainError> {
        durable::create_folder(&self.folder)?;
        let name = set_name(&state.progress);
        let target = self.folder.join(&name);
        if target.exists() {
            return Ok(());
        }
        self.sweep()?;
        let temporary = self.folder.join(format!(".{name}.tmp"));
        let written = self.write_set(&temporary, state).and_then(|()| {
            fs::rename(&temporary, &target).in_file("write", &target)?;
            Ok(durable::sync_folder(&self.folder)?)
        });
        if written.is_err() {
            // Half a set is of no use, and its room is needed.
            let _ = fs::remove_dir_all(&temporary);
        }
        written?;
        let sets = self.sets()?;
        for old in &sets[..sets.len().saturating_sub(self.keep)] {
            fs::remove_dir_all(old).in_file("remove", old)?;
        }
        Ok(())
    }

    /// Whether the set of a state is there already.
    pub fn holds(&self, progress: &Progress) -> bool {
        self.folder.join(set_name(progress)).exists()
    }

    /// Reads the newest undamaged set; damaged ones are put aside under another name.
    pub fn restore(&self) -> Result<RestoredSet, TrainError> {
        let mut damaged = Vec::new();
        if !self.folder.is_dir() {
            return Ok(RestoredSet { state: None, damaged });
        }
        for set in self.sets()?.into_iter().rev() {
            match self.read_set(&set) {
                Ok(state) => return Ok(RestoredSet { state: Some(state), damaged }),
                Err(error @ TrainError::OtherCheckpoints { .. }) => return Err(error),
                Err(error) => {
                    damaged.push(error.to_string());
                    let aside = set
                        .with_file_name(format!("damaged-{}", set.file_name().unwrap_or_default().to_string_lossy()));
                    let _ = fs::remove_dir_all(&aside);
                    fs::rename(&set, &aside).in_file("rename", &set)?;
                }
            }
        }
        Ok(RestoredSet { state: None, damaged })
    }

    /// Complete sets, oldest first.
    pub fn sets(&self) -> Result<Vec<PathBuf>, FileError> {
        let entries = fs::read_dir(&self.folder).in_file("read", &self.folder)?;
        let mut sets: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-")))
            .collect();
        sets.sort();
        Ok(sets)
    }

    /// Removes what a killed process left half written.
    fn sweep(&self) -> Result<(), FileError> {
        for entry in fs::read_dir(&self.folder).in_file("read", &self.folder)?.filter_map(Result::ok) {
            if entry.file_name().to_string_lossy().starts_with(".step-") {
                fs::remove_dir_all(entry.path()).in_file("remove", &entry.path())?;
            }
        }
        Ok(())
    }

    /// Every file of a set with its table.
    fn files(&self, with_best: bool) -> Vec<(String, Vec<ParameterSpec>)> {
        let weights = || self.weights.iter().map(|(name, table)| ((*name).to_owned(), table.clone()));
        let best = weights().map(|(name, table)| (format!("best-{name}"), table)).filter(|_| with_best);
        let moments = [FIRST, SECOND].map(|name| (name.to_owned(), self.trained()));
        weights().chain(best).chain(moments).collect()
    }

    /// Parameters that have moments.
    fn trained(&self) -> Vec<ParameterSpec> {
        self.weights[0].1.iter().filter(|spec| spec.trainable).cloned().collect()
    }

    fn write_set(&self, folder: &Path, state: &StoredState) -> Result<(), TrainError> {
        durable::create_folder(folder)?;
        let (first, second) = moments_as_parameters(&self.trained(), &state.adam);
        let values = state.weights.iter().chain(state.best.iter().flatten()).chain([&first, &second]);
        let mut files = BTreeMap::new();
        for ((name, table), values) in self.files(state.best.is_some()).into_iter().zip(values) {
            write_parameters(&folder.join(&name), &table, values)?;
            files.insert(name.clone(), hash(&durable::read(&folder.join(&name))?));
        }
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            run_blake3: self.run_blake3.clone(),
            adam_steps: state.adam.steps,
            progress: state.progress.clone(),
            files,
        };
        durable::write(&folder.join(MANIFEST_FILE), sealed(&manifest).as_bytes())?;
        Ok(())
    }

    fn read_set(&self, folder: &Path) -> Result<StoredState, TrainError> {
        let path = folder.join(MANIFEST_FILE);
        let manifest = unsealed(&path, &durable::read(&path)?)?;
        if manifest.format != FORMAT {
            return Err(TrainError::Damaged { path, expected: FORMAT.to_owned(), found: manifest.format });
        }
        if manifest.run_blake3 != self.run_blake3 {
            let (expected, found) = (self.run_blake3.clone(), manifest.run_blake3);
            return Err(TrainError::OtherCheckpoints { path: self.folder.clone(), expected, found });
        }
        let with_best = manifest.progress.best.is_some();
        let mut sets = Vec::new();
        for (name, table) in self.files(with_best) {
            let path = folder.join(&name);
            let found = hash(&durable::read(&path)?);
            let expected = manifest.files.get(&name).cloned().unwrap_or_default();
            if found != expected {
                return Err(TrainError::Damaged { path, expected: format!("BLAKE3 {expected}"), found });
            }
            sets.push(read_parameters(&path, &table)?);
        }
        let moments = sets.split_off(sets.len() - 2);
        let best = with_best.then(|| sets.split_off(self.weights.len()));
        let adam = AdamState::of(manifest.adam_steps, parameters_as_moments(moments));
        Ok(StoredState { progress: manifest.progress, adam, weights: sets, best })
    }
}

/// Rollbacks come first, so that sets written after a rollback are newer than those before it.
fn set_name(progress: &Progress) -> String {
    format!("step-{:03}-{:010}", progress.guard.rollbacks, progress.step)
}

fn parameters_as_moments(sets: Vec<Parameters>) -> BTreeMap<String, Moments> {
    let mut sets = sets.into_iter();
    let (first, second) = (sets.next().unwrap_or_default(), sets.next().unwrap_or_default());
    let both = first.0.into_iter().zip(second.0);
    both.map(|((name, first), (_, second))| (name, Moments { first: first.values, second: second.values })).collect()
}

/// A parameter that has had no gradient yet has moments of zero.
fn moments_as_parameters(table: &[ParameterSpec], adam: &AdamState) -> (Parameters, Parameters) {
    let moments = adam.stored();
    let array = |spec: &ParameterSpec, pick: fn(&Moments) -> &Vec<f32>| Array {
        shape: spec.shape.clone(),
        values: moments
            .get(&spec.name)
            .map_or_else(|| vec![0.0; spec.shape.iter().product()], |moments| pick(moments).clone()),
    };
    let all = |pick: fn(&Moments) -> &Vec<f32>| {
        Parameters(table.iter().map(|spec| (spec.name.clone(), array(spec, pick))).collect())
    };
    (all(|moments| &moments.first), all(|moments| &moments.second))
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// A manifest as one line of JSON and a line with its BLAKE3: nothing else covers this file.
fn sealed(manifest: &Manifest) -> String {
    let json = serde_json::to_string(manifest).expect("a manifest holds only words and numbers");
    let seal = hash(json.as_bytes());
    format!("{json}\n{seal}\n")
}

/// Reads a sealed manifest back, or says how it is damaged.
fn unsealed(path: &Path, bytes: &[u8]) -> Result<Manifest, TrainError> {
    let damaged = |found: String| TrainError::Damaged {
        path: path.to_path_buf(),
        expected: "a manifest with its BLAKE3".into(),
        found,
    };
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("bytes that are not text".into()))?;
    let (json, seal) = text.split_once('\n').ok_or_else(|| damaged("one line".into()))?;
    if seal.strip_suffix('\n') != Some(hash(json.as_bytes()).as_str()) {
        return Err(damaged("another BLAKE3".into()));
    }
    serde_json::from_str(json).map_err(|error| damaged(error.to_string()))
}
