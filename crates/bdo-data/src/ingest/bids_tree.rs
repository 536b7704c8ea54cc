//! A tree of BIDS derivatives into a plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::image_run::{ImageCompanions, Parcellation};
use super::plan::{Reading, SourceFile};
use super::recipe::Recipe;
use super::repetition::RepetitionTime;
use super::table_run::TableCompanions;
use super::{Format, IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, files, nifti_folder, series_folder};
use crate::bids::{self, BidsFile, Kind, Run, SpaceWish, Tree, Wanted};
use crate::cifti::CiftiLabels;
use crate::cohort::Rejection;
use crate::nifti::Limits;
use crate::participants::Participants;
use crate::problem::Problem;
use crate::region::Region;

/// Whether a source is a BIDS tree with something to read.
pub(super) fn is_one(source: &Path, found: &[PathBuf]) -> bool {
    let tree = Tree::of(source, found);
    let described = found.iter().any(|f| files::name(f) == "dataset_description.json");
    [Kind::Images, Kind::Surfaces, Kind::Tables].into_iter().any(|kind| {
        let described = described || kind != Kind::Tables;
        described && !bids::runs(&tree, &wanted(kind, &IngestOptions::default())).is_empty()
    })
}

fn wanted(kind: Kind, options: &IngestOptions) -> Wanted {
    Wanted {
        kind,
        participants: options.participant_labels.clone(),
        sessions: options.session_labels.clone(),
        tasks: options.task_ids.clone(),
        space: options.space.as_deref().map(SpaceWish::parse),
        atlas: None,
        aroma: options.wishes.denoise.is_some_and(|p| p.strategy().needs_aroma_image()),
    }
}

pub(super) fn plan(source: &Path, found: &[PathBuf], options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let tree = Tree::of(source, found);
    let kind = kind(&tree, options)?;
    let mut wanted = wanted(kind, options);
    let mut warnings = vec![];
    let mut parcellation = Parcellation::Done;
    let default_dropped = if kind == Kind::Tables { 0 } else { UNSTEADY_VOLUMES };
    let recipe = Recipe::of(options.drop_volumes.unwrap_or(default_dropped), &options.wishes);
    let (atlas_name, regions) = match kind {
        Kind::Images => {
            let atlas = nifti_folder::atlas(source, options)?;
            warnings.extend(atlas.warnings.clone());
            wanted.space = wanted.space.or_else(|| atlas.space.as_deref().map(SpaceWish::parse));
            let named = (files::stem_of_image(&atlas.path), atlas.regions.clone());
            parcellation = Parcellation::Volume(Arc::new(atlas), Arc::default());
            named
        }
        Kind::Surfaces => surface_regions(&tree, &wanted, options, &mut parcellation)?,
        Kind::Tables => table_regions(source, &tree, &mut wanted, options)?,
    };
    let runs = bids::runs(&tree, &wanted);
    if runs.is_empty() {
        return Err(IngestError::source(
            source,
            expected_files(kind, &wanted),
            format!("none among {} files", found.len()),
        ));
    }
    let participants = people(source, options)?;
    let without = runs.iter().filter(|r| r.confounds.is_none()).count();
    if kind != Kind::Tables && recipe.denoise.is_none() && without < runs.len() {
        warnings.push("confounds are there but nothing is regressed out of the images; see --denoise".into());
    }
    let mut planned: Vec<SourceFile> = runs.into_iter().map(|run| planned(source, &tree, run, kind, options)).collect();
    series_folder::site_from_table(&mut planned, &participants);
    let description = files::beside(source, &["dataset_description.json"]);
    let source_dataset = description.and_then(|d| serde_json::from_slice(&std::fs::read(d).ok()?).ok());
    Ok(IngestPlan {
        format: Format::Bids,
        atlas_name,
        parcellation,
        regions,
        files: planned,
        participants,
        recipe,
        assume_affine: options.assume_affine,
        source_dataset,
        warnings,
    })
}

/// What to read: images or surfaces if there is an atlas to read them with, else tables, else parcellated surfaces.
fn kind(tree: &Tree, options: &IngestOptions) -> Result<Kind, IngestError> {
    if let Some(atlas) = &options.atlas {
        if files::name(atlas).ends_with(".dlabel.nii") {
            return Ok(Kind::Surfaces);
        }
        if atlas.is_file() {
            return Ok(Kind::Images);
        }
        let known = bids::atlases(tree);
        if known.contains(atlas.to_string_lossy().as_ref()) {
            return Ok(Kind::Tables);
        }
        let names = known.into_iter().collect::<Vec<_>>().join(", ");
        let found = if names.is_empty() { "neither".into() } else { format!("tables of {names}") };
        return Err(IngestError::source(atlas, "an atlas file, or the name of a parcellation of the tables", found));
    }
    if !bids::atlases(tree).is_empty() {
        return Ok(Kind::Tables);
    }
    if tree.files().iter().any(|f| f.name.ending == ".ptseries.nii") {
        return Ok(Kind::Surfaces);
    }
    Err(IngestError::source(tree.root(), "--atlas FILE to make region series of the images with", "none"))
}

