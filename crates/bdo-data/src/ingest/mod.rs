//! From the files people have to a cohort.

mod abide_pcp;
mod files;
mod labels;
mod plan;
mod series_file;
mod series_folder;
mod series_mat;
mod series_npz;

pub use labels::read_region_names;
pub use plan::{IngestPlan, IngestReport, SourceFile, ingest};
pub use series_file::{SeriesFileError, SeriesTable, read_series};

use std::path::{Path, PathBuf};

use crate::cohort::CohortError;
use crate::durable::FileError;
use crate::participants::ParticipantsError;

/// A layout of source files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// ABIDE or ADHD-200 region series of the Preprocessed Connectomes Project, with their phenotypic table.
    AbidePcp,
    /// One table a scan: TSV, CSV, .1D, .txt or .npy.
    Series,
}

impl Format {
    /// As typed on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AbidePcp => "abide-pcp",
            Self::Series => "series",
        }
    }

    /// Volumes dropped from the start unless the user says otherwise: raw-length series still hold the unsteady first ones,
    /// series extracted elsewhere usually do not.
    pub fn default_dropped_volumes(self) -> usize {
        match self {
            Self::AbidePcp => 10,
            Self::Series => 0,
        }
    }
}

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct IngestOptions {
    /// Layout; recognised when absent.
    pub format: Option<Format>,
    /// Region names, one a line or a label table.
    pub labels: Option<PathBuf>,
    /// The people's table, where it is not found beside the scans.
    pub participants: Option<PathBuf>,
    /// Repetition time, where the source does not say it.
    pub tr_seconds: Option<f64>,
    /// Volumes to drop from the start; the format's default when absent.
    pub drop_volumes: Option<usize>,
    /// Part `i` of `n` (from 1) of the scans, for job arrays.
    pub shard: Option<(usize, usize)>,
}

/// Why nothing could be ingested.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A table of people is malformed.
    #[error(transparent)]
    Participants(#[from] ParticipantsError),
    /// The cohort could not be written.
    #[error(transparent)]
    Cohort(#[from] CohortError),
    /// A series that everything else depends on is malformed.
    #[error(transparent)]
    Series(#[from] SeriesFileError),
    /// The source is not what was expected.
    #[error("{}: expected {expected}, found {found}", .path.display())]
    Source {
        /// File or folder.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is.
        found: String,
    },
}

impl IngestError {
    fn source(path: &Path, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Source { path: path.to_path_buf(), expected: expected.into(), found: found.into() }
    }
}

/// Works out what a source folder holds and how each scan is to be read.
pub fn plan(source: &Path, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let found = files::below(source)?;
    let format = match options.format {
        Some(format) => format,
        None => recognise(source, &found)?,
    };
    if let Some(tr) = options.tr_seconds
        && !(tr.is_finite() && tr > 0.0)
    {
        return Err(IngestError::source(source, "--tr to be a positive number of seconds", tr.to_string()));
    }
    let mut plan = match format {
        Format::AbidePcp => abide_pcp::plan(source, &found, options)?,
        Format::Series => series_folder::plan(source, &found, options)?,
    };
    plan.keep_shard(options.shard);
    Ok(plan)
}

fn recognise(source: &Path, found: &[PathBuf]) -> Result<Format, IngestError> {
    if found.iter().any(|f| abide_pcp::is_scan(f)) {
        return Ok(Format::AbidePcp);
    }
    if found.iter().any(|f| series_folder::is_scan(f)) {
        return Ok(Format::Series);
    }
    let found = format!("{} files of other kinds", found.len());
    Err(IngestError::source(source, "region series (.1D, .tsv, .csv, .txt or .npy), one file a scan", found))
}
