//! Why something could not be inferred.

use crate::downstream::error::DownstreamError;
use bdo_data::cohort::CohortError;
use bdo_data::durable::FileError;
use bdo_model::batch::BatchError;
use bdo_model::weights::ContractError;
use std::path::PathBuf;

/// Everything that can stop inference.
#[derive(Debug, thiserror::Error)]
pub enum InferError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The cohort cannot be read.
    #[error(transparent)]
    Cohort(#[from] CohortError),
    /// The model or its features.
    #[error(transparent)]
    Downstream(#[from] DownstreamError),
    /// The cohort does not have the model's regions.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A scan does not fit the model.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A file that was made for something else, or damaged.
    #[error("{}: expected {expected}, found {found}", .path.display())]
    Refused {
        /// The file.
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
    /// Stopped by request.
    #[error("interrupted; run the same command again")]
    Interrupted,
}
