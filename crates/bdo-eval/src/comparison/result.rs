//! One method on one task: scored, and kept as one file, so that a comparison that was stopped goes on where it was.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Instant;

use bdo_data::division::Scheme;
use bdo_data::durable::{self, FileError, InFile};
use serde::{Deserialize, Serialize};

use crate::error::EvalError;
use crate::memory::{forget_peak, peak_mib};
use crate::method::{Method, Outcome, Task};
use crate::metric::Metrics;

/// A scored outcome with everything that decided it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    pub method: String,
    pub target: String,
    /// Random, or a group of sites left out.
    pub scheme: Scheme,
    /// The repetition.
    pub seed: u64,
    /// BLAKE3 of cohort, split, method and who is fitted on: a stored result is used only if it is the same.
    pub key: String,
    pub split_blake3: String,
    /// People a closed-form method is fitted on.
    pub fitted_people: usize,
    /// Names of the classes; empty for a number.
    pub classes: Vec<String>,
    /// Population spread of the training labels (1 for classes): the unit of the mean squared error.
    pub label_spread: f64,
    pub metrics: Metrics,
    /// Numbers of a pre-trained model that were used as they are, where the caller says so.
    #[serde(default)]
    pub frozen_parameters: usize,
    /// Time of fitting and predicting.
    pub wall_seconds: f64,
    /// Most memory the process held meanwhile, where the system says it.
    #[serde(default)]
    pub peak_rss_mib: Option<f64>,
    /// How much more that was than before.
    #[serde(default)]
    pub own_mib: Option<f64>,
    pub outcome: Outcome,
}

/// What decides a result, as one hash.
fn key(method: &dyn Method, task: &Task<'_>, cohort_blake3: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [cohort_blake3, &task.split.blake3, method.name(), &method.fingerprint()] {
        hasher.update(part.as_bytes()).update(b"\0");
    }
    hasher.update(&task.seed.to_le_bytes()).update(format!("{:?}", task.fit_on).as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// Runs a method on a task and scores it.
pub fn run_task(
    method: &dyn Method,
    task: &Task<'_>,
    cohort_blake3: &str,
    flags: &[String],
) -> Result<TaskResult, EvalError> {
    let (name, target) = (method.name().to_owned(), task.target.name.clone());
    forget_peak();
    let (started, before) = (Instant::now(), peak_mib());
    let without =
        |source: EvalError| EvalError::Task { method: name.clone(), target: target.clone(), source: Box::new(source) };
    let mut outcome = method.run(task).map_err(without)?;
    let (wall_seconds, peak) = (started.elapsed().as_secs_f64(), peak_mib());
    outcome.flags.extend(flags.iter().cloned());
    let empty = || without(EvalError::found("predictions of test people", "none"));
    let metrics = task.score(&outcome.predictions).ok_or_else(empty)?;
    let everybody = task.split.train.subjects().iter().chain(task.split.validation.subjects());
    Ok(TaskResult {
        key: key(method, task, cohort_blake3),
        split_blake3: task.split.blake3.clone(),
        scheme: task.split.scheme(),
        fitted_people: everybody.filter(|s| task.fits(s)).count(),
        seed: task.seed,
        method: name,
        target,
        classes: task.target.kind.classes().to_vec(),
        label_spread: task.target.scale(&task.split.train).spread,
        metrics,
        wall_seconds,
        frozen_parameters: 0,
        peak_rss_mib: peak,
        own_mib: peak.zip(before).map(|(peak, before)| (peak - before).max(0.0)),
        outcome,
    })
}

/// A folder of results, one file each.
#[derive(Debug, Clone)]
pub struct ResultStore {
    folder: PathBuf,
}

impl ResultStore {
    /// Opens or makes the folder.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        durable::create_folder(folder)?;
        Ok(Self { folder: folder.to_path_buf() })
    }

    /// Takes a task; `None` while another process has it.
    pub fn lease(&self, task: &str) -> Result<Option<Lease>, FileError> {
        let folder = self.folder.join(".leases");
        durable::create_folder(&folder)?;
        let path = folder.join(&blake3::hash(task.as_bytes()).to_hex()[..32]);
        let file = OpenOptions::new().create(true).append(true).open(&path).in_file("write", &path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lease { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).in_file("lock", &path),
        }
    }

    /// The result of a method on a task if it is there and was decided by the same things.
    pub fn find(&self, method: &dyn Method, task: &Task<'_>, cohort_blake3: &str) -> Option<TaskResult> {
        let path = self.path(method.name(), &task.target.name, task.split.scheme(), task.seed);
        let result: TaskResult = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        (result.key == key(method, task, cohort_blake3)).then_some(result)
    }

    pub fn keep(&self, result: &TaskResult) -> Result<(), FileError> {
        let path = self.path(&result.method, &result.target, result.scheme, result.seed);
        durable::create_folder(durable::parent(&path))?;
        let json = serde_json::to_vec_pretty(result).expect("a result is plain data");
        durable::write(&path, &json)
    }

    fn path(&self, method: &str, target: &str, scheme: Scheme, seed: u64) -> PathBuf {
        let repetition = match scheme {
            Scheme::Random => format!("random-{seed}"),
            Scheme::HoldOut { percent } => format!("hold-out-{percent}-{seed}"),
            Scheme::LeaveSiteOut { fold } => format!("site-group-{fold}-{seed}"),
        };
        self.folder.join(plain(method)).join(plain(target)).join(format!("{repetition}.json"))
    }
}

/// A task that nobody else works on while this lives, where several processes share a comparison: a locked file. The system unlocks
/// it when its process ends, however it ends, so that another takes the task over.
#[derive(Debug)]
pub struct Lease {
    _file: File,
}

/// A column may be called anything; a file may not. What is replaced is told apart by a hash.
fn plain(name: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(safe) {
        return name.to_owned();
    }
    let kept: String = name.chars().map(|c| if safe(c) { c } else { '_' }).collect();
    format!("_{kept}-{}", &blake3::hash(name.as_bytes()).to_hex()[..8])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_task_is_taken_once_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = ResultStore::open(dir.path()).unwrap();
        let taken = store.lease("a").unwrap();
        assert!(taken.is_some() && store.lease("a").unwrap().is_none() && store.lease("b").unwrap().is_some());
        drop(taken);
        assert!(store.lease("a").unwrap().is_some());
    }
}
