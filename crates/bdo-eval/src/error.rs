//! The one error of features, probes, fine-tuning, predictions and inference.

use crate::supervised::learner::SupervisedError;
use bdo_data::cohort::CohortError;
use bdo_data::division::SplitError;
use bdo_data::durable::FileError;
use bdo_data::target::TargetError;
use bdo_model::batch::BatchError;
use bdo_model::error::ModelError;
use bdo_model::model::BuildError;
use bdo_model::weights::{ContractError, WeightsError};
use bdo_train::ranks::RanksError;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Everything that can stop an evaluation.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum EvalError {
    #[error(transparent)]
    Model(ModelError),
    #[error(transparent)]
    Features(#[from] crate::features::FeatureError),
    #[error(transparent)]
    Design(#[from] crate::design::DesignError),
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The table could not be laid out as Parquet.
    #[error("{}: cannot lay out Parquet: {source}", .path.display())]
    Parquet { path: PathBuf, source: parquet::errors::ParquetError },
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A part of the split without people.
    #[error("target {target:?}, seed {seed}: expected {expected} among the {part} people with features, found {found}")]
    Part { target: String, seed: u64, part: &'static str, expected: &'static str, found: String },
    /// A setting outside its range.
    #[error("{name}: expected {expected}, found {found}")]
    Setting { name: &'static str, expected: String, found: String },
    /// No scan could be embedded.
    #[error("{}: expected at least one scan with a usable region, found none", .cohort.display())]
    NoScans { cohort: PathBuf },
    /// Too few scans for what is asked.
    #[error("{what}: expected at least {expected} scans, found {found}")]
    TooFew { what: &'static str, expected: usize, found: usize },
    #[error(transparent)]
    Training(SupervisedError),
    #[error(transparent)]
    Probe(#[from] Box<crate::method::MethodError>),
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

impl From<RanksError> for EvalError {
    fn from(error: RanksError) -> Self {
        Self::Training(SupervisedError::Fit(error.into()))
    }
}

impl From<ModelError> for EvalError {
    fn from(error: ModelError) -> Self {
        match error {
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

from_errors_of_models!(FileError, CohortError, WeightsError, BuildError, ContractError, BatchError);

impl EvalError {
    pub(crate) fn setting(name: &'static str, expected: impl Display, found: impl Display) -> Self {
        Self::Setting { name, expected: expected.to_string(), found: found.to_string() }
    }

    pub(crate) fn refused(path: &Path, expected: impl Display, found: impl Display) -> Self {
        Self::Model(ModelError::refused(path, expected, found))
    }
}
