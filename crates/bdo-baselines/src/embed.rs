//! The features of a token model: one vector per scan of a cohort.

use crate::pretrain::directory::{TokenConfig, TokenDirectory};
use crate::pretrain::features::{TokenScan, features};
use crate::pretrain::model::{TokenModel, TrainedJepa, TrainedLm};
use crate::pretrain::scans::taken_in;
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
pub(crate) const FEATURE_BATCH: usize = 4;
/// Scans read at once.
const READ_BATCH: usize = 64;

/// A feature with the number of its scan in the cohort.
pub(crate) type Row = (usize, Vec<f32>);

/// What features are made of, and who looks on.
struct Work<'a> {
    directory: &'a TokenDirectory,
    cohort: &'a Cohort,
    scans: &'a [usize],
    device: &'a Device,
    observer: &'a dyn Observer,
}

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
    let work = Work { directory: &directory, cohort, scans: &scans, device, observer };
    let rows = match &directory.config {
        TokenConfig::BrainLm(config) => work.rows::<TrainedLm>(config)?,
        TokenConfig::BrainJepa(config) => work.rows::<TrainedJepa>(config)?,
    };
    if rows.is_empty() && shard.is_none() {
        let expected = format!("at least one scan of {} frames with a usable region", directory.config.grid().frames());
        return Err(EvalError::named(cohort.folder().display(), expected, "none"));
    }
    let origin = TableOrigin { shard, ..TableOrigin::of(model_blake3(folder)?, cohort, Pooling::Mean)? };
    let left_out = scans.iter().filter(|scan| rows.binary_search_by_key(scan, |(i, _)| i).is_err());
    let passed_over = left_out.map(|&i| cohort.index()[i].id.to_string()).collect();
    Ok(FeatureTable { passed_over, ..table(&rows, cohort, origin)? })
}

impl Work<'_> {
    fn rows<M: TokenModel>(&self, config: &M::Config) -> Result<Vec<Row>, EvalError> {
        let Self { directory, cohort, scans, device, observer } = self;
        let intake = Intake::new(&directory.preprocessor, cohort)?;
        let (places, weights) = (directory.places.clone(), directory.weights.clone());
        // The same numbers on every machine up to rounding, so never in reduced precision.
        let model = M::of_parameters(config, places, weights, Kernels::default(), device)?;
        let (mut rows, mut seen) = (Vec::with_capacity(scans.len()), 0);
        for some in scans.chunks(READ_BATCH) {
            for few in taken_in(cohort, some, &intake, directory.config.grid())?.chunks(FEATURE_BATCH) {
                if observer.stop_requested() {
                    return Err(EvalError::Interrupted);
                }
                rows.extend(rows_of(&model, few));
                observer.advance(seen + few.len(), 0);
                seen += few.len();
            }
        }
        Ok(rows)
    }
}

/// Features of scans that were taken in.
pub(crate) fn rows_of<M: TokenModel>(model: &M, scans: &[(usize, TokenScan)]) -> Vec<Row> {
    let only: Vec<&TokenScan> = scans.iter().map(|(_, scan)| scan).collect();
    scans.iter().map(|(i, _)| *i).zip(features(model, &only, FEATURE_BATCH)).collect()
}

/// Features as a table.
pub(crate) fn table(rows: &[Row], cohort: &Cohort, origin: TableOrigin) -> Result<FeatureTable, EvalError> {
    let entries = rows.iter().map(|(i, _)| ScanRow::of(&cohort.index()[*i])).collect();
    let values: Vec<f64> = rows.iter().flat_map(|(_, row)| row).map(|x| f64::from(*x)).collect();
    FeatureTable::of_model(entries, values.len() / rows.len().max(1), values, origin)
}
