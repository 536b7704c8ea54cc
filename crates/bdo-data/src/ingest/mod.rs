//! From the files people have to a cohort.

mod abide_pcp;
mod bids_tree;
mod cifti_folder;
mod files;
mod image_run;
mod labels;
mod nifti_folder;
mod plan;
mod raw;
mod recipe;
mod region_rows;
mod repetition;
mod series_file;
mod series_folder;
mod series_mat;
mod series_npz;
mod series_text;
mod store;
mod table_header;
mod table_run;

pub use image_run::{ImageCompanions, Parcellation};
pub use labels::read_region_names;
pub use plan::{IngestPlan, Reading, SourceFile};
pub use recipe::{Recipe, Wishes};
pub use repetition::RepetitionTime;
pub use series_file::{SeriesTable, read_series};
pub use store::{IngestReport, ingest};
pub use table_run::TableCompanions;

use std::path::{Path, PathBuf};

use crate::cohort::CohortError;
use crate::durable::FileError;
use crate::participants::ParticipantsError;
use crate::problem::ReadError;

/// A layout of source files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// ABIDE or ADHD-200 region series of the Preprocessed Connectomes Project, with their phenotypic table.
    AbidePcp,
    /// Derivatives of fMRIPrep, XCP-D or `giga_connectome`.
    Bids,
    /// CIFTI series, dense or parcellated.
    Cifti,
    /// Volume images.
    Nifti,
    /// One table a scan: TSV, CSV, .1D, .txt, .npy, .npz or .mat.
    Series,
}

impl Format {
    /// As typed on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AbidePcp => "abide-pcp",
            Self::Bids => "bids",
            Self::Cifti => "cifti",
            Self::Nifti => "nifti",
            Self::Series => "series",
        }
    }
}

/// Volumes dropped from images and raw-length series unless the user says otherwise: the first ones are unsteady.
const UNSTEADY_VOLUMES: usize = 10;

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct IngestOptions {
    /// Layout; recognised when absent.
    pub format: Option<Format>,
    /// Region names, one a line or a label table.
    pub labels: Option<PathBuf>,
    /// A label image or `.dlabel.nii`; for tables in several parcellations, the name of one.
    pub atlas: Option<PathBuf>,
    /// A brain mask for images without one of their own.
    pub mask: Option<PathBuf>,
    /// The people's table, where it is not found beside the scans.
    pub participants: Option<PathBuf>,
    /// Repetition time, where the source does not say it.
    pub tr_seconds: Option<f64>,
    /// Volumes to drop from the start; 10 for images and raw-length series, 0 for others when absent.
    pub drop_volumes: Option<usize>,
    /// Part `i` of `n` (from 1) of the scans, for job arrays.
    pub shard: Option<(usize, usize)>,
    /// Space, and perhaps resolution, of the images: `NAME` or `NAME:res-R`.
    pub space: Option<String>,
    /// Only these people; empty means all.
    pub participant_labels: Vec<String>,
    /// Only these sessions; empty means all.
    pub session_labels: Vec<String>,
    /// Only these tasks; empty means all.
    pub task_ids: Vec<String>,
    /// Confounds, scrubbing, filtering, coverage.
    pub wishes: Wishes,
    /// Take an image without an affine as centred on the origin.
    pub assume_affine: bool,
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
    /// An atlas, image or series that everything else depends on cannot be used.
    #[error(transparent)]
    Read(#[from] ReadError),
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
        Format::Bids => bids_tree::plan(source, &found, options)?,
        Format::Cifti => cifti_folder::plan(source, &found, options)?,
        Format::Nifti => nifti_folder::plan(source, &found, options)?,
        Format::Series => series_folder::plan(source, &found, options)?,
    };
    if plan.recipe.denoise.is_some() && plan.files.iter().any(|f| matches!(f.reading, Reading::Table(_))) {
        let expected = "images to denoise or scrub (--denoise, --scrub)";
        return Err(IngestError::source(source, expected, "tables of series, which come without confounds"));
    }
    keep_wanted(&mut plan, source, options)?;
    plan.files.sort_by(|a, b| (&a.id, &a.name).cmp(&(&b.id, &b.name)));
    plan.keep_shard(options.shard);
    Ok(plan)
}

/// Keeps the people, sessions and tasks asked for.
fn keep_wanted(plan: &mut IngestPlan, source: &Path, options: &IngestOptions) -> Result<(), IngestError> {
    let listed = |list: &[String], prefix: &str, label: Option<&str>| {
        fn bare<'a>(label: &'a str, prefix: &str) -> &'a str {
            label.strip_prefix(prefix).unwrap_or(label)
        }
        list.is_empty() || label.is_some_and(|l| list.iter().any(|w| bare(w, prefix) == bare(l, prefix)))
    };
    let before = plan.files.len();
    plan.files.retain(|f| {
        listed(&options.participant_labels, "sub-", Some(&f.id.subject))
            && listed(&options.session_labels, "ses-", f.id.session.as_deref())
            && listed(&options.task_ids, "task-", f.id.task.as_deref())
    });
    if plan.files.is_empty() {
        let found = format!("none of {before} scans");
        return Err(IngestError::source(source, "scans of the people, sessions and tasks asked for", found));
    }
    Ok(())
}

fn recognise(source: &Path, found: &[PathBuf]) -> Result<Format, IngestError> {
    let any = |is: &dyn Fn(&Path) -> bool| found.iter().any(|f| is(f));
    if any(&abide_pcp::is_scan) {
        return Ok(Format::AbidePcp);
    }
    if bids_tree::is_one(source, found) {
        return Ok(Format::Bids);
    }
    if any(&cifti_folder::is_scan) {
        return Ok(Format::Cifti);
    }
    if any(&nifti_folder::is_scan) {
        return Ok(Format::Nifti);
    }
    if any(&series_folder::is_scan) {
        return Ok(Format::Series);
    }
    let found = format!("{} files of other kinds", found.len());
    let expected = "BIDS derivatives, images (.nii, .nii.gz), CIFTI series, or region series (.1D, .tsv, .csv, .txt, .npy, .npz or .mat), one file a scan";
    Err(IngestError::source(source, expected, found))
}
