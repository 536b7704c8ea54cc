//! A tree of BIDS derivatives into a plan.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::plan::SourceFile;
use super::preference::said_once;
use super::repetition::{self, RepetitionTime, as_number};
use super::sources::Sources;
use super::{
    IngestError, IngestOptions, IngestPlan, Parcellation, UNSTEADY_VOLUMES, files, image_folder, series_folder,
};
use crate::bids::{self, BidsFile, Companions, Kind, Run, SpaceWish, Tree, Wanted};
use crate::cifti::CiftiLabels;
use crate::cohort::Rejection;
use crate::confound::Strategy;
use crate::participants::Participants;
use crate::problem::Problem;

pub(super) fn is_one(source: &Path, found: &[PathBuf]) -> bool {
    let tree = Tree::of(source, found);
    let described = found.iter().any(|f| files::name(f) == "dataset_description.json");
    let kinds = [(Kind::Images, false), (Kind::Surfaces, false), (Kind::Surfaces, true), (Kind::Tables, false)];
    kinds.into_iter().filter(|(kind, _)| described || *kind != Kind::Tables).any(|(kind, dense)| {
        let wanted = Wanted { kind, dense, ..Wanted::default() };
        !bids::runs(&tree, &wanted).is_empty()
    })
}

pub(super) fn plan(sources: &Sources, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let (source, found) = (&sources.root, &sources.found.files);
    let tree = Tree::of(source, found);
    let kind = kind(&tree, options)?;
    let mut wanted = Wanted {
        kind,
        selection: options.selection.clone(),
        space: options.space.as_deref().map(SpaceWish::parse),
        atlas: None,
        aroma: options.recipe.denoise.as_ref().is_some_and(Strategy::needs_aroma_image),
        dense: options.atlas.as_deref().is_some_and(Path::is_file),
    };
    let mut plan = IngestPlan::new(people(source, options)?, 0, options);
    match (kind, &options.atlas) {
        (Kind::Images, _) => {
            let atlas = image_folder::atlas(source, options)?;
            wanted.space = wanted.space.or_else(|| atlas.space.as_deref().map(SpaceWish::parse));
            plan.take(Parcellation::Volume(Arc::new(atlas), Arc::default()));
        }
        (Kind::Surfaces, Some(atlas)) if wanted.dense => {
            plan.take(Parcellation::Surface(Arc::new(CiftiLabels::read(atlas)?)));
        }
        _ => take_columns(&mut plan, &tree, &mut wanted, options)?,
    }
    let runs = bids::runs(&tree, &wanted);
    if runs.is_empty() {
        let found = format!("none among {} files{}", found.len(), asked_for(options));
        return Err(IngestError::source(source, expected_files(&wanted), found));
    }
    let passed_over = runs.iter().filter_map(|r| r.passed_over.clone()).collect();
    plan.warnings.extend(said_once(passed_over, "--desc"));
    plan.recipe.drop_volumes = drop_volumes(source, &runs, &wanted, options)?;
    let without = runs.iter().filter(|r| r.beside.confounds.is_none()).count();
    if kind != Kind::Tables && plan.recipe.denoise.is_none() && without < runs.len() {
        plan.warnings.push("confounds are there but nothing is regressed out of the images; see --denoise".into());
    }
    if kind == Kind::Images && options.mask.is_none() && runs.iter().all(|r| r.beside.mask.is_none()) {
        plan.warnings.push("no run has a brain mask: regions are taken as far as the image goes; see --mask".into());
    }
    plan.files = runs.into_iter().map(|run| planned(&tree, run, kind, options)).collect();
    let description = files::beside(source, &["dataset_description.json"]);
    plan.source_dataset = description.and_then(|d| serde_json::from_slice(&std::fs::read(d).ok()?).ok());
    Ok(plan)
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
        let mut known = BTreeSet::new();
        for kind in [Kind::Tables, Kind::Surfaces] {
            let names = bids::atlases(tree, kind);
            if names.contains(atlas.to_string_lossy().as_ref()) {
                return Ok(kind);
            }
            known.extend(names);
        }
        let names = known.into_iter().collect::<Vec<_>>().join(", ");
        let found = if names.is_empty() { "neither".into() } else { format!("tables of {names}") };
        return Err(IngestError::source(atlas, "an atlas file, or the name of a parcellation of the tables", found));
    }
    if !bids::atlases(tree, Kind::Tables).is_empty() {
        return Ok(Kind::Tables);
    }
    if tree.files.iter().any(|f| f.name.ending == ".ptseries.nii") {
        return Ok(Kind::Surfaces);
    }
    Err(IngestError::source(&tree.root, "--atlas FILE to make region series of the images with", "none"))
}

