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
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Everything that can stop an evaluation.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The model or the cohort cannot be read, or one does not fit the other.
    #[error(transparent)]
    Model(ModelError),
    /// Features cannot be fitted on.
    #[error(transparent)]
    Features(#[from] crate::features::FeatureError),
    /// A closed-form fit failed.
    #[error(transparent)]
    Design(#[from] crate::design::DesignError),
    /// The people cannot be divided.
    #[error(transparent)]
    Split(#[from] SplitError),
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
            SupervisedError::Cohort(error) => error.into(),
            error => Self::Training(error),
        }
    }
}

impl From<ModelError> for EvalError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Weights(error) => error.into(),
            ModelError::Interrupted => Self::Interrupted,
            error => Self::Model(error),
        }
    }
}

macro_rules! from_errors_of_models {
    ($($error:ty),+) => {
        $(impl From<$error> for EvalError {
            fn from(error: $error) -> Self {
                Self::Model(error.into())
            }
        })+
    };
}

from_errors_of_models!(FileError, CohortError, BuildError, ContractError, BatchError);

impl From<WeightsError> for EvalError {
    fn from(error: WeightsError) -> Self {
        match error.problem {
            // So that a missing file or a full disk is said in the same words everywhere.
            Problem::Io(source) => {
                let action = if source.kind() == std::io::ErrorKind::NotFound { "read" } else { "use" };
                FileError::new(action, &error.path, source).into()
            }
            problem => Self::Model(ModelError::Weights(WeightsError { path: error.path, problem })),
        }
    }
}

impl EvalError {
    pub(crate) fn refused(path: &Path, expected: impl Display, found: impl Display) -> Self {
        Self::Model(ModelError::refused(path, expected, found))
    }
}
