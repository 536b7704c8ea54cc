//! A folder of volume images, or of CIFTI series, into a plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::columns;
use super::sources::Sources;
use super::{IngestError, IngestOptions, IngestPlan, Parcellation, UNSTEADY_VOLUMES, files, identity, series_folder};
use crate::atlas::image::AtlasImage;
use crate::atlas::space_of_name;
use crate::bids::{Companions, Kind};
use crate::cifti::{self, CiftiFile, CiftiLabels};
use crate::nifti::NiftiReader;
use crate::parcellate::MaskerOptions;
use crate::region::Region;

const NOT_SERIES: [&str; 9] =
    ["_mask", "_dseg", "_probseg", "_boldref", "_T1w", "_T2w", "_sbref", "anatomical", "_SBRef"];

/// Whether a file name ends so, gzipped or not.
fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let name = files::name(path);
    endings.iter().any(|ending| name.strip_suffix(".gz").unwrap_or(&name).ends_with(ending))
}

pub(super) fn is_volume(path: &Path) -> bool {
    let of_cifti = [".dtseries.nii", ".ptseries.nii", ".dlabel.nii", ".dscalar.nii", ".pconn.nii", ".dconn.nii"];
    let name = files::name(path);
    ends_with(path, &[".nii"]) && !ends_with(path, &of_cifti) && !NOT_SERIES.iter().any(|n| name.contains(n))
}

pub(super) fn is_surface(path: &Path) -> bool {
    is_dense(path) || ends_with(path, &[".ptseries.nii"])
}

fn is_dense(path: &Path) -> bool {
    ends_with(path, &[".dtseries.nii"])
}

/// The label image of `--atlas`, with the names of `--labels` or of the table beside it.
pub(super) fn atlas(source: &Path, options: &IngestOptions) -> Result<AtlasImage, IngestError> {
    let absent = || IngestError::source(source, "--atlas FILE to make region series of the images with", "none");
    Ok(AtlasImage::read(options.atlas.as_ref().ok_or_else(absent)?, options.labels.as_deref())?)
}

pub(super) fn plan_volumes(sources: &Sources, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let source = &sources.root;
    let atlas = atlas(source, options)?;
    let scans = sources.scans_but(is_volume, &[&options.atlas, &options.mask]);
    if scans.is_empty() {
        return Err(IngestError::source(source, "images (.nii or .nii.gz), one a scan", "none"));
    }
    let mut plan = IngestPlan::new(series_folder::people(source, options)?, UNSTEADY_VOLUMES, options);
    plan.take(Parcellation::Volume(Arc::new(atlas), Arc::default()));
    plan.files = sources.planned(&scans, Kind::Images, identity::of_image, options, &mut plan.warnings);
    for file in &mut plan.files {
        file.space = space_of_name(&file.path);
        file.beside = companions(&file.path);
        file.beside.mask = options.mask.clone().or_else(|| mask_of_feat(&file.path));
    }
    Ok(plan)
}

pub(super) fn plan_surfaces(sources: &Sources, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let source = &sources.root;
    // With labels of grey matter, dense series are meant; without, parcels.
    let mut scans: Vec<&PathBuf> = sources.scans(is_surface);
    if scans.iter().any(|s| is_dense(s) == options.atlas.is_some()) {
        scans.retain(|s| is_dense(s) == options.atlas.is_some());
    }
    let Some(first) = scans.first() else {
        return Err(IngestError::source(source, "CIFTI series (.dtseries.nii or .ptseries.nii), one a scan", "none"));
    };
    let dense = is_dense(first);
    let mut plan = IngestPlan::new(series_folder::people(source, options)?, usual_drop_of_surfaces(dense), options);
    match &options.atlas {
        Some(path) => plan.take(Parcellation::Surface(Arc::new(CiftiLabels::read(path)?))),
        None if dense => {
            return Err(IngestError::source(source, "--atlas FILE.dlabel.nii to make parcels of dense series", "none"));
        }
        None => (plan.atlas_name, plan.regions) = ("parcels".into(), regions_of_parcels(source, &scans)?),
    }
    plan.files = sources.planned(&scans, Kind::Surfaces, identity::of_image, options, &mut plan.warnings);
    for file in &mut plan.files {
        file.beside = companions(&file.path);
    }
    Ok(plan)
}

/// Parcels were extracted elsewhere, where unsteady volumes are usually taken out; dense series are images.
pub(super) fn usual_drop_of_surfaces(dense: bool) -> usize {
    if dense { UNSTEADY_VOLUMES } else { 0 }
}

/// Names of the parcels that most files have; the others are compared with them when they are read.
pub(super) fn regions_of_parcels(source: &Path, scans: &[&PathBuf]) -> Result<Vec<Region>, IngestError> {
    let (_, regions) = columns::most_common(source, scans, |path| {
        let (regions, _) = cifti::read_series(path, None, &MaskerOptions::default())?;
        Ok(((regions.len(), regions.iter().map(|r| r.name.clone()).collect()), regions))
    })?;
    Ok(regions)
}

/// The repetition time a header states.
pub(super) fn header_time(path: &Path) -> Option<f64> {
    if is_surface(path) {
        return CiftiFile::open(path).ok()?.step_seconds();
    }
    let image = NiftiReader::open(path).ok()?;
    image.header.tr_seconds().filter(|_| image.header.has_unit_of_time())
}

/// The mask of FEAT, in the space of the scanner as its series are; a series in standard space has another grid.
fn mask_of_feat(path: &Path) -> Option<PathBuf> {
    let standard = files::stem_of_image(path).ends_with("_stand");
    let folder = identity::feat_folder(path).filter(|_| !standard)?;
    ["mask.nii.gz", "mask.nii"].iter().map(|n| folder.join(n)).find(|m| m.is_file())
}

/// XCP-D's tables of the same run, by the entities of the name, and fMRIPrep's confounds, by the name up to its space.
fn companions(path: &Path) -> Companions {
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
