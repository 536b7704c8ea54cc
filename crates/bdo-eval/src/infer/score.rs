//! How well hidden frames are filled, and whether the bands hold, beside simple ways to fill them.

use crate::error::EvalError;
use crate::infer::calibration::{Calibration, Residual, residuals};
use crate::interval::{IntervalScore, IntervalTally};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::random::stream;
use bdo_model::autocorrelation::Autocorrelation;
use bdo_model::intake::{Intake, MaskSettings, Masked, Timing};
use bdo_model::posterior::engine::Engine;
use bdo_model::weights::PreprocessorConfig;
use bdo_train::evaluate::Predictor;
use serde::Serialize;

#[derive(Debug)]
pub struct Question<'a> {
    pub engine: &'a Engine<'a>,
    pub calibration: &'a Calibration,
    /// Of the training people, for kriging.
    pub correlation: &'a Autocorrelation,
    pub cohort: &'a Cohort,
    pub scans: &'a [usize],
    pub seed: u64,
}

/// How one share of missing frames was filled.
#[derive(Clone, Debug, Serialize)]
pub struct FillScore {
    /// Share of frames that were hidden.
    pub missing: f64,
    pub scans: usize,
    pub model: IntervalScore,
    /// Mean squared error of the others on the same frames.
    pub others: Vec<(&'static str, f64)>,
}

/// Visits with a share of their frames hidden: stretches of the length the model was trained on.
pub fn visits(
    cohort: &Cohort,
    scans: &[usize],
    contract: &PreprocessorConfig,
    mask: &MaskSettings,
    seed: u64,
) -> Result<Vec<(u64, Masked)>, EvalError> {
    let intake = Intake::new(contract, cohort)?;
    let mut found = Vec::with_capacity(scans.len());
    for &i in scans {
        let scan = cohort.scan(i)?;
        let mut rng = stream("inference visit", &[seed, i as u64, mask.ratio.to_bits()]);
        let masked = intake.draw(&scan, Timing::AsScanned, mask, &mut rng);
        found.extend(masked.map(|masked| (i as u64, masked)));
    }
    Ok(found)
}

impl Question<'_> {
    /// Fills a share of the frames of every scan.
    pub fn fill(&self, mask: &MaskSettings, observer: &dyn Observer) -> Result<FillScore, EvalError> {
        let contract = &self.engine.frozen().contract;
        let mut tally = IntervalTally::new(self.calibration.half_widths);
        let mut errors = [(0.0f64, 0usize); Predictor::ALL.len()];
        let mut scored = 0;
        for (done, &scan) in self.scans.iter().enumerate() {
            if observer.stop_requested() {
                return Err(EvalError::Interrupted);
            }
            for (number, masked) in visits(self.cohort, &[scan], contract, mask, self.seed)? {
                self.hidden(&masked, number)?.iter().for_each(|found| self.add(found, &mut tally));
                for (predictor, (sum, count)) in Predictor::ALL.iter().zip(&mut errors) {
                    let predicted = predictor.predict(&masked, masked.region_valid.len(), self.correlation);
                    let (error, more) = squared_error(&predicted, &masked);
                    *sum += error;
                    *count += more;
                }
                scored += 1;
            }
            observer.advance(done + 1, 0);
        }
        let others = Predictor::ALL.iter().zip(&errors).map(|(p, (sum, n))| (p.name(), sum / (*n).max(1) as f64));
        Ok(FillScore { missing: mask.ratio, scans: scored, model: tally.score(), others: others.collect() })
    }

    /// The hidden values of a visit.
    pub(super) fn hidden(&self, masked: &Masked, number: u64) -> Result<Vec<Residual>, EvalError> {
        let Calibration { region_variance, uncertainty, .. } = self.calibration;
        residuals(self.engine, masked, region_variance, self.correlation, *uncertainty, &[self.seed, number])
    }

    pub(super) fn add(&self, found: &Residual, tally: &mut IntervalTally) {
        tally.add(found.error, self.calibration.variance_of(found).sqrt(), 0.0);
    }
}

/// Sum of squares over hidden values and their number.
fn squared_error(predicted: &[f32], masked: &Masked) -> (f64, usize) {
    let regions = masked.region_valid.len();
    let (mut sum, mut count) = (0.0, 0);
    for (row, _) in masked.context.iter().enumerate().filter(|(_, visible)| !**visible) {
        for region in (0..regions).filter(|&r| masked.region_valid[r]) {
            let at = row * regions + region;
            sum += (f64::from(predicted[at]) - f64::from(masked.values[at])).powi(2);
            count += 1;
        }
    }
    (sum, count)
}
