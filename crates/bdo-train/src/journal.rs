//! `journal.jsonl`: one line of JSON a step, and one a validation.

use crate::step::{LatentSpread, LossValues, Skipped};
use bdo_data::durable::{self, FileError, InFile};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// A training step.
    Step(StepEntry),
    /// A validation, after the step of this number.
    Validation(ValidationEntry),
    /// A training step of a model whose loss is one number.
    PlainStep(PlainStepEntry),
}

/// What a step of a model was like whose loss is one number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlainStepEntry {
    /// Number of the step, from 0.
    pub step: u64,
    /// Pass over the data.
    pub epoch: u64,
    /// The loss.
    pub loss: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Gradient norm.
    pub gradient_norm: f64,
    /// Scans a second, reading included.
    pub scans_per_second: f64,
    /// Memory in use.
    pub memory_mib: f64,
}

/// What a step was like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepEntry {
    /// Number of the step, from 0.
    pub step: u64,
    /// Pass over the data.
    pub epoch: u64,
    /// Loss terms, weights included.
    pub loss: LossValues,
    /// Learning rate.
    pub learning_rate: f64,
    /// Gradient norm before clipping.
    pub gradient_norm: f64,
    /// Weight of the latent target.
    pub tau: f64,
    /// Spread of the context latents.
    pub spread: LatentSpread,
    /// Share of the targets' mean square that the (noisy) reconstruction explains.
    pub explained_variance: f64,
    /// Scans a second, waiting for data included.
    pub scans_per_second: f64,
    /// Share of the step spent waiting for data.
    pub waiting_share: f64,
    /// Memory in use.
    pub memory_mib: f64,
    /// Why the step was not taken.
    pub skipped: Option<Skipped>,
}

/// What a validation found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidationEntry {
    /// Steps taken before it.
    pub step: u64,
    /// Loss terms with the weights of the end of training.
    pub loss: LossValues,
    /// Mean squared error of the noise-free reconstruction at targets.
    pub mse: f64,
    /// What predicting zero would cost.
    pub mean_square: f64,
    /// 1 - mse / `mean_square`.
    pub explained_variance: f64,
    /// Spread of the context latents.
    pub spread: LatentSpread,
    /// Scans looked at.
    pub scans: usize,
}

impl Entry {
    /// The step an entry belongs to.
    pub fn step(&self) -> u64 {
        match self {
            Self::Step(entry) => entry.step,
            Self::Validation(entry) => entry.step,
            Self::PlainStep(entry) => entry.step,
        }
    }
}

/// The open journal of a run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens the journal to go on at a step: what came after it, or was cut off by a kill, is taken away.
    pub fn open(path: &Path, step: u64) -> Result<Self, FileError> {
        if path.exists() {
            let text = String::from_utf8_lossy(&durable::read(path)?).into_owned();
            // Lines are kept as they are: one with a loss that was not a number holds null and would not read back.
            let text: String = text.split_inclusive('\n').filter(|line| comes_before(line, step)).collect();
            durable::write(path, text.as_bytes())?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).in_file("write", path)?;
        Ok(Self { file, path: path.to_path_buf() })
    }

    /// Adds a line.
    pub fn add(&mut self, entry: &Entry) -> Result<(), FileError> {
        self.file.write_all(line(entry).as_bytes()).in_file("write", &self.path)
    }
}

/// Whether a whole line belongs to the steps before `step`; a validation belongs to the end of them.
fn comes_before(line: &str, step: u64) -> bool {
    let Ok(entry) = serde_json::from_str::<serde_json::Value>(line) else { return false };
    let found = entry["step"].as_u64().unwrap_or(u64::MAX);
    line.ends_with('\n') && (found < step || (found == step && entry["kind"] == "validation"))
}

/// The entries of a journal; a line that is cut off or foreign is passed over.
pub fn entries(path: &Path) -> Result<Vec<Entry>, FileError> {
    let text = String::from_utf8_lossy(&durable::read(path)?).into_owned();
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn line(entry: &Entry) -> String {
    serde_json::to_string(entry).expect("an entry holds only words and numbers") + "\n"
}
