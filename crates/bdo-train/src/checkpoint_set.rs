//! A folder of checkpoints of anything: sets of weight files that are whole or absent. A set is written under another name,
//! flushed, and renamed; its manifest holds the BLAKE3 of every file and of itself. A damaged set is put aside and the one
//! before is used.

use crate::checkpoint::{CheckpointError, sealed, unsealed};
use crate::optimiser::{AdamState, Moments};
use crate::state::Guard;
use bdo_data::durable::{self, FileError, InFile};
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
    /// The folder of the sets.
    pub folder: PathBuf,
    /// Hash of the run they belong to.
    pub run_blake3: String,
    /// How many are kept.
    pub keep: usize,
    /// Files of a set and what each of them holds.
    pub weights: Vec<(&'static str, Vec<ParameterSpec>)>,
    /// Parameters that have moments.
    pub trained: Vec<ParameterSpec>,
}

/// All that a set holds.
#[derive(Clone, Debug)]
pub struct StoredState {
    /// The step to take next.
    pub step: u64,
    /// What watches over the loss.
    pub guard: Guard,
    /// Adam's moments.
    pub adam: AdamState,
    /// One a file, in the order of [`CheckpointSets::weights`].
    pub weights: Vec<Parameters>,
}

/// A restored state, and what had to be put aside to get it.
#[derive(Debug)]
pub struct RestoredSet {
    /// The newest undamaged state, if there is one.
    pub state: Option<StoredState>,
    /// One sentence for each damaged set.
    pub damaged: Vec<String>,
}

/// What a set says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: String,
    run_blake3: String,
    step: u64,
    adam_steps: u64,
    guard: Guard,
    /// BLAKE3 of each file.
    files: BTreeMap<String, String>,
}

impl CheckpointSets {
    /// Writes a set and removes those beyond the number kept.
    pub fn save(&self, state: &StoredState) -> Result<(), CheckpointError> {
        durable::create_folder(&self.folder)?;
        let name = format!("step-{:03}-{:010}", state.guard.rollbacks, state.step);
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
    pub fn holds(&self, guard: &Guard, step: u64) -> bool {
        self.folder.join(format!("step-{:03}-{step:010}", guard.rollbacks)).exists()
    }

    /// Reads the newest undamaged set; damaged ones are put aside under another name.
    pub fn restore(&self) -> Result<RestoredSet, CheckpointError> {
        let mut damaged = Vec::new();
        if !self.folder.is_dir() {
            return Ok(RestoredSet { state: None, damaged });
        }
        for set in self.sets()?.into_iter().rev() {
            match self.read_set(&set) {
                Ok(state) => return Ok(RestoredSet { state: Some(state), damaged }),
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

    fn write_set(&self, folder: &Path, state: &StoredState) -> Result<(), CheckpointError> {
        durable::create_folder(folder)?;
        let (first, second) = moments_as_parameters(&self.trained, &state.adam);
        let weights = self.weights.iter().zip(&state.weights).map(|((name, table), values)| (*name, table, values));
        let moments = [(FIRST, &self.trained, &first), (SECOND, &self.trained, &second)];
        let mut files = BTreeMap::new();
        for (name, table, values) in weights.chain(moments) {
            write_parameters(&folder.join(name), table, values)?;
            files.insert(name.to_owned(), hash(&durable::read(&folder.join(name))?));
        }
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            run_blake3: self.run_blake3.clone(),
            step: state.step,
            adam_steps: state.adam.steps,
            guard: state.guard,
            files,
        };
        durable::write(&folder.join(MANIFEST_FILE), sealed(&manifest).as_bytes())?;
        Ok(())
    }

    fn read_set(&self, folder: &Path) -> Result<StoredState, CheckpointError> {
        let path = folder.join(MANIFEST_FILE);
        let manifest: Manifest = unsealed(&path, &durable::read(&path)?)?;
        if (manifest.format.as_str(), manifest.run_blake3.as_str()) != (FORMAT, self.run_blake3.as_str()) {
            let expected = format!("{FORMAT} of run {}", self.run_blake3);
            let found = format!("{} of run {}", manifest.format, manifest.run_blake3);
            return Err(CheckpointError::Damaged { path, expected, found });
        }
        for name in self.weights.iter().map(|(name, _)| *name).chain([FIRST, SECOND]) {
            let path = folder.join(name);
            let found = hash(&durable::read(&path)?);
            let expected = manifest.files.get(name).cloned().unwrap_or_default();
            if found != expected {
                return Err(CheckpointError::Damaged { path, expected: format!("BLAKE3 {expected}"), found });
            }
        }
        let weights = self
            .weights
            .iter()
            .map(|(name, table)| Ok(read_parameters(&folder.join(name), table)?))
            .collect::<Result<_, CheckpointError>>()?;
        let first = read_parameters(&folder.join(FIRST), &self.trained)?;
        let second = read_parameters(&folder.join(SECOND), &self.trained)?;
        let moments = first
            .0
            .into_iter()
            .zip(second.0)
            .map(|((name, first), (_, second))| (name, Moments { first: first.values, second: second.values }))
            .collect();
        let adam = AdamState { steps: manifest.adam_steps, moments };
        Ok(StoredState { step: manifest.step, guard: manifest.guard, adam, weights })
    }
}

/// A parameter that has had no gradient yet has moments of zero.
fn moments_as_parameters(table: &[ParameterSpec], adam: &AdamState) -> (Parameters, Parameters) {
    let array = |spec: &ParameterSpec, pick: fn(&Moments) -> &Vec<f32>| Array {
        shape: spec.shape.clone(),
        values: adam
            .moments
            .get(&spec.name)
            .map_or_else(|| vec![0.0; spec.shape.iter().product()], |moments| pick(moments).clone()),
    };
    let all = |pick: fn(&Moments) -> &Vec<f32>| {
        Parameters(table.iter().map(|spec| (spec.name.clone(), array(spec, pick))).collect())
    };
    (all(|moments| &moments.first), all(|moments| &moments.second))
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
