//! A folder of CIFTI series into a plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::image_run::{ImageCompanions, Parcellation};
use super::plan::Reading;
use super::recipe::Recipe;
use super::{Format, IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, files, nifti_folder};
use crate::cifti::{self, CiftiLabels};
use crate::nifti::Limits;
use crate::parcellate::MaskerOptions;
use crate::problem::ReadError;
use crate::region::Region;

pub(super) fn is_scan(path: &Path) -> bool {
    is_dense(path) || files::name(path).ends_with(".ptseries.nii")
}

fn is_dense(path: &Path) -> bool {
    files::name(path).ends_with(".dtseries.nii")
}

pub(super) fn plan(source: &Path, found: &[PathBuf], options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let scans: Vec<&PathBuf> = found.iter().filter(|f| is_scan(f)).collect();
    let Some(first) = scans.first() else {
        return Err(IngestError::source(source, "CIFTI series (.dtseries.nii or .ptseries.nii), one a scan", "none"));
    };
    let dense = is_dense(first);
    if let Some(other) = scans.iter().find(|s| is_dense(s) != dense) {
        return Err(IngestError::source(other, "dense or parcellated series, not both in a cohort", "both"));
    }
    let mut parcellation = Parcellation::Done;
    let (atlas_name, regions) = match &options.atlas {
        Some(path) => {
            let atlas = CiftiLabels::read(path, &Limits::default())?;
            let named = (files::stem_of_image(path), atlas.regions.clone());
            parcellation = Parcellation::Surface(Arc::new(atlas));
            named
        }
        None if dense => {
            return Err(IngestError::source(source, "--atlas FILE.dlabel.nii to make parcels of dense series", "none"));
        }
        None => regions_of_parcels(source, &scans)?,
    };
    // Parcels were extracted elsewhere, where unsteady volumes are usually taken out; dense series are images.
    let default_dropped = if dense { UNSTEADY_VOLUMES } else { 0 };
    let (files, participants) = nifti_folder::planned(source, &scans, options, |path| {
        let confounds = nifti_folder::confounds_beside(path);
        Reading::Surface(ImageCompanions { mask: None, confounds, space: None })
    })?;
    Ok(IngestPlan {
        format: Format::Cifti,
        atlas_name,
        parcellation,
        regions,
        files,
        participants,
        recipe: Recipe::of(options.drop_volumes.unwrap_or(default_dropped), &options.wishes),
        assume_affine: options.assume_affine,
        source_dataset: None,
        warnings: vec![],
    })
}

/// Names of the parcels of the first file that can be read; the others are compared with it when they are read.
pub(super) fn regions_of_parcels(source: &Path, scans: &[&PathBuf]) -> Result<(String, Vec<Region>), IngestError> {
    let mut first_error: Option<ReadError> = None;
    for path in scans {
        match cifti::read_series(path, None, &MaskerOptions::default(), &Limits::default()) {
            Ok(read) => return Ok(("parcels".into(), read.regions)),
            Err(e) => {
                first_error.get_or_insert(e);
            }
        }
    }
    Err(first_error.map_or_else(|| IngestError::source(source, "a readable parcellated series", "none"), Into::into))
}
