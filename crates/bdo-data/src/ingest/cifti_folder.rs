//! A folder of CIFTI series into a plan.

use std::path::{Path, PathBuf};

use super::columns::{self, Columns};
use super::plan::Reading;
use super::recipe::Recipe;
use super::sources::Sources;
use super::{IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, files, identity, nifti_folder, series_folder};
use crate::cifti::{self, Axis, CiftiFile};
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
    let mut plan = IngestPlan {
        recipe: Recipe::of(options.drop_volumes.unwrap_or(default_dropped(dense)), &options.wishes),
        participants: series_folder::people(source, options)?,
        ..IngestPlan::default()
    };
    match &options.atlas {
        Some(path) => plan.take_surface(path)?,
        None if dense => {
            return Err(IngestError::source(source, "--atlas FILE.dlabel.nii to make parcels of dense series", "none"));
        }
        None => (plan.atlas_name, plan.regions) = ("parcels".into(), regions_of_parcels(source, &scans)?),
    }
    plan.files = sources.planned(&scans, Reading::Surface, identity::of_image, options, &mut plan.warnings);
    for file in &mut plan.files {
        file.beside = nifti_folder::companions(&file.path);
    }
    Ok(plan)
}

pub(super) fn header_time(path: &Path) -> Option<f64> {
    let limits = Limits::default();
    if is_scan(path) {
        return CiftiFile::open(path, &limits).ok()?.axes().iter().find_map(|axis| match axis {
            Axis::Series { step_seconds, .. } => *step_seconds,
            _ => None,
        });
    }
    let image = NiftiReader::open(path, &limits).ok()?;
    image.header.tr_seconds().filter(|_| image.header.has_unit_of_time())
}

/// Volumes dropped unless the user says otherwise. Parcels were extracted elsewhere, where unsteady volumes are usually taken
/// out; dense series are images.
pub(super) fn default_dropped(dense: bool) -> usize {
    if dense { UNSTEADY_VOLUMES } else { 0 }
}

/// Names of the parcels that most files have; the others are compared with them when they are read.
pub(super) fn regions_of_parcels(source: &Path, scans: &[&PathBuf]) -> Result<Vec<Region>, IngestError> {
    let (_, regions) = columns::most_common(source, scans, |path| {
        let read = cifti::read_series(path, None, &MaskerOptions::default(), &Limits::default())?;
        Ok((Columns::named(read.regions.iter().map(|r| r.name.clone())), read.regions))
    })?;
    Ok(regions)
}
