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
#[allow(missing_docs)] // The messages say it.
pub enum ModelError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Cohort(#[from] CohortError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Contract(#[from] ContractError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A file that was made for something else, or damaged.
    #[error("{}: expected {expected}, found {found}", .path.display())]
    Refused { path: PathBuf, expected: String, found: String },
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
