//! Masked reconstruction beside simple predictors on the same masks. Every scan is centred on its visible frames only:
//! the mean of a whole scan would carry what is hidden.

mod predictor;
mod score;
mod timing;

pub use predictor::{Predictor, kriging_variance};
pub use score::Score;
pub use timing::Timing;

use crate::autocorrelation::Autocorrelation;
use crate::mask::{MaskSettings, Visit};
use crate::step::{LossValues, number};
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::random::stream;
use bdo_data::scan::Scan;
use bdo_model::batch::{BatchError, MaskedBatch};
use bdo_model::dynamics::Frames;
use bdo_model::ema::EmaEncoder;
use bdo_model::model::Bdo;
use bdo_model::weights::{ContractError, PreprocessorConfig};
use burn::tensor::{Device, Tensor, TensorData};
use rand_chacha::rand_core::Rng;
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
    /// Frames that are left of a scan.
    pub timing: Timing,
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
    /// The terms of the training objective on the same visits, noise off; the latent target comes from the published
    /// encoder, as its moving average is not published.
    pub loss: LossValues,
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
#[derive(Clone, Debug, PartialEq)]
pub struct Masked {
    /// Since the clock of the visit began, increasing.
    pub times_seconds: Vec<f64>,
    /// Whether a row is visible.
    pub context: Vec<bool>,
    /// Row-major [rows, regions], in the units of the model, hidden rows included: what predictions are compared with.
    pub values: Vec<f32>,
    /// False at regions without a signal, whose values are 0.
    pub region_valid: Vec<bool>,
}

impl Evaluation<'_> {
    /// Scores the model and the simple predictors on one visit of every scan.
    pub fn run(&self, mask: &MaskSettings) -> Result<RatioResult, EvaluationError> {
        let names: Vec<String> = self.cohort.regions().iter().map(|r| r.name.clone()).collect();
        let columns = self.contract.match_regions(&names)?;
        let regions = columns.len();
        let mut tallies: Vec<Tally> = (0..=Predictor::ALL.len()).map(|_| Tally::new(regions)).collect();
        let (mut mean_square, mut scored) = (0.0, 0usize);
        let mut loss = LossValues::default();
        let teacher = EmaEncoder::new(&self.model.encoder);
        for &i in self.scans {
            let mut rng = stream("evaluation", &[self.seed, i as u64, mask.ratio.to_bits()]);
            let scan = self.cohort.scan(i)?;
            let Some(masked) = Masked::draw(&scan, &columns, self.contract, self.timing, mask, &mut rng) else {
                continue;
            };
            let predicted = self.predict(&masked)?;
            self.add_loss(&masked, &teacher, &mut loss)?;
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
            loss: loss.scaled(1.0 / scored.max(1) as f64),
            scores: labels.zip(tallies.iter().map(Tally::score)).collect(),
        })
    }

    fn predict(&self, masked: &Masked) -> Result<Vec<f32>, BatchError> {
        let predicted = self.model.reconstruct(&masked.series(), &masked.frames(), &masked.region_valid)?.series;
        Ok(predicted.into_data().try_to_vec::<f32>().expect("predictions are f32"))
    }

    /// Adds the terms of one visit.
    fn add_loss(&self, masked: &Masked, teacher: &EmaEncoder, sum: &mut LossValues) -> Result<(), BatchError> {
        let series = masked.series();
        let [_, frames, _] = series.dims();
        let quiet = Tensor::<3>::zeros([1, frames, self.model.config().width], &Device::flex());
        let batch = MaskedBatch {
            series,
            frames: masked.frames(),
            region_valid: masked.region_valid.clone(),
            latent_noise: quiet.clone(),
            process_noise: vec![quiet; self.model.config().loss.monte_carlo_samples],
            dropout_key: [0; 32],
        };
        let terms = self.model.train_pass(teacher, &batch, self.model.loss_weights())?.loss;
        sum.total += number(&terms.total);
        sum.energy += number(&terms.energy);
        sum.reconstruction += number(&terms.reconstruction);
        sum.latent += number(&terms.latent);
        Ok(())
    }
}

impl Masked {
    /// Draws a visit; `None` if no region is usable. `columns` says where each region of the model is in the data.
    pub fn draw(
        scan: &Scan,
        columns: &[usize],
        contract: &PreprocessorConfig,
        timing: Timing,
        mask: &MaskSettings,
        rng: &mut impl Rng,
    ) -> Option<Self> {
        let first = scan.frame_times_seconds[0];
        let kept = timing.kept(scan.frames(), rng);
        let times: Vec<f64> = kept.iter().map(|&frame| scan.frame_times_seconds[frame] - first).collect();
        let visit = Visit::draw(mask, &times, rng);
        let frames: Vec<usize> = visit.frames.iter().map(|&frame| kept[frame]).collect();
        let origin_seconds = first + visit.origin_seconds;
        Self::of_frames(scan, columns, contract, &frames, visit.context, origin_seconds)
    }

    /// The given frames of a scan, scaled by the contract around the mean of the visible ones.
    pub fn of_frames(
        scan: &Scan,
        columns: &[usize],
        contract: &PreprocessorConfig,
        frames: &[usize],
        context: Vec<bool>,
        origin_seconds: f64,
    ) -> Option<Self> {
        let width = scan.series.len() / scan.frames();
        let usable = scan.valid_regions();
        let region_valid: Vec<bool> =
            columns.iter().enumerate().map(|(r, &column)| usable[column] && contract.iqrs[r] > 0.0).collect();
        let visible: Vec<usize> = (0..frames.len()).filter(|&row| context[row]).collect();
        let mut values = vec![0.0; frames.len() * columns.len()];
        for (r, &column) in columns.iter().enumerate().filter(|(r, _)| region_valid[*r]) {
            let value = |row: usize| f64::from(scan.series[frames[row] * width + column]);
            let mean = visible.iter().map(|&row| value(row)).sum::<f64>() / visible.len().max(1) as f64;
            for row in 0..frames.len() {
                values[row * columns.len() + r] = ((value(row) - mean - contract.medians[r]) / contract.iqrs[r]) as f32;
            }
        }
        let times_seconds = frames.iter().map(|&frame| scan.frame_times_seconds[frame] - origin_seconds).collect();
        region_valid.contains(&true).then_some(Self { times_seconds, context, values, region_valid })
    }

    fn series(&self) -> Tensor<3> {
        let data = TensorData::new(self.values.clone(), [1, self.context.len(), self.region_valid.len()]);
        Tensor::from_data(data, &Device::flex())
    }

    fn frames(&self) -> Frames {
        Frames {
            batch: 1,
            frames: self.context.len(),
            times_seconds: self.times_seconds.clone(),
            context: self.context.clone(),
            valid: vec![true; self.context.len()],
        }
    }
}
