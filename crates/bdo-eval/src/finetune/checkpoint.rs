//! Where a fine-tuning stands, after every epoch: a set of files that is whole or absent.

use super::grid::TunePoint;
use super::tuned::{trained_table, whole_table};
use crate::error::EvalError;
use crate::fitted::HeadKind;
use crate::metric::Metrics;
use bdo_data::durable::{self, InFile};
use bdo_model::config::ModelConfig;
use bdo_model::parameters::{Array, ParameterSpec, Parameters};
use bdo_model::weights::{read_parameters, write_parameters};
use bdo_train::checkpoint::{sealed, unsealed};
use bdo_train::optimiser::{AdamState, Moments};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What one configuration came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneOutcome {
    /// The configuration.
    pub point: TunePoint,
    /// Its best epoch, counted from 1.
    pub epoch: usize,
    /// Scores of the validation people at that epoch.
    pub validation: Metrics,
    /// Mean training loss of every epoch.
    pub losses: Vec<f64>,
}

/// Everything that is carried from one epoch to the next.
#[derive(Clone, Debug)]
pub struct TuneState {
    /// Configurations that are finished.
    pub finished: Vec<TuneOutcome>,
    /// The best of them.
    pub chosen: Option<(usize, Parameters)>,
    /// Epochs of the present configuration that are done.
    pub epochs_done: usize,
    /// Mean training loss of each.
    pub losses: Vec<f64>,
    /// The best epoch of the present configuration.
    pub best: Option<(usize, Metrics, Parameters)>,
    /// Its parameters now.
    pub current: Parameters,
    /// Its optimiser.
    pub adam: AdamState,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    finished: Vec<TuneOutcome>,
    chosen: Option<usize>,
    epochs_done: usize,
    losses: Vec<f64>,
    best: Option<(usize, Metrics)>,
    adam_steps: u64,
    files: BTreeMap<String, String>,
}

const MANIFEST_FILE: &str = "manifest.json";

/// Where the states of one seed are kept.
#[derive(Clone, Debug)]
pub struct TuneCheckpoints {
    /// The folder.
    pub folder: PathBuf,
    /// The model.
    pub config: ModelConfig,
    /// The head.
    pub kind: HeadKind,
}

impl TuneCheckpoints {
    /// Writes a set under another name, flushes it, renames it, and removes all but the two newest.
    pub fn save(&self, state: &TuneState) -> Result<(), EvalError> {
        durable::create_folder(&self.folder)?;
        let number = self.sets()?.last().map_or(0, |(number, _)| number + 1);
        let temporary = self.folder.join(".set.tmp");
        if temporary.exists() {
            fs::remove_dir_all(&temporary).in_file("remove", &temporary)?;
        }
        durable::create_folder(&temporary)?;
        let mut files = BTreeMap::new();
        for (name, table, parameters) in self.files(state) {
            let path = temporary.join(&name);
            write_parameters(&path, &table, &parameters)?;
            files.insert(name, blake3::hash(&durable::read(&path)?).to_hex().to_string());
        }
        let manifest = Manifest {
            finished: state.finished.clone(),
            chosen: state.chosen.as_ref().map(|(i, _)| *i),
            epochs_done: state.epochs_done,
            losses: state.losses.clone(),
            best: state.best.as_ref().map(|(epoch, score, _)| (*epoch, *score)),
            adam_steps: state.adam.steps,
            files,
        };
        durable::write(&temporary.join(MANIFEST_FILE), sealed(&manifest).as_bytes())?;
        let target = self.folder.join(format!("set-{number:06}"));
        fs::rename(&temporary, &target).in_file("write", &target)?;
        durable::sync_folder(&self.folder)?;
        let sets = self.sets()?;
        for (_, old) in &sets[..sets.len().saturating_sub(2)] {
            fs::remove_dir_all(old).in_file("remove", old)?;
        }
        Ok(())
    }

