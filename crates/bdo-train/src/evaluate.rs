//! Masked reconstruction beside simple predictors on the same masks. Every scan is centred on its visible frames only:
//! the mean of a whole scan would carry what is hidden.

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
use serde::Serialize;

/// A model, and the scans it is evaluated on.
#[derive(Debug)]
pub struct Evaluation<'a> {
    pub model: &'a Bdo,
    pub contract: &'a PreprocessorConfig,
    /// Of the training people, for kriging.
    pub autocorrelation: &'a Autocorrelation,
    pub cohort: &'a Cohort,
    pub scans: &'a [usize],
    pub seed: u64,
    /// Frames that are left of a scan.
    pub timing: Timing,
}

/// Scores at one mask ratio.
#[derive(Clone, Debug, Serialize)]
pub struct RatioResult {
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
            let predicted = self.predict(&masked, &teacher, &mut loss)?;
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

    /// The predictions of one visit, whose terms are added to a sum.
    fn predict(&self, masked: &Masked, teacher: &EmaEncoder, sum: &mut Loss) -> Result<Vec<f32>, BatchError> {
        let (series, frames, region_valid) = masked.batch().on(&self.model.device());
        let predicted = self.model.reconstruct(&series, &frames, &region_valid)?.series;
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
        Ok(predicted.into_data().try_to_vec::<f32>().expect("predictions are f32"))
    }
}

/// A simple way to fill hidden frames, which knows nothing of the other regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predictor {
    /// The line between the visible frames on both sides; the nearest one at the ends.
    Interpolation,
    /// The last visible frame; the first one before it.
    Hold,
    /// The mean of the visible frames.
    Mean,
    /// The best linear combination of the visible frames under the training people's autocorrelation.
    Kriging,
}

impl Predictor {
    pub const ALL: [Self; 4] = [Self::Interpolation, Self::Hold, Self::Mean, Self::Kriging];

    pub fn name(self) -> &'static str {
        match self {
            Self::Interpolation => "interpolation",
            Self::Hold => "hold",
            Self::Mean => "mean",
            Self::Kriging => "kriging",
        }
    }

    /// Row-major predictions for every row, as weighted sums of visible rows.
    pub fn predict(self, masked: &Masked, regions: usize, correlation: &Autocorrelation) -> Vec<f32> {
        let visible: Vec<usize> = (0..masked.context.len()).filter(|&row| masked.context[row]).collect();
        let times: Vec<f64> = visible.iter().map(|&row| masked.times_seconds[row]).collect();
        let count = visible.len();
        let kriging = (self == Self::Kriging).then(|| correlation.kriging(&times, &masked.times_seconds));
        let mut out = vec![0.0f32; masked.values.len()];
        for (row, &now) in masked.times_seconds.iter().enumerate() {
            let after = times.partition_point(|t| *t <= now);
            let mut weights = vec![0.0; count];
            match self {
                Self::Hold => weights[after.saturating_sub(1)] = 1.0,
                Self::Mean => weights.fill(1.0 / count as f64),
                Self::Interpolation => match (after.checked_sub(1), after < count) {
                    (Some(before), true) => {
                        let share = (now - times[before]) / (times[after] - times[before]);
                        weights[before] = 1.0 - share;
                        weights[after] = share;
                    }
                    (Some(before), false) => weights[before] = 1.0,
                    (None, _) => weights[0] = 1.0,
                },
                Self::Kriging => {
                    weights = kriging.iter().flat_map(|found| (0..count).map(|i| found[(i, row)])).collect();
                    // Around the visible mean: what the weights leave over belongs to it.
                    let rest = (1.0 - weights.iter().sum::<f64>()) / count as f64;
                    weights.iter_mut().for_each(|w| *w += rest);
                }
            }
            let sum = &mut out[row * regions..(row + 1) * regions];
            for (weight, &from) in weights.iter().zip(&visible).filter(|(w, _)| **w != 0.0) {
                let values = &masked.values[from * regions..(from + 1) * regions];
                sum.iter_mut().zip(values).for_each(|(s, v)| *s += *weight as f32 * v);
            }
        }
        out
    }
}

