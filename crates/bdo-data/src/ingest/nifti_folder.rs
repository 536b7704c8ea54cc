//! A folder of volume images into a plan.

use std::path::{Path, PathBuf};

use super::plan::Reading;
use super::recipe::Recipe;
use super::sources::Sources;
use super::{IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, files, identity, series_folder};
use crate::atlas::image::AtlasImage;
use crate::atlas::space_of_name;
use crate::bids::Companions;
use crate::nifti::Limits;

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
    let scans = sources.scans_but(is_scan, [options.atlas.as_ref(), options.mask.as_ref()]);
    if scans.is_empty() {
        return Err(IngestError::source(source, "images (.nii or .nii.gz), one a scan", "none"));
    }
    let mut plan = IngestPlan {
        recipe: Recipe::of(options.drop_volumes.unwrap_or(UNSTEADY_VOLUMES), &options.wishes),
        participants: series_folder::people(source, options)?,
        ..IngestPlan::default()
    };
    plan.take_image(atlas);
    plan.files = sources.planned(&scans, Reading::Volume, identity::of_image, options, &mut plan.warnings);
    for file in &mut plan.files {
        file.space = space_of_name(&file.path);
        file.beside = companions(&file.path);
        file.beside.mask = options.mask.clone().or_else(|| mask_of_feat(&file.path));
    }
    Ok(plan)
}

/// The mask of FEAT, in the space of the scanner as its series are; a series in standard space has another grid.
fn mask_of_feat(path: &Path) -> Option<PathBuf> {
    let standard = files::stem_of_image(path).ends_with("_stand");
    let folder = identity::feat_folder(path).filter(|_| !standard)?;
    ["mask.nii.gz", "mask.nii"].iter().map(|n| folder.join(n)).find(|m| m.is_file())
}

/// XCP-D's tables of the same run, by the entities of the name, and fMRIPrep's confounds, by the name up to its space.
pub(super) fn companions(path: &Path) -> Companions {
    let keys = ["sub-", "ses-", "task-", "acq-", "ce-", "rec-", "dir-", "run-", "echo-"];
    let name = files::name(path);
    let run: Vec<&str> = name.split('_').take_while(|part| keys.iter().any(|key| part.starts_with(key))).collect();
    let beside = |what: &str| {
        let table = path.with_file_name(format!("{}_{what}.tsv", run.join("_")));
        (!run.is_empty() && (table.is_file() || table.is_symlink())).then_some(table)
    };
    let stem = files::stem_of_image(path);
    let scan = stem.split("_space-").next().unwrap_or_default().split("_desc-").next().unwrap_or_default();
    let scan = scan.strip_suffix("_bold").unwrap_or(scan);
    let confounds = ["timeseries", "regressors"].map(|s| path.with_file_name(format!("{scan}_desc-confounds_{s}.tsv")));
    Companions {
        outliers: beside("outliers"),
        motion: beside("motion"),
        confounds: confounds.into_iter().find(|p| p.is_file()),
        ..Companions::default()
    }
}
