//! Scans of a cohort that a grid fits on, as a token model sees them, and features of them.

use super::model::TokenModel;
use crate::brainjepa::{GRADIENTS, LEAST_WINDOWS};
use crate::token::diffusion_map::DiffusionMap;
use crate::token::grid::{Grid, PATCH, WINDOWS};
use crate::token::place::Places;
use crate::token::{TokenEncoder, TokenShape};
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::scaler::ScaledScan;
use bdo_eval::connectivity::pearson;
use bdo_eval::error::EvalError;
use bdo_model::device::of_module;
use bdo_model::intake::Intake;
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

/// Scans whose connectivity is held at once while a group's is summed.
const SUMMED_AT_ONCE: usize = 64;

/// A scan ready for a token model.
#[derive(Clone, Debug)]
pub struct TokenScan {
    pub scan: ScaledScan,
    pub tr_seconds: f64,
}

/// The largest grid that fits all scans of sixty-four frames or more, and what a reader must know about it. Only lengths are
/// looked at, so that people who are tested later may count.
pub fn grid_of(cohort: &Cohort) -> Result<(Grid, Vec<String>), EvalError> {
    let least = LEAST_WINDOWS * PATCH;
    let frames = || cohort.index().iter().map(|entry| entry.frames);
    let too_short = || EvalError::found(format!("scans of at least {least} frames"), "none");
    let shortest = frames().filter(|frames| *frames >= least).min().ok_or_else(too_short)?;
    let grid = Grid::for_frames(cohort.regions().len(), shortest).ok_or_else(too_short)?;
    let mut notes = Vec::new();
    let short = frames().filter(|frames| *frames < least).count();
    if short > 0 {
        notes.push(format!("{short} scans of fewer than {least} frames are left out"));
    }
    if grid.windows < WINDOWS {
        notes.push(format!(
            "the original takes {} frames; the shortest scan has {shortest}, so {} are taken",
            WINDOWS * PATCH,
            grid.frames()
        ));
    }
    Ok((grid, notes))
}

/// The given scans of a cohort as a trained model wants them, by their number in it; those that are too short or have no region
/// the model knows are not among them.
pub fn taken_in(
    cohort: &Cohort,
    scans: &[usize],
    intake: &Intake,
    grid: Grid,
) -> Result<Vec<(usize, TokenScan)>, CohortError> {
    let long: Vec<usize> = scans.iter().copied().filter(|i| cohort.index()[*i].frames >= grid.frames()).collect();
    let scans = long
        .par_iter()
        .map(|&i| {
            let scan = cohort.scan(i)?;
            Ok(intake.scale(&scan).map(|scaled| (i, TokenScan { scan: scaled, tr_seconds: scan.tr_seconds })))
        })
        .collect::<Result<Vec<_>, CohortError>>()?;
    Ok(scans.into_iter().flatten().collect())
}

/// Functional gradients of the mean correlation over the given scans.
pub fn group_gradients(cohort: &Cohort, scans: &[usize]) -> Result<Places, CohortError> {
    let n = cohort.regions().len();
    let mut sums = vec![0.0f64; n * n];
    for some in scans.chunks(SUMMED_AT_ONCE) {
        let matrices = some
            .par_iter()
            .map(|&i| {
                let scan = cohort.scan(i)?;
                Ok(pearson(&scan.series, n))
            })
            .collect::<Result<Vec<_>, CohortError>>()?;
        // Added up in order: sums of floating-point numbers depend on it.
        for matrix in matrices {
            sums.iter_mut().zip(matrix).for_each(|(sum, r)| *sum += f64::from(r));
        }
    }
    sums.iter_mut().for_each(|sum| *sum /= f64::max(scans.len() as f64, 1.0));
    Ok(Places::of_gradients(&DiffusionMap::of_connectivity(&sums, n, GRADIENTS)))
}

/// The patches that a feature of a scan is made from, row-major [tokens, 16].
pub fn feature_patches(config: &impl TokenShape, TokenScan { scan, tr_seconds }: &TokenScan) -> Vec<f32> {
    let (grid, frames) = (config.grid(), scan.times_seconds.len());
    grid.patches(scan, grid.middle_cut(frames, config.stride(frames, *tr_seconds)))
}

/// Features of scans, `batch_size` at a time: one row each.
pub fn features<M: TokenModel>(model: &M, scans: &[&TokenScan], batch_size: usize) -> Vec<Vec<f32>> {
    let (mut found, config, encoder) = (Vec::with_capacity(scans.len()), model.config(), model.encoder());
    let device = of_module(&encoder);
    for chunk in scans.chunks(batch_size.max(1)) {
        let values = chunk.iter().flat_map(|scan| feature_patches(config, scan)).collect();
        let feature = encoder.feature(patches(values, chunk.len(), config.grid(), &device));
        let width = feature.dims()[1];
        let values = feature.into_data().try_to_vec::<f32>().expect("features are f32");
        found.extend(values.chunks_exact(width).map(<[f32]>::to_vec));
    }
    found
}

pub(super) fn patches(values: Vec<f32>, samples: usize, grid: Grid, device: &Device) -> Tensor<3> {
    Tensor::from_data(TensorData::new(values, [samples, grid.tokens(), PATCH]), device)
}
