//! The one error of features, probes, fine-tuning, comparisons and inference.

use bdo_data::cohort::CohortError;
use bdo_data::division::SplitError;
use bdo_data::durable::FileError;
use bdo_data::target::TargetError;
use bdo_model::batch::BatchError;
use bdo_model::error::ModelError;
use bdo_model::model::BuildError;
use bdo_model::parameters::ParameterError;
use bdo_model::weights::{ContractError, WeightsError};
use bdo_train::error::TrainError;
use parquet::errors::ParquetError;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Everything that can stop an evaluation, or the training of what is evaluated.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum EvalError {
    #[error(transparent)]
    Model(ModelError),
    #[error(transparent)]
    Split(#[from] SplitError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error(transparent)]
    Run(TrainError),
    #[error("{}: cannot lay out Parquet: {source}", .path.display())]
    Parquet { path: PathBuf, source: ParquetError },
    /// Something that has a name is not as it must be.
    #[error("{name}: expected {expected}, found {found}")]
    Named { name: String, expected: String, found: String },
    #[error("{name}: expected one of {known}")]
    Unknown { name: String, known: String },
    /// Something without a name is not as it must be.
    #[error("expected {expected}, found {found}")]
    Found { expected: String, found: String },
    #[error("expected people {what}, found none with features and a value")]
    Nobody { what: &'static str },
    /// The decomposition did not converge, which finite input does not lead to.
    #[error("the eigenvalues of a {size} x {size} matrix of products were not found")]
    Eigenvalues { size: usize },
    #[error("{method} on {target}: {source}")]
    Task { method: String, target: String, source: Box<Self> },
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    #[error("interrupted; run the same command again to go on")]
    Interrupted,
    /// The same during a training.
    #[error("interrupted at step {step}; run the same command again to go on")]
    InterruptedAt { step: u64 },
}

impl From<ModelError> for EvalError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Interrupted => Self::Interrupted,
            error => Self::Model(error),
        }
    }
}

impl From<TrainError> for EvalError {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Cohort(error) => error.into(),
            error => Self::Run(error),
        }
    }
}

macro_rules! from_errors_of {
    ($kind:ident: $($error:ty),+) => {
        $(impl From<$error> for EvalError {
            fn from(error: $error) -> Self {
                Self::$kind(error.into())
            }
        })+
    };
}

from_errors_of!(Model: FileError, CohortError, WeightsError, BuildError, ContractError, BatchError);

impl EvalError {
    /// What happened, where the reader knows the row and the label.
    pub fn reason(&self) -> String {
        match self {
            Self::Task { source, .. } => source.reason(),
            other => other.to_string(),
        }
    }

    /// Something that has a name is not as it must be.
    pub fn named(name: impl Display, expected: impl Display, found: impl Display) -> Self {
        Self::Named { name: name.to_string(), expected: expected.to_string(), found: found.to_string() }
    }

    /// The same where there is nothing to name.
    pub fn found(expected: impl Display, found: impl Display) -> Self {
        Self::Found { expected: expected.to_string(), found: found.to_string() }
    }

    /// A file that was made for something else, or damaged.
    pub fn refused(path: &Path, expected: impl Display, found: impl Display) -> Self {
        Self::Model(ModelError::refused(path, expected, found))
    }

    /// A Parquet file that could not be written or read.
    pub(crate) fn parquet(path: &Path) -> impl Fn(ParquetError) -> Self {
        move |source| Self::Parquet { path: path.to_path_buf(), source }
    }

    /// The step at which a training was stopped by request.
    pub fn stopped_at(&self) -> Option<u64> {
        match self {
            Self::Run(TrainError::Interrupted { step }) | Self::InterruptedAt { step } => Some(*step),
            _ => None,
        }
    }
}
