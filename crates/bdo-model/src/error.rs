//! Why a model could not be read, put together or applied to a cohort.

use crate::batch::BatchError;
use crate::model::BuildError;
use crate::weights::{ContractError, WeightsError};
use bdo_data::cohort::CohortError;
use bdo_data::durable::FileError;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Everything that can stop the use of a trained model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The cohort cannot be read.
    #[error(transparent)]
    Cohort(#[from] CohortError),
    /// A file of the model was refused.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The model cannot be put together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The cohort does not have the model's regions.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A scan does not fit the model.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A file that was made for something else, or damaged.
    #[error("{}: expected {expected}, found {found}", .path.display())]
    Refused {
        /// The file or folder.
        path: PathBuf,
        /// The expected value.
        expected: String,
        /// The value found.
        found: String,
    },
    /// Stopped by request.
    #[error("interrupted; run the same command again to go on")]
    Interrupted,
}

impl ModelError {
    /// A file that was made for something else, or damaged.
    pub fn refused(path: &Path, expected: impl Display, found: impl Display) -> Self {
        Self::Refused { path: path.to_path_buf(), expected: expected.to_string(), found: found.to_string() }
    }
}
