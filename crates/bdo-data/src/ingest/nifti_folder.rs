//! A folder of volume images into a plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::image_run::{ImageCompanions, Parcellation};
use super::plan::{Reading, SourceFile};
use super::recipe::Recipe;
use super::remarks::Remarks;
use super::sources::Sources;
use super::{
    Format, IngestError, IngestOptions, IngestPlan, RunTables, UNSTEADY_VOLUMES, files, identity, series_folder,
};
use crate::atlas::image::AtlasImage;
use crate::atlas::space_of_name;
use crate::cohort::Rejection;
use crate::nifti::Limits;
use crate::participants::Participants;

/// Parts of the names of images that are no series.
const NOT_SERIES: [&str; 9] =
    ["_mask", "_dseg", "_probseg", "_boldref", "_T1w", "_T2w", "_sbref", "anatomical", "_SBRef"];

pub(super) fn is_scan(path: &Path) -> bool {
    let name = files::name(path);
    let is_image = [".nii", ".nii.gz"].iter().any(|e| name.ends_with(e));
    let is_cifti = [".dtseries.nii", ".ptseries.nii", ".dlabel.nii", ".dscalar.nii", ".pconn.nii", ".dconn.nii"]
        .iter()
        .any(|e| name.strip_suffix(".gz").unwrap_or(&name).ends_with(e));
    is_image && !is_cifti && !NOT_SERIES.iter().any(|n| name.contains(n))
}

/// The label image of `--atlas`, with the names of `--labels` or of the table beside it.
pub(super) fn atlas(source: &Path, options: &IngestOptions) -> Result<AtlasImage, IngestError> {
    let path = options
        .atlas
        .as_ref()
        .ok_or_else(|| IngestError::source(source, "--atlas FILE to make region series of the images with", "none"))?;
    Ok(AtlasImage::read(path, options.labels.as_deref(), &Limits::default())?)
}

pub(super) fn plan(sources: &Sources, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let source = &sources.root;
    let atlas = atlas(source, options)?;
    let given = [options.atlas.as_ref(), options.mask.as_ref()];
    let is_given = |f: &Path| given.iter().flatten().any(|g| g.canonicalize().ok() == f.canonicalize().ok());
    let scans: Vec<&PathBuf> = sources.scans(|f| is_scan(f) && !is_given(f));
    if scans.is_empty() {
        return Err(IngestError::source(source, "images (.nii or .nii.gz), one a scan", "none"));
    }
    let recipe = Recipe::of(options.drop_volumes.unwrap_or(UNSTEADY_VOLUMES), &options.wishes);
    let mut warnings = atlas.warnings.clone();
    let (files, participants) = planned(sources, &scans, options, &mut warnings, |path| {
        let (confounds, space) = (confounds_beside(path), space_of_name(path));
        let mask = options.mask.clone().or_else(|| mask_of_feat(path));
        Reading::Volume(ImageCompanions { mask, confounds, space, run: run_tables_beside(path) })
    })?;
    Ok(IngestPlan {
        format: Format::Nifti,
        atlas_name: files::stem_of_image(&atlas.path),
        regions: atlas.regions.clone(),
        parcellation: Parcellation::Volume(Arc::new(atlas), Arc::default()),
        files,
        participants,
        recipe,
        assume_affine: options.assume_affine,
        source_dataset: None,
        tr_seconds: None,
        rejected: vec![],
        warnings,
        remarks: Remarks::default(),
    })
}

/// The images as files to read, one a scan, with their people and sites.
pub(super) fn planned(
    sources: &Sources,
    scans: &[&PathBuf],
    options: &IngestOptions,
    warnings: &mut Vec<String>,
    reading: impl Fn(&Path) -> Reading,
) -> Result<(Vec<SourceFile>, Participants), IngestError> {
    let mut planned = vec![];
    for chosen in sources.one_per_scan(scans, identity::of_image, warnings) {
        let name = files::relative(&sources.root, &chosen.path);
        let tr_seconds = match chosen.problem {
            Some(problem) => Err(Rejection::of(&name, problem)),
            None => series_folder::stated_time(&chosen.path, &name, options.tr_seconds),
        };
        let reading = reading(&chosen.path);
        planned.push(SourceFile { path: chosen.path, name, id: chosen.id, site: None, tr_seconds, reading });
    }
    let participants = series_folder::people(&sources.root, options)?;
    series_folder::site_from_table(&mut planned, &participants);
    Ok((planned, participants))
}

/// The mask of FEAT, in the space of the scanner as its series are; a series in standard space has another grid.
fn mask_of_feat(path: &Path) -> Option<PathBuf> {
    let standard = files::stem_of_image(path).ends_with("_stand");
    let folder = identity::feat_folder(path).filter(|_| !standard)?;
    ["mask.nii.gz", "mask.nii"].iter().map(|n| folder.join(n)).find(|m| m.is_file())
}

/// XCP-D's tables of the same run, by the entities of the name.
pub(super) fn run_tables_beside(path: &Path) -> RunTables {
    let name = files::name(path);
    let run = name.split('_').take_while(|part| {
        ["sub-", "ses-", "task-", "acq-", "ce-", "rec-", "dir-", "run-", "echo-"]
            .iter()
            .any(|key| part.starts_with(key))
    });
    let run = run.collect::<Vec<_>>().join("_");
    let beside =
        |what: &str| Some(path.with_file_name(format!("{run}_{what}.tsv"))).filter(|p| p.is_file() || p.is_symlink());
    if run.is_empty() {
        return RunTables::default();
    }
    RunTables { outliers: beside("outliers"), motion: beside("motion") }
}

/// A confound table of the same scan: the image's name up to its space, as fMRIPrep names them.
pub(super) fn confounds_beside(path: &Path) -> Option<PathBuf> {
    let stem = files::stem_of_image(path);
    let scan = stem.split("_space-").next()?.split("_desc-").next()?;
    let scan = scan.strip_suffix("_bold").unwrap_or(scan);
    let candidates = ["timeseries", "regressors"].map(|s| format!("{scan}_desc-confounds_{s}.tsv"));
    candidates.into_iter().map(|name| path.with_file_name(name)).find(|p| p.is_file())
}
