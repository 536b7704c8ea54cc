//! From the files people have to a cohort.

mod abide_pcp;
mod bids_tree;
mod columns;
mod files;
mod identity;
mod image_folder;
mod image_run;
mod plan;
mod preference;
mod raw;
mod recipe;
mod remarks;
mod repetition;
mod series_file;
mod series_folder;
mod series_hdf5;
mod series_mat;
mod series_npy;
mod series_text;
mod sources;
mod store;
mod table_header;
mod table_run;

pub use columns::read_region_names;
pub use image_run::Parcellation;
pub use plan::{IngestPlan, SourceFile};
pub use recipe::Recipe;
pub use remarks::{FreedomLeft, Remarks};
pub use repetition::{HeaderTime, PLAUSIBLE_TR_SECONDS, RepetitionTime};
pub use series_file::{SeriesTable, read_series};
pub use store::{IngestReport, ingest};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::bids::{Kind, Selection};
use crate::cohort::{CohortError, Rejection};
use crate::durable::FileError;
use crate::participants::ParticipantsError;
use crate::problem::{Problem, ReadError};
use crate::shard::Shard;
use sources::Sources;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// ABIDE or ADHD-200 region series of the Preprocessed Connectomes Project, with their phenotypic table.
    AbidePcp,
    /// Derivatives of fMRIPrep, XCP-D or `giga_connectome`.
    Bids,
    Cifti,
    Nifti,
    #[default]
    /// One table a scan: TSV, CSV, .1D, .txt, .npy, .npz, .mat or .h5.
    Series,
}

impl Format {
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
    /// A table that names the scans, in place of a search.
    pub manifest: Option<PathBuf>,
    pub selection: Selection,
    /// Repetition time; it has the last word.
    pub tr_seconds: Option<f64>,
    /// Volumes to drop from the start; 10 for images and raw-length series, 0 for others when absent.
    pub drop_volumes: Option<usize>,
    /// Part `i` of `n` (from 1) of the scans, for job arrays.
    pub shard: Option<Shard>,
    /// Space, and perhaps resolution, of the images: `NAME` or `NAME:res-R`.
    pub space: Option<String>,
    /// What else is done to the series; the volumes it drops are those above.
    pub recipe: Recipe,
    /// Take an image without an affine as centred on the origin.
    pub assume_affine: bool,
}

/// Why nothing could be ingested.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Participants(#[from] ParticipantsError),
    #[error(transparent)]
    Cohort(#[from] CohortError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{}: expected {expected}, found {found}", .path.display())]
    Source { path: PathBuf, expected: String, found: String },
}

impl IngestError {
    fn source(path: &Path, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Source { path: path.to_path_buf(), expected: expected.into(), found: found.into() }
    }

    fn of(path: &Path, problem: Problem) -> Self {
        Self::source(path, problem.expected, problem.found)
    }
}

/// Works out what a source folder holds and how each scan is to be read.
pub fn plan(source: &Path, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let given = options.tr_seconds.map(|tr| repetition::plausible("--tr", tr));
    given.transpose().map_err(|problem| IngestError::of(source, problem))?;
    let sources = Sources::of(source, options)?;
    let format = match options.format {
        Some(format @ (Format::Bids | Format::AbidePcp)) if sources.is_listed() => {
            let expected = "--format series, nifti or cifti with --manifest, which says itself what the files are";
            return Err(IngestError::source(source, expected, format.name()));
        }
        Some(format) => format,
        None => recognise(&sources)?,
    };
    let mut plan = match format {
        Format::AbidePcp => abide_pcp::plan(&sources, options)?,
        Format::Bids => bids_tree::plan(&sources, options)?,
        Format::Cifti => image_folder::plan_surfaces(&sources, options)?,
        Format::Nifti => image_folder::plan_volumes(&sources, options)?,
        Format::Series => series_folder::plan(&sources, options)?,
    };
    plan.format = format;
    check_settings(&plan, source, options)?;
    check_people(&mut plan, source, options)?;
    note_padded_labels(&mut plan);
    plan.rejected.extend(sources.found.rejected.iter().cloned());
    plan.warnings.extend(sources.found.notes.iter().cloned());
    for file in &mut plan.files {
        let in_table = || plan.participants.site_of(&file.id.subject).map(str::to_owned);
        file.site = file.site.take().or_else(in_table);
        if let Some(listed) = sources.listed(&file.path) {
            file.site = listed.site.clone().or(file.site.take());
            if let (Ok(tr), Some(seconds)) = (&mut file.tr_seconds, listed.tr_seconds) {
                tr.given = Some(seconds);
            }
        }
        if let Some(problem) = file.missing() {
            file.tr_seconds = Err(Rejection::of(&file.name, problem));
        }
    }
    keep_wanted(&mut plan, source, options)?;
    plan.files.sort_by(|a, b| (&a.id, &a.name).cmp(&(&b.id, &b.name)));
    plan.keep_shard(options.shard);
    Ok(plan)
}

