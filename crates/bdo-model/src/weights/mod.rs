//! The model directory: the only place in this crate that touches files. What is read may come from strangers, so
//! sizes are checked before memory is asked for, and every refusal names the file, what was expected and what was found.

mod card;
mod contract;
mod directory;
mod file;
mod notes;
mod people;

pub use card::{CardFacts, input_words, model_card};
pub use contract::{ContractError, PreprocessorConfig};
pub use directory::{
    AVERAGE_FILE, CONFIG_FILE, ModelDirectory, PEOPLE_FILE, PREPROCESSOR_FILE, README_FILE, WEIGHTS_FILE,
};
pub use file::{read_parameters, write_parameters};
pub use notes::{TRAINING_FILE, TrainingNotes};
pub use people::{KnownPeople, PeopleError, TrainingPeople};

use crate::config::ConfigError;
use bdo_data::durable::FileError;
use std::path::{Path, PathBuf};

/// Why a model directory or a file in it was refused, or could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}", said(path, problem))]
pub struct WeightsError {
    /// The file or folder.
    pub path: PathBuf,
    /// The problem.
    pub problem: Problem,
}

fn said(path: &Path, problem: &Problem) -> String {
    match problem {
        Problem::File(error) => error.to_string(),
        problem => format!("{}: {problem}", path.display()),
    }
}

/// A problem with a file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Problem {
    #[error(transparent)]
    File(#[from] FileError),
    /// Too short to hold what it announces.
    #[error("truncated: expected {expected} bytes, found {found}")]
    Truncated { expected: u64, found: u64 },
    /// Longer than what it announces.
    #[error("trailing bytes: expected {expected} bytes, found {found}")]
    Trailing { expected: u64, found: u64 },
    /// The values are not those that were written.
    #[error("changed since it was written: expected values with BLAKE3 {expected}, found {found}; take a fresh copy")]
    Changed { expected: String, found: String },
    /// A header or text file larger than any honest one.
    #[error("too large: expected at most {limit} bytes, found {found}")]
    TooLarge { limit: u64, found: u64 },
    /// Not the expected JSON.
    #[error("not the expected JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The model is of another method.
    #[error(
        "expected a model of BDO, found one of {found}{}; `bdo embed --model` and `bdo baseline {found} --model` use it",
        if found == "brainjepa" { ", which has no decoder to regions" } else { ", which has no times between frames, noise or posterior" }
    )]
    Kind { found: String },
    /// A parameter has another number type.
    #[error("parameter `{name}`: expected dtype F32, found {found}")]
    Dtype { name: String, found: String },
    /// A parameter's place in the file is not the size its shape needs, or overlaps another or leaves a gap.
    #[error("parameter `{name}`: expected bytes {expected_begin}..{expected_end}, found {found_begin}..{found_end}")]
    Offsets { name: String, expected_begin: u64, expected_end: u64, found_begin: u64, found_end: u64 },
    /// A value is infinite or not a number.
    #[error("parameter `{name}`: expected finite values, found {found} at index {index}")]
    NotFinite { name: String, index: usize, found: f32 },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Contract(#[from] ContractError),
    #[error(transparent)]
    People(#[from] PeopleError),
    #[error(transparent)]
    Parameter(#[from] crate::parameters::ParameterError),
    /// The weights could not be laid out.
    #[error("cannot lay out weights: {0}")]
    Layout(#[from] safetensors::SafeTensorError),
}

impl From<FileError> for WeightsError {
    fn from(error: FileError) -> Self {
        let path = error.path.clone();
        Problem::File(error).at(path)
    }
}

impl Problem {
    pub(crate) fn at(self, path: impl Into<PathBuf>) -> WeightsError {
        WeightsError { path: path.into(), problem: self }
    }
}