/// How little the visible frames say about other times: the variance kriging leaves, as a share of the whole, at each of
/// `times_seconds`. 0 at a visible frame, 1 far from all of them.
pub fn kriging_variance(visible_seconds: &[f64], times_seconds: &[f64], correlation: &Autocorrelation) -> Vec<f64> {
    let weights = correlation.kriging(visible_seconds, times_seconds);
    let left = |(j, now): (usize, &f64)| {
        let told = (visible_seconds.iter().enumerate()).map(|(i, t)| weights[(i, j)] * correlation.at(now - t));
        (1.0 - told.sum::<f64>()).clamp(0.0, 1.0)
    };
    times_seconds.iter().enumerate().map(left).collect()
}

/// How good a predictor is, averaged over scans.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Mean squared error over hidden frames and valid regions.
    pub mse: f64,
    /// Mean over regions of `rho_per_region`.
    pub rho: f64,
    /// Pearson correlation over a scan's hidden frames, averaged over the scans where it is defined.
    pub rho_per_region: Vec<Option<f64>>,
    /// Mean squared error of every scan as a share of the mean square of its visible frames: scans differ in size by factors of
    /// hundreds, and the mean of errors as they are is that of the largest.
    pub relative: Vec<f64>,
}

/// Sums over scans.
struct Tally {
    mse: f64,
    rho: Vec<(f64, usize)>,
    relative: Vec<f64>,
}

impl Tally {
    fn new(regions: usize) -> Self {
        Self { mse: 0.0, rho: vec![(0.0, 0); regions], relative: vec![] }
    }

    /// Adds a scan and returns the mean square of its hidden values.
    fn add(&mut self, predicted: &[f32], masked: &Masked) -> f64 {
        let regions = masked.region_valid.len();
        let hidden: Vec<usize> = (0..masked.context.len()).filter(|&row| !masked.context[row]).collect();
        let (mut error, mut square, mut count) = (0.0, 0.0, 0usize);
        for region in (0..regions).filter(|&r| masked.region_valid[r]) {
            let column = |values: &[f32]| -> Vec<f64> {
                hidden.iter().map(|row| f64::from(values[row * regions + region])).collect()
            };
            let (x, y) = (column(predicted), column(&masked.values));
            error += x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
            square += y.iter().map(|y| y * y).sum::<f64>();
            count += hidden.len();
            if let Some(rho) = pearson(&x, &y, 1e-12) {
                self.rho[region].0 += rho;
                self.rho[region].1 += 1;
            }
        }
        let mse = error / count.max(1) as f64;
        self.mse += mse;
        self.relative.push(mse / masked.visible_mean_square().max(f64::MIN_POSITIVE));
        square / count.max(1) as f64
    }

    fn score(&self) -> Score {
        let rho_per_region: Vec<Option<f64>> =
            self.rho.iter().map(|(sum, count)| (*count > 0).then(|| sum / *count as f64)).collect();
        let defined: Vec<f64> = rho_per_region.iter().flatten().copied().collect();
        Score {
            mse: self.mse / self.relative.len().max(1) as f64,
            rho: defined.iter().sum::<f64>() / defined.len().max(1) as f64,
            rho_per_region,
            relative: self.relative.clone(),
        }
    }
}

/// Pearson correlation; `None` unless the sums of squared deviations of both are above `least`.
pub fn pearson(x: &[f64], y: &[f64], least: f64) -> Option<f64> {
    let n = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (a, b) in x.iter().zip(y) {
        xy += (a - mx) * (b - my);
        xx += (a - mx) * (a - mx);
        yy += (b - my) * (b - my);
    }
    (xx > least && yy > least).then(|| xy / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked() -> Masked {
        Masked {
            times_seconds: vec![0.0, 1.0, 2.0, 4.0, 5.0],
            context: vec![false, true, false, true, false],
            values: vec![9.0, 1.0, 9.0, 4.0, 9.0],
            region_valid: vec![true],
        }
    }

    #[test]
    fn simple_predictors_by_hand() {
        let flat = Autocorrelation { lag_seconds: 1.0, values: vec![1.0, 0.0] };
        let predict = |p: Predictor| p.predict(&masked(), 1, &flat);
        assert_eq!(predict(Predictor::Hold), [1.0, 1.0, 1.0, 4.0, 4.0]);
        assert_eq!(predict(Predictor::Interpolation), [1.0, 1.0, 2.0, 4.0, 4.0]);
        assert_eq!(predict(Predictor::Mean), [2.5; 5]);
        // Without correlation a hidden frame is worth the mean, and a visible one itself.
        for (found, expected) in predict(Predictor::Kriging).iter().zip([2.5, 1.0, 2.5, 4.0, 2.5]) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