/// Volumes to drop. Who has denoised images has also left out the unsteady volumes, so that nothing is dropped by default, and
/// regressing out confounds once more would be wrong.
fn drop_volumes(source: &Path, runs: &[Run], wanted: &Wanted, options: &IngestOptions) -> Result<usize, IngestError> {
    let denoised = wanted.kind != Kind::Tables && runs.iter().any(Run::is_denoised);
    if denoised && options.recipe.denoise.is_some() {
        let found = "images named desc-denoised, of which confounds are regressed out already";
        return Err(IngestError::source(source, "images to denoise or scrub (--denoise, --scrub)", found));
    }
    let usual = match wanted.kind {
        Kind::Images if !denoised => UNSTEADY_VOLUMES,
        Kind::Surfaces if !denoised => image_folder::usual_drop_of_surfaces(wanted.dense),
        _ => 0,
    };
    Ok(options.drop_volumes.unwrap_or(usual))
}

fn expected_files(wanted: &Wanted) -> &'static str {
    match wanted.kind {
        Kind::Images if wanted.aroma => {
            "images named sub-*_desc-smoothAROMAnonaggr_bold.nii.gz, which --denoise ica_aroma needs"
        }
        Kind::Images => "images named sub-*_desc-preproc_bold.nii.gz or sub-*_desc-denoised_bold.nii.gz",
        Kind::Surfaces => "series named sub-*_bold.dtseries.nii or .ptseries.nii",
        Kind::Tables => "tables named sub-*_atlas-*_timeseries.tsv or sub-*_seg-*_timeseries.tsv",
    }
}

/// The regions of parcellated surfaces, or of the headers of tables. Several parcellations need a choice.
fn take_columns(
    plan: &mut IngestPlan,
    tree: &Tree,
    wanted: &mut Wanted,
    options: &IngestOptions,
) -> Result<(), IngestError> {
    let known: Vec<&str> = bids::atlases(tree, wanted.kind).into_iter().collect();
    wanted.atlas = match &options.atlas {
        Some(name) => Some(name.to_string_lossy().into_owned()),
        None if known.len() > 1 => {
            return Err(IngestError::source(&tree.root, "one parcellation, or --atlas NAME", known.join(", ")));
        }
        None => known.first().map(|a| (*a).to_owned()),
    };
    let runs = bids::runs(tree, wanted);
    let paths: Vec<&PathBuf> = runs.iter().map(|r| &r.file.path).collect();
    plan.atlas_name = wanted.atlas.clone().unwrap_or_default();
    if wanted.kind == Kind::Tables {
        let labels = options.labels.as_deref();
        plan.regions = series_folder::regions(&tree.root, &paths, labels, &mut plan.warnings)?.1;
    } else {
        plan.regions = image_folder::regions_of_parcels(&tree.root, &paths)?;
        if wanted.atlas.is_none() {
            plan.atlas_name = "parcels".into();
        }
    }
    Ok(())
}

/// The people's table of the derivatives or of the dataset they were made from.
fn people(source: &Path, options: &IngestOptions) -> Result<Participants, IngestError> {
    let above = std::path::absolute(source).ok().and_then(|s| Some(s.parent()?.parent()?.join("participants.tsv")));
    let table = options.participants.clone().or_else(|| files::beside(source, &["participants.tsv"]));
    let table = table.or_else(|| above.filter(|a| a.is_file()));
    Ok(table.map(|t| Participants::read(&t, &[])).transpose()?.unwrap_or_default())
}

