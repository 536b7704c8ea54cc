//! Checkpoints: sets of files that are whole or absent. A set is written under another name, flushed, and renamed;
//! its manifest holds the BLAKE3 of every file and of itself. A damaged set is put aside and the one before is used.

use crate::optimiser::{AdamState, Moments};
use crate::state::{Guard, TrainState};
use bdo_data::durable::{self, FileError, InFile};
use bdo_model::config::ModelConfig;
use bdo_model::ema::EmaEncoder;
use bdo_model::model::{Bdo, BuildError};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{Array, ParameterSpec, Parameters, encoder_table, parameter_table};
use bdo_model::weights::{Problem, WeightsError, read_parameters, write_parameters};
use burn::tensor::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FORMAT: &str = "bdo-checkpoint/1";
const MANIFEST_FILE: &str = "manifest.json";
const MODEL: &str = "model.safetensors";
const AVERAGE: &str = "ema.safetensors";
const FIRST: &str = "first_moments.safetensors";
const SECOND: &str = "second_moments.safetensors";

/// Where checkpoints are and what they are of.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// The folder of the sets.
    pub folder: PathBuf,
    /// The model they hold.
    pub config: ModelConfig,
    /// Hash of the run they belong to.
    pub run_blake3: String,
    /// How many are kept.
    pub keep: usize,
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

/// A checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Weights could not be laid out or read.
    #[error(transparent)]
    Weights(WeightsError),
    /// The numbers make no model.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The bytes are not what was written.
    #[error("{} is damaged: expected {expected}, found {found}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
}

impl From<WeightsError> for CheckpointError {
    fn from(error: WeightsError) -> Self {
        match error.problem {
            // So that a full disk is said in the same words everywhere.
            Problem::Io(source) => Self::File(FileError::new("write", &error.path, source)),
            problem => Self::Weights(WeightsError { path: error.path, problem }),
        }
    }
}

/// A restored state, and what had to be put aside to get it.
#[derive(Debug)]
pub struct Restored {
    /// The newest undamaged state, if there is one.
    pub state: Option<TrainState>,
    /// One sentence for each damaged set.
    pub damaged: Vec<String>,
}

impl Checkpoints {
    /// Writes a set and removes those beyond the number kept.
    pub fn save(&self, state: &TrainState) -> Result<(), CheckpointError> {
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

    /// Reads the newest undamaged set; damaged ones are put aside under another name.
    pub fn restore(&self, kernels: Kernels, device: &Device) -> Result<Restored, CheckpointError> {
        let mut damaged = Vec::new();
        if !self.folder.is_dir() {
            return Ok(Restored { state: None, damaged });
        }
        for set in self.sets()?.into_iter().rev() {
            match self.read_set(&set, kernels, device) {
                Ok(state) => return Ok(Restored { state: Some(state), damaged }),
                Err(error) => {
                    damaged.push(error.to_string());
                    let aside = set
                        .with_file_name(format!("damaged-{}", set.file_name().unwrap_or_default().to_string_lossy()));
                    let _ = fs::remove_dir_all(&aside);
                    fs::rename(&set, &aside).in_file("rename", &set)?;
                }
            }
        }
        Ok(Restored { state: None, damaged })
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

    fn write_set(&self, folder: &Path, state: &TrainState) -> Result<(), CheckpointError> {
        durable::create_folder(folder)?;
        let trained = trained_table(&self.config);
        let (first, second) = moments_as_parameters(&trained, &state.adam);
        write_parameters(&folder.join(MODEL), &parameter_table(&self.config), &state.model.parameters())?;
        write_parameters(&folder.join(AVERAGE), &encoder_table(&self.config), &state.teacher.parameters())?;
        write_parameters(&folder.join(FIRST), &trained, &first)?;
        write_parameters(&folder.join(SECOND), &trained, &second)?;
        let mut files = BTreeMap::new();
        for name in [MODEL, AVERAGE, FIRST, SECOND] {
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

    fn read_set(&self, folder: &Path, kernels: Kernels, device: &Device) -> Result<TrainState, CheckpointError> {
        let path = folder.join(MANIFEST_FILE);
        let manifest: Manifest = unsealed(&path, &durable::read(&path)?)?;
        if (manifest.format.as_str(), manifest.run_blake3.as_str()) != (FORMAT, self.run_blake3.as_str()) {
            let expected = format!("{FORMAT} of run {}", self.run_blake3);
            let found = format!("{} of run {}", manifest.format, manifest.run_blake3);
            return Err(CheckpointError::Damaged { path, expected, found });
        }
        for name in [MODEL, AVERAGE, FIRST, SECOND] {
            let path = folder.join(name);
            let found = hash(&durable::read(&path)?);
            let expected = manifest.files.get(name).cloned().unwrap_or_default();
            if found != expected {
                return Err(CheckpointError::Damaged { path, expected: format!("BLAKE3 {expected}"), found });
            }
        }
        let trained = trained_table(&self.config);
        let parameters = read_parameters(&folder.join(MODEL), &parameter_table(&self.config))?;
        let average = read_parameters(&folder.join(AVERAGE), &encoder_table(&self.config))?;
        let first = read_parameters(&folder.join(FIRST), &trained)?;
        let second = read_parameters(&folder.join(SECOND), &trained)?;
        let teacher =
            EmaEncoder::from_parameters(&self.config, average, kernels, device).map_err(BuildError::Parameter)?;
        let moments = first
            .0
            .into_iter()
            .zip(second.0)
            .map(|((name, first), (_, second))| (name, Moments { first: first.values, second: second.values }))
            .collect();
        Ok(TrainState {
            step: manifest.step,
            model: Bdo::from_parameters(&self.config, parameters, kernels, device)?,
            teacher,
            adam: AdamState { steps: manifest.adam_steps, moments },
            guard: manifest.guard,
        })
    }
}

/// Parameters that have moments.
fn trained_table(config: &ModelConfig) -> Vec<ParameterSpec> {
    parameter_table(config).into_iter().filter(|spec| spec.trainable).collect()
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

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// A manifest as one line of JSON and a line with its BLAKE3: nothing else covers this file.
pub fn sealed(manifest: &impl Serialize) -> String {
    let json = serde_json::to_string(manifest).expect("a manifest holds only words and finite numbers");
    let seal = hash(json.as_bytes());
    format!("{json}\n{seal}\n")
}

/// Reads a sealed manifest back, or says how it is damaged.
pub fn unsealed<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, CheckpointError> {
    let damaged = |found: String| CheckpointError::Damaged {
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
