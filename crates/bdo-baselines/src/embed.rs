//! The features of a token model: one vector per scan of a cohort.

use crate::brainlm::BrainLm;
use crate::pretrain::directory::{TokenConfig, TokenDirectory};
use crate::pretrain::model::{TokenModel, TrainedJepa};
use crate::pretrain::scans::{TokenScan, features, taken_in};
use crate::token::TokenShape;
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::shard::Shard;
use bdo_eval::error::EvalError;
use bdo_eval::features::{FeatureTable, ScanRow, TableOrigin};
use bdo_eval::predict::Trusting;
use bdo_model::frozen::model_blake3;
use bdo_model::intake::Intake;
use bdo_model::ops::Kernels;
use bdo_model::pooling::Pooling;
use burn::tensor::Device;
use std::path::Path;

/// Scans whose features are computed at once.
const FEATURE_BATCH: usize = 4;
/// Scans read at once.
const READ_BATCH: usize = 64;

/// Features of the scans of a cohort, or of a part of them. Those that are too short or have no region the model knows are passed
/// over.
pub fn embed(
    folder: &Path,
    cohort: &Cohort,
    (trusting, shard): (Trusting, Option<Shard>),
    device: &Device,
    observer: &dyn Observer,
) -> Result<FeatureTable, EvalError> {
    let mut directory = TokenDirectory::read(folder)?;
    trusting.apply(&mut directory.people, &mut directory.preprocessor);
    let scans: Vec<usize> = shard.map_or(0..cohort.len(), |shard| shard.range(cohort.len())).collect();
    let origin = TableOrigin { shard, ..TableOrigin::of(model_blake3(folder)?, cohort, Pooling::Mean)? };
    let table = table(&directory, cohort, &scans, origin, device, observer)?;
    if table.rows.is_empty() && shard.is_none() {
        let expected = format!("at least one scan of {} frames with a usable region", directory.config.grid().frames());
        return Err(EvalError::named(cohort.folder().display(), expected, "none"));
    }
    Ok(table)
}

/// Features of the given scans as a table.
pub(crate) fn table(
    directory: &TokenDirectory,
    cohort: &Cohort,
    scans: &[usize],
    origin: TableOrigin,
    device: &Device,
    observer: &dyn Observer,
) -> Result<FeatureTable, EvalError> {
    let rows = match &directory.config {
        TokenConfig::BrainLm(config) => rows::<BrainLm>(config, directory, cohort, scans, device, observer)?,
        TokenConfig::BrainJepa(config) => rows::<TrainedJepa>(config, directory, cohort, scans, device, observer)?,
    };
    let left_out = scans.iter().filter(|scan| rows.binary_search_by_key(scan, |(i, _)| i).is_err());
    let passed_over = left_out.map(|&i| cohort.index()[i].id.to_string()).collect();
    let entries = rows.iter().map(|(i, _)| ScanRow::of(&cohort.index()[*i])).collect();
    let values: Vec<f64> = rows.iter().flat_map(|(_, row)| row).map(|x| f64::from(*x)).collect();
    let table = FeatureTable::of_model(entries, values.len() / rows.len().max(1), values, origin)?;
    Ok(FeatureTable { passed_over, ..table })
}

/// Features with the numbers of their scans in the cohort.
fn rows<M: TokenModel>(
    config: &M::Config,
    directory: &TokenDirectory,
    cohort: &Cohort,
    scans: &[usize],
    device: &Device,
    observer: &dyn Observer,
) -> Result<Vec<(usize, Vec<f32>)>, EvalError> {
    let intake = Intake::new(&directory.preprocessor, cohort)?;
    // The same numbers on every machine up to rounding, so never in reduced precision.
    let model = M::of_parameters(config, directory.weights.clone(), Kernels::default(), device)?;
    let mut rows = Vec::with_capacity(scans.len());
    for some in scans.chunks(READ_BATCH) {
        for few in taken_in(cohort, some, &intake, config.grid())?.chunks(FEATURE_BATCH) {
            if observer.stop_requested() {
                return Err(EvalError::Interrupted);
            }
            let only: Vec<&TokenScan> = few.iter().map(|(_, scan)| scan).collect();
            rows.extend(few.iter().map(|(i, _)| *i).zip(features(&model, &only, FEATURE_BATCH)));
            observer.advance(rows.len(), 0);
        }
    }
    Ok(rows)
}
