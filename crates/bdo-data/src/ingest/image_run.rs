//! Reading one image, or one surface file, into region series.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::raw::RawSeries;
use super::repetition::HeaderTime;
use super::{IngestPlan, SourceFile};
use crate::atlas::check_space;
use crate::atlas::image::AtlasImage;
use crate::cifti::{self, CiftiLabels};
use crate::confound::{self, ConfoundTable, Confounds};
use crate::nifti::{Limits, NiftiReader};
use crate::parcellate::{LabelsMasker, MaskerOptions, NonFinite, RoiSeries};
use crate::problem::{Problem, ReadError, ensure};
use crate::region::Region;

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
    pub(super) fn blake3(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Volume(atlas, _) => Some(&atlas.map.blake3),
            Self::Surface(atlas) => Some(&atlas.map.blake3),
        }
    }
}

pub(super) fn read_volume(plan: &IngestPlan, file: &SourceFile) -> Result<RawSeries, Problem> {
    let Parcellation::Volume(atlas, maskers) = &plan.parcellation else {
        return Err(Problem::new("atlas", "a label image (--atlas)", "none"));
    };
    check_space(file.space.as_deref(), atlas.space.as_deref())?;
    let limits = Limits::default();
    let image = NiftiReader::open(&file.path, &limits).map_err(ReadError::into_problem)?;
    let found = format_args!("sizes {:?}", image.header.dims);
    ensure(image.header.volumes() >= 2, "dimensions", "three of space and one of time", found)?;
    let options = masker_options(plan);
    let masker = if let Some(mask) = &file.beside.mask {
        let volume = NiftiReader::read_single(mask, &limits).map_err(|e| {
            let problem = e.into_problem();
            Problem { what: format!("brain mask: {}", problem.what), ..problem }
        })?;
        Arc::new(LabelsMasker::new(atlas, &image, Some((mask, &volume)), &options).map_err(ReadError::into_problem)?)
    } else {
        let mut known = maskers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(masker) = known.iter().find(|m| m.fits(&image)) {
            masker.clone()
        } else {
            known.push(Arc::new(LabelsMasker::new(atlas, &image, None, &options).map_err(ReadError::into_problem)?));
            known[known.len() - 1].clone()
        }
    };
    plan.finish_image(file, masker.extract(image).map_err(ReadError::into_problem)?)
}

pub(super) fn read_surface(plan: &IngestPlan, file: &SourceFile) -> Result<RawSeries, Problem> {
    let atlas = match &plan.parcellation {
        Parcellation::Surface(atlas) => Some(atlas.as_ref()),
        _ => None,
    };
    let read = cifti::read_series(&file.path, atlas, &masker_options(plan), &Limits::default());
    let read = read.map_err(ReadError::into_problem)?;
    let order = parcel_order(plan, &read.regions)?;
    let mut series = read.series;
    series.reorder(&order);
    plan.finish_image(file, series)
}

/// Which column of a file holds each region of the cohort, by name.
fn parcel_order(plan: &IngestPlan, found: &[Region]) -> Result<Vec<usize>, Problem> {
    let position: HashMap<&str, usize> = found.iter().enumerate().map(|(i, r)| (r.name.as_str(), i)).collect();
    let order: Vec<usize> = plan.regions.iter().filter_map(|r| position.get(r.name.as_str()).copied()).collect();
    if order.len() == plan.regions.len() && order.len() == found.len() {
        return Ok(order);
    }
    let missing = plan.regions.iter().find(|r| !position.contains_key(r.name.as_str()));
    let missing = missing.map_or_else(String::new, |r| format!(" without {}", r.name));
    let expected = format!("the {} regions of the cohort", plan.regions.len());
    Err(Problem::new("regions", expected, format!("{} parcels{missing}", found.len())))
}

/// The confounds the recipe asks for, and the motion of every frame where the table has it.
pub(super) fn read_confounds(
    plan: &IngestPlan,
    path: Option<&Path>,
) -> Result<(Option<Confounds>, Option<Vec<f32>>), Problem> {
    let Some(path) = path else {
        let expected = "a desc-confounds_timeseries.tsv beside the image";
        return ensure(plan.recipe.denoise.is_none(), "confounds", expected, "none").map(|()| (None, None));
    };
    let of_confounds = |e: ReadError| match e {
        ReadError::File(e) => Problem::new("confounds", "to be readable", e.system),
        ReadError::Content { problem, .. } | ReadError::Misfit(problem) => {
            Problem { what: format!("confounds: {}", problem.what), ..problem }
        }
    };
    let table = ConfoundTable::read(path).map_err(of_confounds)?;
    let strategy = plan.recipe.denoise.as_ref();
    let confounds = strategy.map(|s| confound::load(&table, s)).transpose().map_err(of_confounds)?;
    Ok((confounds, table.framewise_displacement_mm()))
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
    fn finish_image(&self, file: &SourceFile, read: RoiSeries) -> Result<RawSeries, Problem> {
        for warning in &read.warnings {
            self.remark(warning.clone(), &super::files::name(&file.path));
        }
        RawSeries {
            regions: read.regions,
            values: read.series,
            frame_numbers: (0..read.frames).collect(),
            framewise_displacement_mm: None,
            coverage: read.coverage,
            header_time: read.tr_seconds.map(|value| HeaderTime { value, has_unit: read.tr_has_unit }),
            blake3: read.blake3,
        }
        .without_censored(&file.beside)
    }
}
