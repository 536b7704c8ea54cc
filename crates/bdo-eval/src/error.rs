//! The one error of features, probes, fine-tuning, predictions and inference.

use crate::supervised::learner::SupervisedError;
use bdo_data::cohort::CohortError;
use bdo_data::division::SplitError;
use bdo_data::durable::FileError;
use bdo_data::target::TargetError;
use bdo_model::batch::BatchError;
use bdo_model::error::ModelError;
use bdo_model::model::BuildError;
use bdo_model::weights::{ContractError, Problem, WeightsError};
use std::path::PathBuf;

/// Everything that can stop an evaluation.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The cohort cannot be read.
    #[error(transparent)]
    Cohort(#[from] CohortError),
    /// The model or head was refused.
    #[error(transparent)]
    Weights(WeightsError),
    /// The model cannot be put together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The cohort does not have the model's regions.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A scan does not fit the model.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Features cannot be fitted on.
    #[error(transparent)]
    Features(#[from] crate::features::FeatureError),
    /// A closed-form fit failed.
    #[error(transparent)]
    Design(#[from] crate::design::DesignError),
    /// The people cannot be divided.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// A file that was made for something else, or damaged.
    #[error("{}: expected {expected}, found {found}", .path.display())]
    Refused {
        /// The file or folder.
        path: PathBuf,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The table could not be laid out as Parquet.
    #[error("{}: cannot lay out Parquet: {source}", .path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the writer said.
        source: parquet::errors::ParquetError,
    },
    /// A label that cannot be predicted.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A part of the split without people.
    #[error("target {target:?}, seed {seed}: expected {expected} among the {part} people with features, found {found}")]
    Part {
        /// The column.
        target: String,
        /// The seed of the split.
        seed: u64,
        /// Train, validation or test.
        part: &'static str,
        /// What is needed.
        expected: &'static str,
        /// What there is.
        found: String,
    },
    /// A setting outside its range.
    #[error("{name}: expected {expected}, found {found}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its range.
        expected: String,
        /// The value.
        found: String,
    },
    /// No scan could be embedded.
    #[error("{}: expected at least one scan with a usable region, found none", .cohort.display())]
    NoScans {
        /// The cohort.
        cohort: PathBuf,
    },
    /// Too few scans for what is asked.
    #[error("{what}: expected at least {expected} scans, found {found}")]
    TooFew {
        /// What needs them.
        what: &'static str,
        /// How many.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Training with labels.
    #[error(transparent)]
    Training(SupervisedError),
    /// Stopped by request.
    #[error("interrupted; run the same command again to go on")]
    Interrupted,
}

impl From<SupervisedError> for EvalError {
    fn from(error: SupervisedError) -> Self {
        match error {
            SupervisedError::Interrupted { .. } => Self::Interrupted,
            SupervisedError::Cohort(error) => Self::Cohort(error),
            error => Self::Training(error),
        }
    }
}

impl From<ModelError> for EvalError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::File(error) => Self::File(error),
            ModelError::Cohort(error) => Self::Cohort(error),
            ModelError::Weights(error) => error.into(),
            ModelError::Build(error) => Self::Build(error),
            ModelError::Contract(error) => Self::Contract(error),
            ModelError::Batch(error) => Self::Batch(error),
            ModelError::Refused { path, expected, found } => Self::Refused { path, expected, found },
            ModelError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<WeightsError> for EvalError {
    fn from(error: WeightsError) -> Self {
        match error.problem {
            // So that a missing file or a full disk is said in the same words everywhere.
            Problem::Io(source) => {
                let action = if source.kind() == std::io::ErrorKind::NotFound { "read" } else { "use" };
                Self::File(FileError::new(action, &error.path, source))
            }
            problem => Self::Weights(WeightsError { path: error.path, problem }),
        }
    }
}

impl EvalError {
    pub(crate) fn refused(
        path: &std::path::Path,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::Refused { path: path.to_path_buf(), expected: expected.to_string(), found: found.to_string() }
    }
}
