//! Checkpoints of the model: what a set of files holds, and how a state is put together from it.

use crate::checkpoint_set::{CheckpointSets, StoredState, hash};
use crate::state::TrainState;
use bdo_data::durable::FileError;
use bdo_model::config::ModelConfig;
use bdo_model::ema::EmaEncoder;
use bdo_model::model::{Bdo, BuildError};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{encoder_table, parameter_table};
use bdo_model::weights::{Problem, WeightsError};
use burn::tensor::Device;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

const MODEL: &str = "model.safetensors";
const AVERAGE: &str = "ema.safetensors";

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
        let sets = self.of_files();
        if sets.holds(&state.guard, state.step) {
            return Ok(());
        }
        sets.save(&StoredState {
            step: state.step,
            guard: state.guard,
            adam: state.adam.clone(),
            weights: vec![state.model.parameters(), state.teacher.parameters()],
        })
    }

    /// Reads the newest undamaged set; damaged ones are put aside under another name.
    pub fn restore(&self, kernels: Kernels, device: &Device) -> Result<Restored, CheckpointError> {
        let found = self.of_files().restore()?;
        let Some(StoredState { step, guard, adam, weights }) = found.state else {
            return Ok(Restored { state: None, damaged: found.damaged });
        };
        let mut weights = weights.into_iter();
        let (parameters, average) = (weights.next().unwrap_or_default(), weights.next().unwrap_or_default());
        let teacher =
            EmaEncoder::from_parameters(&self.config, average, kernels, device).map_err(BuildError::Parameter)?;
        let model = Bdo::from_parameters(&self.config, parameters, kernels, device)?;
        Ok(Restored { state: Some(TrainState { step, model, teacher, adam, guard }), damaged: found.damaged })
    }

    /// Complete sets, oldest first.
    pub fn sets(&self) -> Result<Vec<PathBuf>, FileError> {
        self.of_files().sets()
    }

    fn of_files(&self) -> CheckpointSets {
        let model = parameter_table(&self.config);
        CheckpointSets {
            folder: self.folder.clone(),
            run_blake3: self.run_blake3.clone(),
            keep: self.keep,
            trained: model.iter().filter(|spec| spec.trainable).cloned().collect(),
            weights: vec![(MODEL, model), (AVERAGE, encoder_table(&self.config))],
        }
    }
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
