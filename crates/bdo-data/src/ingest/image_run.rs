//! Reading one image, or one surface file, into region series.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::raw::RawSeries;
use super::repetition::HeaderTime;
use super::table_run::order_by_name;
use super::{IngestPlan, SourceFile, files};
use crate::atlas::check_space;
use crate::atlas::image::{AtlasImage, RegionMap};
use crate::cifti::{self, CiftiLabels};
use crate::confound::{self, ConfoundTable, Confounds, Strategy};
use crate::nifti::NiftiReader;
use crate::parcellate::{LabelsMasker, MaskerOptions, NonFinite, RoiSeries};
use crate::problem::{Problem, ReadError, ensure};

/// How images become region series.
#[derive(Debug, Clone, Default)]
pub enum Parcellation {
    #[default]
    Done,
    /// A label image; images without a mask share what is worked out for their grid.
    Volume(Arc<AtlasImage>, Arc<Mutex<Vec<Arc<LabelsMasker>>>>),
    Surface(Arc<CiftiLabels>),
}

impl Parcellation {
    pub(super) fn map(&self) -> Option<&RegionMap> {
        match self {
            Self::Done => None,
            Self::Volume(atlas, _) => Some(&atlas.map),
            Self::Surface(atlas) => Some(&atlas.map),
        }
    }
}

pub(super) fn read_volume(plan: &IngestPlan, file: &SourceFile) -> Result<RawSeries, ReadError> {
    let Parcellation::Volume(atlas, maskers) = &plan.parcellation else {
        return Err(Problem::new("atlas", "a label image (--atlas)", "none").into());
    };
    check_space(file.space.as_deref(), atlas.space.as_deref())?;
    let image = NiftiReader::open(&file.path)?;
    let found = format_args!("sizes {:?}", image.header.dims);
    ensure(image.header.volumes() >= 2, "dimensions", "three of space and one of time", found)?;
    let options = masker_options(plan);
    let masker = if let Some(mask) = &file.beside.mask {
        let volume = NiftiReader::read_single(mask).map_err(|e| e.into_problem().of("brain mask"))?;
        Arc::new(LabelsMasker::new(atlas, &image, Some(&volume), &options)?)
    } else {
        let mut known = maskers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(masker) = known.iter().find(|m| m.fits(&image)) {
            masker.clone()
        } else {
            known.push(Arc::new(LabelsMasker::new(atlas, &image, None, &options)?));
            known[known.len() - 1].clone()
        }
    };
    plan.finish_image(file, masker.extract(image)?)
}

pub(super) fn read_surface(plan: &IngestPlan, file: &SourceFile) -> Result<RawSeries, ReadError> {
    let atlas = if let Parcellation::Surface(atlas) = &plan.parcellation { Some(atlas.as_ref()) } else { None };
    let (regions, mut series) = cifti::read_series(&file.path, atlas, &masker_options(plan))?;
    let names: Vec<&str> = regions.iter().map(|r| r.name.as_str()).collect();
    series.reorder(&order_by_name(&plan.regions, |r| &r.name, &names, "parcels")?);
    plan.finish_image(file, series)
}

/// The confounds that are to be regressed out; the series takes the motion of every frame where the table has it.
pub(super) fn take_confounds(
    strategy: Option<&Strategy>,
    path: Option<&Path>,
    raw: &mut RawSeries,
) -> Result<Option<Confounds>, Problem> {
    let Some(path) = path else {
        let expected = "a desc-confounds_timeseries.tsv beside the image";
        return ensure(strategy.is_none(), "confounds", expected, "none").map(|()| None);
    };
    let of_confounds = |e: ReadError| match e {
        ReadError::File(e) => Problem::new("confounds", "to be readable", e.system),
        other => other.into_problem().of("confounds"),
    };
    let table = ConfoundTable::read(path).map_err(of_confounds)?;
    let confounds = strategy.map(|s| confound::load(&table, s)).transpose().map_err(of_confounds)?;
    if let Some(motion) = table.framewise_displacement_mm() {
        let frames = raw.frame_numbers.len();
        let expected = format_args!("{frames} rows as the image has volumes");
        ensure(motion.len() == frames, "confounds", expected, motion.len())?;
        raw.framewise_displacement_mm = Some(motion);
    }
    Ok(confounds)
}

fn masker_options(plan: &IngestPlan) -> MaskerOptions {
    MaskerOptions {
        least_coverage: plan.recipe.coverage_threshold,
        assume_affine: plan.assume_affine,
        non_finite: NonFinite::LeftOut,
        ..MaskerOptions::default()
    }
}

impl IngestPlan {
    /// Remarks on what was odd, and the true numbers of the frames.
    fn finish_image(&self, file: &SourceFile, read: RoiSeries) -> Result<RawSeries, ReadError> {
        for warning in &read.warnings {
            self.remarks.add(warning.clone(), &files::name(&file.path));
        }
        let raw = RawSeries {
            regions: read.regions,
            values: read.series,
            frame_numbers: (0..read.frames).collect(),
            framewise_displacement_mm: None,
            coverage: read.coverage,
            header_time: read.tr_seconds.map(|value| HeaderTime { value, has_unit: read.tr_has_unit }),
            blake3: read.blake3,
        };
        Ok(raw.without_censored(&file.beside)?)
    }
}