fn planned(tree: &Tree, run: Run, kind: Kind, options: &IngestOptions) -> SourceFile {
    let path = run.file.path.clone();
    let name = files::relative(&tree.root, &path);
    let unmasked = run.beside.mask.is_none() && options.mask.is_some();
    let stated = match run.problem.filter(|p| !(unmasked && p.what == "brain mask")) {
        Some(problem) => Err(problem),
        None => stated(tree, &run.file, run.beside.outliers.is_some(), options.tr_seconds),
    };
    let dropped_before = stated.as_ref().map_or(0, |(_, dropped)| *dropped);
    let tr_seconds = stated.map(|(tr, _)| tr).map_err(|problem| Rejection::of(&name, problem));
    // What lies beside files of another kind decides nothing.
    let beside = match kind {
        Kind::Tables => Companions { mask: None, confounds: None, ..run.beside },
        Kind::Images => {
            let mask = run.beside.mask.or_else(|| options.mask.clone());
            Companions { mask, coverage: None, ..run.beside }
        }
        Kind::Surfaces => Companions { mask: None, coverage: None, ..run.beside },
    };
    SourceFile { path, name, id: run.id, site: None, tr_seconds, kind, beside, space: run.space, dropped_before }
}

/// Entities that tell the derivatives of one run apart.
const OF_DERIVATIVES: [&str; 10] = ["desc", "space", "res", "den", "atlas", "seg", "stat", "cohort", "hash", "label"];

/// What the sidecars say: the repetition time, and frames dropped from the start. A series its maker has scrubbed without saying
/// which frames are left has no true times.
fn stated(
    tree: &Tree,
    file: &BidsFile,
    has_outliers: bool,
    given: Option<f64>,
) -> Result<(RepetitionTime, usize), Problem> {
    let unreadable = |e: crate::durable::FileError| Problem::new("sidecar", "JSON that can be read", e);
    let metadata = tree.metadata(file).map_err(unreadable)?;
    let number = |key: &str| metadata.get(key).and_then(as_number);
    let scrubbed = number("NumberOfVolumesDiscardedByMotionScrubbing").unwrap_or(0.0);
    if scrubbed > 0.0 && !has_outliers {
        let found = format_args!("{scrubbed} frames taken out and no table of them");
        return Err(Problem::new("frame times", "an outliers table beside a scrubbed series", found));
    }
    let dropped = number("NumberOfVolumesDiscardedByNonsteadyStatesDetector").unwrap_or(0.0);
    let dropped = if (0.0..1e6).contains(&dropped) { dropped as usize } else { 0 };
    // XCP-D writes the word TR as sampling frequency: the run's other sidecars, or headers, know the number.
    let stated = match repetition::in_sidecar(&metadata, given)? {
        None if file.name.suffix != "bold" => {
            let of_image = tree.metadata_as(file, "bold", &OF_DERIVATIVES).map_err(unreadable)?;
            of_image.get("RepetitionTime").and_then(as_number).or_else(|| time_in_headers(tree, file))
        }
        other => other,
    };
    Ok((RepetitionTime { stated, given, assumed: None }, dropped))
}

fn time_in_headers(tree: &Tree, file: &BidsFile) -> Option<f64> {
    let same = |f: &&BidsFile| {
        f.name.ending.contains(".nii")
            && ["bold", "timeseries"].contains(&f.name.suffix.as_str())
            && f.name.applies_to(&file.name, &OF_DERIVATIVES)
            && file.name.applies_to(&f.name, &OF_DERIVATIVES)
    };
    tree.beside(file).filter(same).find_map(|f| image_folder::header_time(&f.path))
}

fn asked_for(options: &IngestOptions) -> String {
    let asked = options.selection.asked().into_iter().filter(|asked| !asked.labels.is_empty());
    let asked = asked.map(|asked| format!("{} {}", asked.flag, asked.labels.join(" "))).collect::<Vec<_>>().join(", ");
    if asked.is_empty() { asked } else { format!(" for {asked}") }
}
