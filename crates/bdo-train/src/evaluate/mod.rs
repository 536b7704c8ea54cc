//! Masked reconstruction beside simple predictors on the same masks. Every scan is centred on its visible frames only:
//! the mean of a whole scan would carry what is hidden.

mod predictor;
mod score;

pub use predictor::Predictor;
pub use score::Score;

use crate::autocorrelation::Autocorrelation;
use crate::mask::{MaskSettings, Visit};
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::random::stream;
use bdo_data::scan::Scan;
use bdo_model::batch::BatchError;
use bdo_model::dynamics::Frames;
use bdo_model::model::Bdo;
use bdo_model::weights::{ContractError, PreprocessorConfig};
use burn::tensor::{Device, Tensor, TensorData};
use score::Tally;
use serde::Serialize;

/// What is evaluated on whom.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The model, outside any gradient tape.
    pub model: &'a Bdo,
    /// Its preprocessing contract.
    pub contract: &'a PreprocessorConfig,
    /// Of the training people, for kriging.
    pub autocorrelation: &'a Autocorrelation,
    /// The cohort.
    pub cohort: &'a Cohort,
    /// Scans of it.
    pub scans: &'a [usize],
    /// Seed of the masks.
    pub seed: u64,
}

/// What was found at one mask ratio.
#[derive(Clone, Debug, Serialize)]
pub struct RatioResult {
    /// Share of hidden frames.
    pub mask_ratio: f64,
    /// Scans scored.
    pub scans: usize,
    /// Mean square of the hidden values around the visible mean.
    pub mean_square: f64,
    /// One score for each predictor, the model first.
    pub scores: Vec<(&'static str, Score)>,
}

/// An evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The cohort cannot be read.
    #[error(transparent)]
    Cohort(#[from] CohortError),
    /// The cohort does not have the model's regions.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A scan does not fit the model.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// One visit, centred on what is visible: rows are drawn frames.
struct Masked {
    times_seconds: Vec<f64>,
    context: Vec<bool>,
    values: Vec<f32>,
    region_valid: Vec<bool>,
}

impl Evaluation<'_> {
    /// Scores the model and the simple predictors on one visit of every scan.
    pub fn run(&self, mask: &MaskSettings) -> Result<RatioResult, EvaluationError> {
        let names: Vec<String> = self.cohort.regions().iter().map(|r| r.name.clone()).collect();
        let columns = self.contract.match_regions(&names)?;
        let regions = columns.len();
        let mut tallies: Vec<Tally> = (0..=Predictor::ALL.len()).map(|_| Tally::new(regions)).collect();
        let (mut mean_square, mut scored) = (0.0, 0usize);
        for &i in self.scans {
            let Some(masked) = self.mask(&self.cohort.scan(i)?, &columns, mask, i as u64) else { continue };
            let predicted = self.predict(&masked)?;
            mean_square += tallies[0].add(&predicted, &masked);
            for (predictor, tally) in Predictor::ALL.iter().zip(&mut tallies[1..]) {
                tally.add(&predictor.predict(&masked, regions, self.autocorrelation), &masked);
            }
            scored += 1;
        }
        let labels = std::iter::once("model").chain(Predictor::ALL.iter().map(|p| p.name()));
        Ok(RatioResult {
            mask_ratio: mask.ratio,
            scans: scored,
            mean_square: mean_square / scored.max(1) as f64,
            scores: labels.zip(tallies.iter().map(Tally::score)).collect(),
        })
    }

    /// Draws a visit and scales it by the contract; `None` if no region is usable.
    fn mask(&self, scan: &Scan, columns: &[usize], mask: &MaskSettings, number: u64) -> Option<Masked> {
        let mut rng = stream("evaluation", &[self.seed, number, mask.ratio.to_bits()]);
        let first = scan.frame_times_seconds[0];
        let times: Vec<f64> = scan.frame_times_seconds.iter().map(|t| t - first).collect();
        let visit = Visit::draw(mask, &times, &mut rng);
        let width = scan.series.len() / scan.frames();
        let usable = scan.valid_regions();
        let contract = self.contract;
        let region_valid: Vec<bool> =
            columns.iter().enumerate().map(|(r, &column)| usable[column] && contract.iqrs[r] > 0.0).collect();
        let mut values = vec![0.0; visit.frames.len() * columns.len()];
        for (r, &column) in columns.iter().enumerate().filter(|(r, _)| region_valid[*r]) {
            let value = |row: usize| f64::from(scan.series[visit.frames[row] * width + column]);
            let visible: Vec<usize> = (0..visit.frames.len()).filter(|&row| visit.context[row]).collect();
            let mean = visible.iter().map(|&row| value(row)).sum::<f64>() / visible.len() as f64;
            for row in 0..visit.frames.len() {
                values[row * columns.len() + r] = ((value(row) - mean - contract.medians[r]) / contract.iqrs[r]) as f32;
            }
        }
        let times_seconds = visit.frames.iter().map(|&frame| times[frame]).collect();
        region_valid.contains(&true).then_some(Masked { times_seconds, context: visit.context, values, region_valid })
    }

    fn predict(&self, masked: &Masked) -> Result<Vec<f32>, BatchError> {
        let (frames, regions) = (masked.context.len(), masked.region_valid.len());
        let data = TensorData::new(masked.values.clone(), [1, frames, regions]);
        let series = Tensor::<3>::from_data(data, &Device::flex());
        let frames = Frames {
            batch: 1,
            frames,
            times_seconds: masked.times_seconds.clone(),
            context: masked.context.clone(),
            valid: vec![true; frames],
        };
        let predicted = self.model.reconstruct(&series, &frames, &masked.region_valid)?.series;
        Ok(predicted.into_data().try_to_vec::<f32>().expect("predictions are f32"))
    }
}