    /// The newest undamaged set, if there is one.
    pub fn restore(&self) -> Result<Option<TuneState>, EvalError> {
        if !self.folder.is_dir() {
            return Ok(None);
        }
        let sets = self.sets()?;
        Ok(sets.into_iter().rev().find_map(|(_, set)| self.read_set(&set)))
    }

    fn sets(&self) -> Result<Vec<(u64, PathBuf)>, EvalError> {
        let entries = fs::read_dir(&self.folder).in_file("read", &self.folder)?;
        let numbered = |path: PathBuf| {
            let number = path.file_name()?.to_str()?.strip_prefix("set-")?.parse().ok()?;
            Some((number, path))
        };
        let mut sets: Vec<(u64, PathBuf)> = entries.filter_map(|entry| numbered(entry.ok()?.path())).collect();
        sets.sort();
        Ok(sets)
    }

    fn files(&self, state: &TuneState) -> Vec<(String, Vec<ParameterSpec>, Parameters)> {
        let whole = whole_table(&self.config, self.kind);
        let trained = trained_table(&self.config, self.kind);
        let moments = |pick: fn(&Moments) -> &Vec<f32>| {
            let array = |spec: &ParameterSpec| Array {
                shape: spec.shape.clone(),
                values: (state.adam.moments.get(&moment_name(&spec.name)))
                    .map_or_else(|| vec![0.0; spec.shape.iter().product()], |m| pick(m).clone()),
            };
            Parameters(trained.iter().map(|spec| (spec.name.clone(), array(spec))).collect())
        };
        let mut files = vec![
            ("current.safetensors".to_owned(), whole.clone(), state.current.clone()),
            ("first_moments.safetensors".to_owned(), trained.clone(), moments(|m| &m.first)),
            ("second_moments.safetensors".to_owned(), trained.clone(), moments(|m| &m.second)),
        ];
        if let Some((_, _, best)) = &state.best {
            files.push(("best.safetensors".to_owned(), whole.clone(), best.clone()));
        }
        if let Some((_, chosen)) = &state.chosen {
            files.push(("chosen.safetensors".to_owned(), whole, chosen.clone()));
        }
        files
    }

    /// A damaged set is no set: the epoch it held is run again.
    fn read_set(&self, set: &Path) -> Option<TuneState> {
        let path = set.join(MANIFEST_FILE);
        let manifest: Manifest = unsealed(&path, &durable::read(&path).ok()?).ok()?;
        let read = |name: &str, table: &[ParameterSpec]| {
            let path = set.join(name);
            let found = blake3::hash(&durable::read(&path).ok()?).to_hex().to_string();
            (manifest.files.get(name) == Some(&found)).then(|| read_parameters(&path, table).ok()).flatten()
        };
        let whole = whole_table(&self.config, self.kind);
        let trained = trained_table(&self.config, self.kind);
        let (first, second) =
            (read("first_moments.safetensors", &trained)?, read("second_moments.safetensors", &trained)?);
        let moments = (first.0.into_iter().zip(second.0))
            .map(|((name, first), (_, second))| {
                (moment_name(&name), Moments { first: first.values, second: second.values })
            })
            .collect();
        let best = match manifest.best {
            Some((epoch, score)) => Some((epoch, score, read("best.safetensors", &whole)?)),
            None => None,
        };
        let chosen = match manifest.chosen {
            Some(i) => Some((i, read("chosen.safetensors", &whole)?)),
            None => None,
        };
        Some(TuneState {
            finished: manifest.finished,
            chosen,
            epochs_done: manifest.epochs_done,
            losses: manifest.losses,
            best,
            current: read("current.safetensors", &whole)?,
            adam: AdamState { steps: manifest.adam_steps, moments },
        })
    }
}

/// The optimiser names parameters by their path in the module, where the model is a part.
fn moment_name(name: &str) -> String {
    if name.starts_with("head.") { name.to_owned() } else { format!("bdo.{name}") }
}
