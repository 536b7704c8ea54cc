//! Why a training could not begin, go on or be finished.

use crate::guard::{MOST_ROLLBACKS, SKIPS_BEFORE_ROLLBACK};
use bdo_data::cohort::CohortError;
use bdo_data::division::SplitError;
use bdo_data::durable::FileError;
use bdo_data::record::RecordError;
use bdo_model::batch::BatchError;
use bdo_model::error::ModelError;
use bdo_model::model::BuildError;
use bdo_model::weights::WeightsError;
use bdo_mpi::library::MpiError;
use std::path::PathBuf;

/// Everything that can stop a training; the sources say it themselves.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Cohort(#[from] CohortError),
    #[error(transparent)]
    Split(#[from] SplitError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Mpi(#[from] MpiError),
    #[error("expected at least one scan with a valid region to train on, found none")]
    NoScan,
    /// A run folder that cannot be this one's.
    #[error("{} {why}", .path.display())]
    Folder { path: PathBuf, why: &'static str },
    #[error("{} is another run and cannot be resumed so: {}", .path.display(), .differences.join("; "))]
    OtherRun { path: PathBuf, differences: Vec<String> },
    #[error(
        "{}: expected the checkpoints of run {expected}, found those of {found}; remove the folder to begin anew",
        .path.display()
    )]
    OtherCheckpoints { path: PathBuf, expected: String, found: String },
    #[error("{} is damaged: expected {expected}, found {found}", .path.display())]
    Damaged { path: PathBuf, expected: String, found: String },
    #[error("rank {rank} on {node}: expected what rank 0 has, found other values ({})", .differences.join("; "))]
    OtherRank { rank: usize, node: String, differences: Vec<String> },
    #[error("rank {rank}: expected a report of this version, found {found}")]
    Unreadable { rank: usize, found: String },
    #[error("{name}: expected a gradient of {expected} numbers, found {found}")]
    Shape { name: String, expected: usize, found: usize },
    #[error("interrupted at step {step}; run the same command with --resume to go on")]
    Interrupted { step: u64 },
    #[error(
        "training does not settle: {SKIPS_BEFORE_ROLLBACK} steps in a row had a loss that was not finite or far too \
         large, after {MOST_ROLLBACKS} returns to a checkpoint; try a lower train.learning_rate and look at the data"
    )]
    Diverged,
}

impl TrainError {
    /// Whether all ranks come to this end together; where they differ, all of them have found it.
    pub fn is_agreed(&self) -> bool {
        matches!(self, Self::Interrupted { .. } | Self::Diverged | Self::OtherRank { .. })
    }
}