fn expected_files(kind: Kind, wanted: &Wanted) -> &'static str {
    match kind {
        Kind::Images if wanted.aroma => {
            "images named sub-*_desc-smoothAROMAnonaggr_bold.nii.gz, which --denoise ica_aroma needs"
        }
        Kind::Images => "images named sub-*_desc-preproc_bold.nii.gz",
        Kind::Surfaces => "series named sub-*_bold.dtseries.nii or .ptseries.nii",
        Kind::Tables => "tables named sub-*_atlas-*_timeseries.tsv or sub-*_seg-*_timeseries.tsv",
    }
}

type Named = (String, Vec<Region>);

fn surface_regions(
    tree: &Tree,
    wanted: &Wanted,
    options: &IngestOptions,
    parcellation: &mut Parcellation,
) -> Result<Named, IngestError> {
    if let Some(path) = &options.atlas {
        let atlas = CiftiLabels::read(path, &Limits::default())?;
        let named = (files::stem_of_image(path), atlas.regions.clone());
        *parcellation = Parcellation::Surface(Arc::new(atlas));
        return Ok(named);
    }
    let runs = bids::runs(tree, wanted);
    let paths: Vec<&PathBuf> = runs.iter().map(|r| &r.file.path).collect();
    super::cifti_folder::regions_of_parcels(tree.root(), &paths)
}

/// The regions of the tables' headers. Several parcellations need a choice.
fn table_regions(
    source: &Path,
    tree: &Tree,
    wanted: &mut Wanted,
    options: &IngestOptions,
) -> Result<Named, IngestError> {
    let known: Vec<&str> = bids::atlases(tree).into_iter().collect();
    wanted.atlas = options.atlas.as_ref().map(|a| a.to_string_lossy().into_owned());
    if wanted.atlas.is_none() {
        if known.len() > 1 {
            return Err(IngestError::source(source, "one parcellation, or --atlas NAME", known.join(", ")));
        }
        wanted.atlas = known.first().map(|a| (*a).to_owned());
    }
    let runs = bids::runs(tree, wanted);
    let paths: Vec<&PathBuf> = runs.iter().map(|r| &r.file.path).collect();
    let mut warnings = vec![];
    let labels_only = IngestOptions { labels: options.labels.clone(), ..IngestOptions::default() };
    let (_, regions) = series_folder::regions(source, &paths, &labels_only, &mut warnings)?;
    Ok((wanted.atlas.clone().unwrap_or_default(), regions))
}

/// The people's table of the derivatives or of the dataset they were made from.
fn people(source: &Path, options: &IngestOptions) -> Result<Participants, IngestError> {
    let above = std::path::absolute(source).ok().and_then(|s| Some(s.parent()?.parent()?.join("participants.tsv")));
    let table = options.participants.clone().or_else(|| files::beside(source, &["participants.tsv"]));
    let table = table.or_else(|| above.filter(|a| a.is_file()));
    Ok(table.map(|t| Participants::read(&t, &[])).transpose()?.unwrap_or_default())
}

fn planned(source: &Path, tree: &Tree, run: Run, kind: Kind, options: &IngestOptions) -> SourceFile {
    let path = run.file.path.clone();
    let name = path.strip_prefix(source).unwrap_or(&path).to_string_lossy().into_owned();
    let tr_seconds = match run.problem {
        Some(problem) => Err(problem),
        None => repetition(tree, &run.file, run.outliers.is_some(), options.tr_seconds),
    };
    let tr_seconds = tr_seconds.map_err(|problem| Rejection::of(&name, problem));
    let image =
        ImageCompanions { mask: run.mask.or_else(|| options.mask.clone()), confounds: run.confounds, space: run.space };
    let reading = match kind {
        Kind::Tables => {
            Reading::Table(TableCompanions { outliers: run.outliers, coverage: run.coverage, motion: run.motion })
        }
        Kind::Images => Reading::Volume(image),
        Kind::Surfaces => Reading::Surface(ImageCompanions { mask: None, ..image }),
    };
    SourceFile { path, name, id: run.id, site: None, tr_seconds, reading }
}

/// What the sidecars say. A series its maker has scrubbed without saying which frames are left has no true times.
fn repetition(tree: &Tree, file: &BidsFile, has_outliers: bool, given: Option<f64>) -> Result<RepetitionTime, Problem> {
    let metadata = tree.metadata(file).map_err(|e| Problem::new("sidecar", "JSON", e))?;
    let number = |key: &str| {
        let value = metadata.get(key)?;
        Some(value.as_f64().ok_or_else(|| Problem::new("repetition time", format!("a number as {key}"), value)))
    };
    if let Some(Ok(scrubbed)) = number("NumberOfVolumesDiscardedByMotionScrubbing")
        && scrubbed > 0.0
        && !has_outliers
    {
        let found = format!("{scrubbed} frames taken out and no table of them");
        return Err(Problem::new("frame times", "an outliers table beside a scrubbed series", found));
    }
    let stated = match (number("RepetitionTime"), number("SamplingFrequency")) {
        (Some(tr), _) => Some(tr?),
        (None, Some(frequency)) => Some(1.0 / frequency?),
        (None, None) => None,
    };
    Ok(RepetitionTime { stated, given, assumed: None })
}