/// A setting that does nothing, or cannot be meant, is a mistake that would go unnoticed.
fn check_settings(plan: &IngestPlan, source: &Path, options: &IngestOptions) -> Result<(), IngestError> {
    let reads = |kind: Kind| plan.files.iter().any(|f| f.kind == kind);
    let (volumes, tables) = (reads(Kind::Images), reads(Kind::Tables));
    if plan.recipe.denoise.is_some() && tables {
        let expected = "images to denoise or scrub (--denoise, --scrub)";
        return Err(IngestError::source(source, expected, "tables of series, which come without confounds"));
    }
    if let Some(mask) = options.mask.as_ref().filter(|m| !m.is_file()) {
        return Err(IngestError::source(mask, "a brain mask for --mask", "no file of that name"));
    }
    let format = plan.format;
    let idle = [
        (options.mask.is_some() && !volumes, "--mask", "images"),
        (options.assume_affine && !volumes, "--assume-affine", "images"),
        (options.space.is_some() && format != Format::Bids, "--space", "BIDS derivatives"),
        (options.selection.desc.is_some() && format != Format::Bids, "--desc", "BIDS derivatives"),
        (options.atlas.is_some() && tables && format != Format::Bids, "--atlas", "images"),
    ];
    if let Some((_, flag, of)) = idle.into_iter().find(|(is, ..)| *is) {
        let found = format!("scans of format {}, where it does nothing", format.name());
        return Err(IngestError::source(source, format!("{of} for {flag}"), found));
    }
    let band = options.tr_seconds.map(|tr| recipe::check_band(&plan.recipe.cleaning, tr));
    let with_flag = |p: Problem| Problem { expected: format!("--band-pass with {}", p.expected), ..p };
    band.unwrap_or(Ok(())).map_err(|p| IngestError::of(source, with_flag(p)))
}

/// A table of people that knows nobody is a table of other people, or spells them otherwise; where it does not know some, a note
/// says so.
fn check_people(plan: &mut IngestPlan, source: &Path, options: &IngestOptions) -> Result<(), IngestError> {
    let people = &plan.participants;
    let path = options.participants.as_deref().unwrap_or(source);
    if people.is_empty() && options.participants.is_some() {
        return Err(IngestError::source(path, "rows of people in the participants table", "none"));
    }
    let scanned: BTreeSet<&str> = plan.files.iter().map(|f| f.id.subject.as_str()).collect();
    let unknown: Vec<&str> = scanned.iter().copied().filter(|s| people.row_of(s).is_none()).collect();
    let chosen = !options.selection.participants.is_empty();
    if people.is_empty() || unknown.is_empty() || (chosen && options.participants.is_none()) {
        return Ok(());
    }
    if unknown.len() < scanned.len() {
        let (n, all, first) = (unknown.len(), scanned.len(), unknown[0]);
        plan.warnings.push(format!("{n} of {all} people, such as {first:?}, have no row in the participants table"));
        return Ok(());
    }
    let row = people.subjects().next().unwrap_or_default();
    let expected = format!("rows of the people who were scanned, such as {:?}, in the participants table", unknown[0]);
    Err(IngestError::source(path, expected, format!("none of them, but {row:?} and others")))
}

/// `sub-1` and `sub-01` are two labels, and mostly one person.
fn note_padded_labels(plan: &mut IngestPlan) {
    let bare = |subject: &str| {
        let label = subject.strip_prefix("sub-").unwrap_or(subject);
        label.bytes().all(|b| b.is_ascii_digit()).then(|| label.trim_start_matches('0').to_owned())
    };
    let mut first_of: BTreeMap<String, String> = BTreeMap::new();
    let mut notes = BTreeSet::new();
    for subject in plan.files.iter().map(|f| &f.id.subject) {
        let Some(bare) = bare(subject) else { continue };
        let first = first_of.entry(bare).or_insert_with(|| subject.clone());
        if first != subject {
            notes.insert(format!("{first} and {subject} differ only in zeros in front: they count as two people"));
        }
    }
    plan.warnings.extend(notes);
}

/// Keeps the people, sessions and tasks asked for. A label that names nothing is a rejection, or an error if none does.
fn keep_wanted(plan: &mut IngestPlan, source: &Path, options: &IngestOptions) -> Result<(), IngestError> {
    let mut unmatched = vec![];
    for asked in options.selection.asked() {
        let is_there = |label: &&String| plan.files.iter().any(|f| asked.is(&f.id, label));
        let absent = asked.labels.iter().filter(|label| !is_there(label));
        unmatched.extend(absent.map(|label| format!("{} {label}", asked.flag)));
        plan.files.retain(|f| asked.takes(&f.id));
    }
    if plan.files.is_empty() {
        let expected = "scans of the people, sessions and tasks asked for";
        let found = if unmatched.is_empty() { "none".to_owned() } else { format!("none of {}", unmatched.join(", ")) };
        return Err(IngestError::source(source, expected, found));
    }
    let rejection = |flag: &String| Rejection::of(flag, Problem::new("label", "a scan that has it", "none"));
    plan.rejected.extend(unmatched.iter().map(rejection));
    Ok(())
}

fn recognise(sources: &Sources) -> Result<Format, IngestError> {
    type IsScan = fn(&Path) -> bool;
    let (source, found) = (&sources.root, &sources.found.files);
    let of_names: [(IsScan, Format); 3] = [
        (image_folder::is_surface, Format::Cifti),
        (image_folder::is_volume, Format::Nifti),
        (series_folder::is_scan, Format::Series),
    ];
    if !sources.is_listed() && found.iter().any(|f| abide_pcp::is_scan(f)) {
        return Ok(Format::AbidePcp);
    }
    if !sources.is_listed() && bids_tree::is_one(source, found) {
        return Ok(Format::Bids);
    }
    if let Some((_, format)) = of_names.into_iter().find(|(is_scan, _)| found.iter().any(|f| is_scan(f))) {
        return Ok(format);
    }
    let mut seen = format!("{} files of other kinds", found.len());
    if let Some(first) = sources.found.rejected.first() {
        let more = sources.found.rejected.len();
        seen += &format!(", and {more} that cannot be used ({}: {})", first.file, first.found);
    }
    let expected = "BIDS derivatives, images (.nii, .nii.gz), CIFTI series, or region series (.1D, .tsv, .csv, .txt, .npy, .npz, .mat or .h5), one file a scan";
    Err(IngestError::source(source, expected, seen))
}
