//! A folder of volume images into a plan.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::image_run::{ImageCompanions, Parcellation};
use super::plan::{Reading, SourceFile};
use super::recipe::Recipe;
use super::{Format, IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, files, series_folder};
use crate::atlas::image::AtlasImage;
use crate::atlas::space_of_name;
use crate::nifti::Limits;
use crate::participants::Participants;

/// Parts of the names of images that are no series.
const NOT_SERIES: [&str; 8] = ["_mask", "_dseg", "_probseg", "_boldref", "_T1w", "_T2w", "_sbref", "anatomical"];

pub(super) fn is_scan(path: &Path) -> bool {
    let name = files::name(path);
    let is_image = [".nii", ".nii.gz"].iter().any(|e| name.ends_with(e));
    let is_cifti = [".dtseries.nii", ".ptseries.nii", ".dlabel.nii", ".dscalar.nii", ".pconn.nii", ".dconn.nii"]
        .iter()
        .any(|e| name.ends_with(e));
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

pub(super) fn plan(source: &Path, found: &[PathBuf], options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let atlas = atlas(source, options)?;
    let given = [options.atlas.as_ref(), options.mask.as_ref()];
    let is_given = |f: &Path| given.iter().flatten().any(|g| g.canonicalize().ok() == f.canonicalize().ok());
    let scans: Vec<&PathBuf> = found.iter().filter(|f| is_scan(f) && !is_given(f)).collect();
    if scans.is_empty() {
        return Err(IngestError::source(source, "images (.nii or .nii.gz), one a scan", "none"));
    }
    let recipe = Recipe::of(options.drop_volumes.unwrap_or(UNSTEADY_VOLUMES), &options.wishes);
    let (files, participants) = planned(source, &scans, options, |path| {
        let (confounds, space) = (confounds_beside(path), space_of_name(path));
        Reading::Volume(ImageCompanions { mask: options.mask.clone(), confounds, space })
    })?;
    Ok(IngestPlan {
        format: Format::Nifti,
        atlas_name: files::stem_of_image(&atlas.path),
        regions: atlas.regions.clone(),
        warnings: atlas.warnings.clone(),
        parcellation: Parcellation::Volume(Arc::new(atlas), Arc::default()),
        files,
        participants,
        recipe,
        assume_affine: options.assume_affine,
        source_dataset: None,
    })
}

/// The images below `source` as files to read, with their people and sites.
pub(super) fn planned(
    source: &Path,
    scans: &[&PathBuf],
    options: &IngestOptions,
    reading: impl Fn(&Path) -> Reading,
) -> Result<(Vec<SourceFile>, Participants), IngestError> {
    let file = |path: &&PathBuf| {
        let name = path.strip_prefix(source).unwrap_or(path);
        let name = if name.as_os_str().is_empty() { files::name(path) } else { name.to_string_lossy().into_owned() };
        SourceFile {
            path: (*path).clone(),
            tr_seconds: series_folder::stated_time(path, &name, options.tr_seconds),
            name,
            id: files::image_id(path),
            site: None,
            reading: reading(path),
        }
    };
    let mut planned: Vec<SourceFile> = scans.iter().map(file).collect();
    let participants = series_folder::people(source, options)?;
    series_folder::site_from_table(&mut planned, &participants);
    Ok((planned, participants))
}

/// A confound table of the same scan: the image's name up to its space, as fMRIPrep names them.
pub(super) fn confounds_beside(path: &Path) -> Option<PathBuf> {
    let stem = files::stem_of_image(path);
    let scan = stem.split("_space-").next()?.split("_desc-").next()?;
    let scan = scan.strip_suffix("_bold").unwrap_or(scan);
    let candidates = ["timeseries", "regressors"].map(|s| format!("{scan}_desc-confounds_{s}.tsv"));
    candidates.into_iter().map(|name| path.with_file_name(name)).find(|p| p.is_file())
}
