//! Masked reconstruction beside simple predictors on the same masks. Every scan is centred on its visible frames only:
//! the mean of a whole scan would carry what is hidden.

mod predictor;
mod score;

pub use predictor::{Predictor, kriging_variance};
pub use score::{Score, pearson};

use crate::bdo::loss_of;
use bdo_data::cohort::Cohort;
use bdo_data::random::stream;
use bdo_data::record::Loss;
use bdo_model::autocorrelation::Autocorrelation;
use bdo_model::batch::{BatchError, MaskedBatch};
use bdo_model::ema::EmaEncoder;
use bdo_model::error::ModelError;
use bdo_model::intake::{Intake, MaskSettings, Masked, Timing};
use bdo_model::model::Bdo;
use bdo_model::weights::PreprocessorConfig;
use burn::tensor::Tensor;
use score::Tally;
use serde::Serialize;

/// A model, and the scans it is evaluated on.
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

/// Scores at one mask ratio.
#[derive(Clone, Debug, Serialize)]
pub struct RatioResult {
    /// Share of hidden frames.
    pub mask_ratio: f64,
    /// Scans scored, in the order of `Score::relative`.
    pub scans: Vec<usize>,
    /// Mean square of the hidden values around the visible mean.
    pub mean_square: f64,
    /// The terms of the training objective on the same visits, noise off; the latent target comes from the published
    /// encoder, as its moving average is not published.
    pub loss: Loss,
    /// One score for each predictor, the model first.
    pub scores: Vec<(&'static str, Score)>,
}

impl RatioResult {
    /// The score of the model, or of a predictor by its name.
    pub fn score(&self, name: &str) -> Option<&Score> {
        self.scores.iter().find(|(found, _)| *found == name).map(|(_, score)| score)
    }
}

impl Evaluation<'_> {
    /// Scores the model and the simple predictors on one visit of every scan.
    pub fn run(&self, mask: &MaskSettings) -> Result<RatioResult, ModelError> {
        let intake = Intake::new(self.contract, self.cohort)?;
        let regions = intake.regions();
        let mut tallies: Vec<Tally> = (0..=Predictor::ALL.len()).map(|_| Tally::new(regions)).collect();
        let (mut mean_square, mut scored) = (0.0, vec![]);
        let mut loss = Loss::default();
        let teacher = EmaEncoder::new(&self.model.encoder);
        for &i in self.scans {
            let mut rng = stream("evaluation", &[self.seed, i as u64, mask.ratio.to_bits()]);
            let scan = self.cohort.scan(i)?;
            let Some(masked) = intake.draw(&scan, self.timing, mask, &mut rng) else {
                continue;
            };
            let predicted = self.predict(&masked)?;
            self.add_loss(&masked, &teacher, &mut loss)?;
            mean_square += tallies[0].add(&predicted, &masked);
            for (predictor, tally) in Predictor::ALL.iter().zip(&mut tallies[1..]) {
                tally.add(&predictor.predict(&masked, regions, self.autocorrelation), &masked);
            }
            scored.push(i);
        }
        let labels = std::iter::once("model").chain(Predictor::ALL.iter().map(|p| p.name()));
        Ok(RatioResult {
            mask_ratio: mask.ratio,
            mean_square: mean_square / scored.len().max(1) as f64,
            loss: loss.scaled(1.0 / scored.len().max(1) as f64),
            scans: scored,
            scores: labels.zip(tallies.iter().map(Tally::score)).collect(),
        })
    }

    fn predict(&self, masked: &Masked) -> Result<Vec<f32>, BatchError> {
        let (series, frames, region_valid) = masked.batch().on(&self.model.device());
        let predicted = self.model.reconstruct(&series, &frames, &region_valid)?.series;
        Ok(predicted.into_data().try_to_vec::<f32>().expect("predictions are f32"))
    }

    /// Adds the terms of one visit.
    fn add_loss(&self, masked: &Masked, teacher: &EmaEncoder, sum: &mut Loss) -> Result<(), BatchError> {
        let (series, frames, region_valid) = masked.batch().on(&self.model.device());
        let quiet = Tensor::<3>::zeros([1, frames.frames, self.model.config().width], &self.model.device());
        let batch = MaskedBatch {
            kin: Vec::new(),
            series,
            frames,
            region_valid,
            latent_noise: quiet.clone(),
            process_noise: vec![quiet; self.model.config().loss.monte_carlo_samples],
            dropout_key: [0; 32],
        };
        sum.add(&loss_of(&self.model.train_pass(teacher, &batch, self.model.loss_weights())?));
        Ok(())
    }
}
