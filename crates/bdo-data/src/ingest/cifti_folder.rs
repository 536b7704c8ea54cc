//! A folder of CIFTI series into a plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::columns::{self, Columns};
use super::image_run::{ImageCompanions, Parcellation};
use super::plan::Reading;
use super::recipe::Recipe;
use super::remarks::Remarks;
use super::sources::Sources;
use super::{Format, IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, files, nifti_folder};
use crate::cifti::{self, Axis, CiftiFile, CiftiLabels};
use crate::nifti::{Limits, NiftiReader};
use crate::parcellate::MaskerOptions;
use crate::region::Region;

pub(super) fn is_scan(path: &Path) -> bool {
    is_dense(path) || is_of(path, ".ptseries.nii")
}

fn is_dense(path: &Path) -> bool {
    is_of(path, ".dtseries.nii")
}

fn is_of(path: &Path, ending: &str) -> bool {
    let name = files::name(path);
    name.strip_suffix(".gz").unwrap_or(&name).ends_with(ending)
}

pub(super) fn plan(sources: &Sources, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let source = &sources.root;
    // With labels of grey matter, dense series are meant; without, parcels.
    let mut scans: Vec<&PathBuf> = sources.scans(is_scan);
    if scans.iter().any(|s| is_dense(s) == options.atlas.is_some()) {
        scans.retain(|s| is_dense(s) == options.atlas.is_some());
    }
    let Some(first) = scans.first() else {
        return Err(IngestError::source(source, "CIFTI series (.dtseries.nii or .ptseries.nii), one a scan", "none"));
    };
    let dense = is_dense(first);
    let mut parcellation = Parcellation::Done;
    let mut warnings = vec![];
    let (atlas_name, regions) = match &options.atlas {
        Some(path) => {
            let atlas = CiftiLabels::read(path, &Limits::default())?;
            warnings.extend(atlas.warnings.clone());
            let named = (files::stem_of_image(path), atlas.regions.clone());
            parcellation = Parcellation::Surface(Arc::new(atlas));
            named
        }
        None if dense => {
            return Err(IngestError::source(source, "--atlas FILE.dlabel.nii to make parcels of dense series", "none"));
        }
        None => regions_of_parcels(source, &scans)?,
    };
    let default_dropped = default_dropped(dense);
    let (files, participants) = nifti_folder::planned(sources, &scans, options, &mut warnings, |path| {
        let confounds = nifti_folder::confounds_beside(path);
        Reading::Surface(ImageCompanions {
            mask: None,
            confounds,
            space: None,
            run: nifti_folder::run_tables_beside(path),
        })
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
        tr_seconds: None,
        rejected: vec![],
        warnings,
        remarks: Remarks::default(),
    })
}

/// The repetition time in the header of a CIFTI file or image, where it has a unit.
pub(super) fn header_time(path: &Path) -> Option<f64> {
    let limits = Limits::default();
    if is_scan(path) {
        return CiftiFile::open(path, &limits).ok()?.axes().iter().find_map(|axis| match axis {
            Axis::Series { step_seconds, .. } => *step_seconds,
            _ => None,
        });
    }
    let image = NiftiReader::open(path, &limits).ok()?;
    image.tr_seconds().filter(|_| image.header().has_unit_of_time())
}

/// Volumes dropped unless the user says otherwise. Parcels were extracted elsewhere, where unsteady volumes are usually taken
/// out; dense series are images.
pub(super) fn default_dropped(dense: bool) -> usize {
    if dense { UNSTEADY_VOLUMES } else { 0 }
}

/// Names of the parcels that most files have; the others are compared with them when they are read.
pub(super) fn regions_of_parcels(source: &Path, scans: &[&PathBuf]) -> Result<(String, Vec<Region>), IngestError> {
    let (_, regions) = columns::most_common(source, scans, |path| {
        let read = cifti::read_series(path, None, &MaskerOptions::default(), &Limits::default())?;
        Ok((Columns::named(read.regions.iter().map(|r| r.name.clone())), read.regions))
    })?;
    Ok(("parcels".into(), regions))
}
