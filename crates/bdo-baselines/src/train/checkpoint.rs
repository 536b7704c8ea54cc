//! The state between two epochs, on the disk: written under another name, flushed, renamed; the newest whole one counts.

use super::fit::EpochRecord;
use bdo_data::durable::{self, FileError, InFile};
use bdo_model::parameters::{Array, ParameterSpec, Parameters};
use bdo_model::weights::{WeightsError, read_parameters, write_parameters};
use bdo_train::optimiser::{AdamState, Moments};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "state.json";
const FILES: [&str; 4] = ["network.safetensors", "best.safetensors", "first.safetensors", "second.safetensors"];

/// All that a training carries from one epoch to the next.
#[derive(Clone, Debug)]
pub struct State {
    /// Present values.
    pub network: Parameters,
    /// Moments of the optimiser.
    pub adam: AdamState,
    /// The best epoch and its values.
    pub best: Option<(usize, Parameters)>,
    /// Every epoch so far.
    pub history: Vec<EpochRecord>,
    /// Epochs in all, once the first has shown how many fit into the time.
    pub epochs: Option<usize>,
}

impl State {
    /// Before the first epoch.
    pub(super) fn fresh(network: Parameters) -> Self {
        Self { network, adam: AdamState::default(), best: None, history: Vec::new(), epochs: None }
    }
}

/// A folder of states of one training.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    identity: String,
}

/// A state cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Weights cannot be written or read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The folder belongs to another training.
    #[error("{}: expected the states of training {expected}, found those of {found}; remove the folder to begin anew", .path.display())]
    Other {
        /// The folder.
        path: PathBuf,
        /// What would be taken up.
        expected: String,
        /// What is there.
        found: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    identity: String,
    adam_steps: u64,
    best_epoch: usize,
    history: Vec<EpochRecord>,
    #[serde(default)]
    epochs: Option<usize>,
    /// BLAKE3 of each file.
    files: BTreeMap<String, String>,
}

impl Checkpoints {
    /// States in `folder`; `identity` names all that decides the training (a hash of settings, seed and data).
    pub fn new(folder: &Path, identity: impl Into<String>) -> Self {
        Self { folder: folder.to_path_buf(), identity: identity.into() }
    }

    pub(super) fn save(&self, table: &[ParameterSpec], state: &State) -> Result<(), CheckpointError> {
        durable::create_folder(&self.folder)?;
        let name = format!("epoch-{:06}", state.history.len());
        let temporary = self.folder.join(format!(".{name}.tmp"));
        if temporary.exists() {
            fs::remove_dir_all(&temporary).in_file("remove", &temporary)?;
        }
        durable::create_folder(&temporary)?;
        let trained: Vec<ParameterSpec> = table.iter().filter(|row| row.trainable).cloned().collect();
        let (best_epoch, best) = state.best.clone().unwrap_or((0, state.network.clone()));
        let (first, second) = moments_as_parameters(&trained, &state.adam);
        let sets = [(table, &state.network), (table, &best), (&trained, &first), (&trained, &second)];
        let mut files = BTreeMap::new();
        for (file, (table, parameters)) in FILES.into_iter().zip(sets) {
            let path = temporary.join(file);
            write_parameters(&path, table, parameters)?;
            files.insert(file.to_owned(), blake3::hash(&durable::read(&path)?).to_hex().to_string());
        }
        let manifest = Manifest {
            identity: self.identity.clone(),
            adam_steps: state.adam.steps,
            best_epoch,
            history: state.history.clone(),
            epochs: state.epochs,
            files,
        };
        let json = serde_json::to_string(&manifest).expect("a manifest holds only words and finite numbers");
        durable::write(&temporary.join(MANIFEST), json.as_bytes())?;
        let target = self.folder.join(&name);
        if target.exists() {
            // A damaged state of the same epoch, which the training has just passed again.
            fs::remove_dir_all(&target).in_file("remove", &target)?;
        }
        fs::rename(&temporary, &target).in_file("write", &target)?;
        durable::sync_folder(&self.folder)?;
        for old in self.sets()?.iter().filter(|set| **set != target) {
            fs::remove_dir_all(old).in_file("remove", old)?;
        }
        Ok(())
    }

    /// The newest whole state, if there is one.
    pub(super) fn restore(&self, table: &[ParameterSpec]) -> Result<Option<State>, CheckpointError> {
        if !self.folder.is_dir() {
            return Ok(None);
        }
        for set in self.sets()?.iter().rev() {
            let Some(manifest) = whole(set) else { continue };
            if manifest.identity != self.identity {
                let (expected, found) = (self.identity.clone(), manifest.identity);
                return Err(CheckpointError::Other { path: self.folder.clone(), expected, found });
            }
            let trained: Vec<ParameterSpec> = table.iter().filter(|row| row.trainable).cloned().collect();
            let read = |file: usize, table: &[ParameterSpec]| read_parameters(&set.join(FILES[file]), table);
            let moments = read(2, &trained)?
                .0
                .into_iter()
                .zip(read(3, &trained)?.0)
                .map(|((name, first), (_, second))| (name, Moments { first: first.values, second: second.values }))
                .collect();
            return Ok(Some(State {
                network: read(0, table)?,
                adam: AdamState { steps: manifest.adam_steps, moments },
                best: Some((manifest.best_epoch, read(1, table)?)),
                history: manifest.history,
                epochs: manifest.epochs,
            }));
        }
        Ok(None)
    }

    /// Removes all states: the training is over.
    pub fn remove(&self) -> Result<(), CheckpointError> {
        if self.folder.is_dir() {
            fs::remove_dir_all(&self.folder).in_file("remove", &self.folder)?;
        }
        Ok(())
    }

    fn sets(&self) -> Result<Vec<PathBuf>, FileError> {
        let entries = fs::read_dir(&self.folder).in_file("read", &self.folder)?;
        let mut sets: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("epoch-")))
            .collect();
        sets.sort();
        Ok(sets)
    }
}

/// The manifest of a set all of whose files are as they were written.
fn whole(set: &Path) -> Option<Manifest> {
    let manifest: Manifest = serde_json::from_slice(&durable::read(&set.join(MANIFEST)).ok()?).ok()?;
    let intact = |file: &str| {
        let found = durable::read(&set.join(file)).ok().map(|bytes| blake3::hash(&bytes).to_hex().to_string());
        found.is_some() && found.as_ref() == manifest.files.get(file)
    };
    FILES.iter().all(|file| intact(file)).then_some(manifest)
}

/// A parameter that has had no gradient yet has moments of zero.
fn moments_as_parameters(table: &[ParameterSpec], adam: &AdamState) -> (Parameters, Parameters) {
    let all = |pick: fn(&Moments) -> &Vec<f32>| {
        let array = |spec: &ParameterSpec| Array {
            shape: spec.shape.clone(),
            values: adam
                .moments
                .get(&spec.name)
                .map_or_else(|| vec![0.0; spec.shape.iter().product()], |moments| pick(moments).clone()),
        };
        Parameters(table.iter().map(|spec| (spec.name.clone(), array(spec))).collect())
    };
    (all(|moments| &moments.first), all(|moments| &moments.second))
}
