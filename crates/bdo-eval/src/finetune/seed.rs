//! Fine-tuning for one seed: every configuration of the subset, epoch by epoch, with a checkpoint after each.

use super::checkpoint::{TuneCheckpoints, TuneOutcome, TuneState};
use super::grid::TunePoint;
use super::tuned::{Tuned, summed_loss, with_fresh_head};
use super::visit::visit;
use super::{TuneObserver, TuneSettings};
use crate::error::EvalError;
use crate::fit::Loss;
use crate::metric::Metrics;
use crate::part::Part;
use crate::score::beats;
use crate::select::loss_of;
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::random::{shuffle, stream};
use bdo_data::scaler::ScaledScan;
use bdo_data::target::LabelScale;
use bdo_data::target::TargetKind;
use bdo_model::config::ModelConfig;
use bdo_model::intake::Intake;
use bdo_model::intake::PaddedBatch;
use bdo_model::ops::{Kernels, Precision};
use bdo_model::parameters::Parameters;
use bdo_train::gradient::NamedGradients;
use bdo_train::optimiser::AdamState;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use rayon::prelude::*;

/// Scans whose activations are held at once; the gradient is summed over such pieces of a batch.
const SCANS_AT_ONCE: usize = 8;

/// What one seed works with.
pub(super) struct SeedTuning<'a> {
    pub(super) settings: &'a TuneSettings,
    pub(super) cohort: &'a Cohort,
    pub(super) intake: &'a Intake,
    pub(super) config: &'a ModelConfig,
    /// Of the pre-trained model.
    pub(super) start: &'a Parameters,
    pub(super) task: &'a TargetKind,
    /// Numbers of scans by person.
    pub(super) train: &'a Part<'a, usize>,
    pub(super) validation: &'a Part<'a, usize>,
    pub(super) units: LabelScale,
    pub(super) seed: u64,
    pub(super) checkpoints: TuneCheckpoints,
}

impl SeedTuning<'_> {
    /// Runs, or goes on with, every configuration; returns all outcomes, the chosen one and its parameters.
    pub(super) fn run(
        &self,
        points: &[TunePoint],
        observer: &dyn TuneObserver,
    ) -> Result<(Vec<TuneOutcome>, usize, Parameters), EvalError> {
        let mut state = self.checkpoints.restore()?.unwrap_or_else(|| self.fresh(Vec::new(), None));
        while state.finished.len() < points.len() {
            let point = points[state.finished.len()];
            while state.epochs_done < self.settings.epochs {
                state = self.epoch(state, &point, observer)?;
                observer.epoch_done(self.seed, state.finished.len(), state.epochs_done, &state.losses);
                if state.epochs_done < self.settings.epochs {
                    self.checkpoints.save(&state)?;
                }
            }
            state = self.finish(state, point);
            self.checkpoints.save(&state)?;
        }
        let (chosen, parameters) = state.chosen.expect("at least one configuration is run");
        Ok((state.finished, chosen, parameters))
    }

    fn fresh(&self, finished: Vec<TuneOutcome>, chosen: Option<(usize, Parameters)>) -> TuneState {
        let current = with_fresh_head(self.start.clone(), self.settings.head, self.config.width, self.seed);
        let (losses, best, adam) = (Vec::new(), None, AdamState::default());
        TuneState { finished, chosen, epochs_done: 0, losses, best, current, adam }
    }

    /// Puts a finished configuration beside the others; of equal ones the first stays chosen.
    fn finish(&self, state: TuneState, point: TunePoint) -> TuneState {
        let (epoch, validation, parameters) = state.best.expect("at least one epoch was run");
        let number = state.finished.len();
        let better = match &state.chosen {
            Some((i, _)) => beats(&validation, &state.finished[*i].validation),
            None => true,
        };
        let chosen = if better { Some((number, parameters)) } else { state.chosen };
        let mut finished = state.finished;
        finished.push(TuneOutcome { point, epoch, validation, losses: state.losses });
        self.fresh(finished, chosen)
    }

    fn epoch(
        &self,
        mut state: TuneState,
        point: &TunePoint,
        observer: &dyn TuneObserver,
    ) -> Result<TuneState, EvalError> {
        let device = Device::flex().autodiff();
        let kernels = Kernels::Fused(Precision::fastest());
        let mut tuned = Tuned::from_parameters(self.config, state.current, kernels, &device)?;
        let examples = self.train.examples(self.units);
        let epoch = state.epochs_done as u64;
        let mut order: Vec<usize> = (0..examples.labels.len()).collect();
        shuffle(&mut order, &mut stream("fine-tuning order", &[self.seed, epoch]));
        let steps = order.len().div_ceil(point.batch_size) as u64;
        let total = steps * self.settings.epochs as u64;
        let mut sum = 0.0;
        for (step, batch) in order.chunks(point.batch_size).enumerate() {
            if observer.stop_requested() {
                return Err(EvalError::Interrupted);
            }
            let (loss, gradients) = self.gradients(&tuned, &examples.inputs, &examples.labels, batch, epoch)?;
            sum += loss * batch.len() as f64;
            // A step that would spoil every parameter is not taken.
            if loss.is_finite() && gradients.norm().is_finite() {
                let rate = point.rate(epoch * steps + step as u64, total);
                let adam = |name: &str, axes: usize| point.adam(name, axes, rate, self.config.blocks);
                tuned = state.adam.apply_each(tuned, &gradients, &adam);
            }
        }
        state.losses.push(sum / order.len() as f64);
        state.epochs_done += 1;
        state.current = tuned.parameters();
        let score = self.validate(&tuned.valid())?;
        if state.best.as_ref().is_none_or(|(_, best, _)| beats(&score, best)) {
            state.best = Some((state.epochs_done, score, state.current.clone()));
        }
        Ok(state)
    }

    /// Mean loss of a batch and its gradient.
    fn gradients(
        &self,
        tuned: &Tuned,
        scans: &[&usize],
        labels: &[f64],
        batch: &[usize],
        epoch: u64,
    ) -> Result<(f64, NamedGradients), EvalError> {
        let (mut sum, mut gradients) = (0.0, NamedGradients::default());
        for piece in batch.chunks(SCANS_AT_ONCE) {
            let numbers: Vec<usize> = piece.iter().map(|&i| *scans[i]).collect();
            let seen = self
                .read(&numbers, |number, scan| visit(scan, self.settings.frames, [self.seed, epoch, number as u64]))?;
            let labels: Vec<f64> = piece.iter().map(|&i| labels[i]).collect();
            let output = output(tuned, &seen, &Device::flex().autodiff())?;
            let loss = summed_loss(loss_of(self.task), output, &labels) * (1.0 / batch.len() as f64);
            sum += f64::from(loss.clone().inner().into_scalar::<f32>());
            gradients = gradients.plus(NamedGradients::of_module(tuned, loss.backward()));
        }
        Ok((sum, gradients))
    }

    /// Whole scans, one prediction a person.
    fn validate(&self, tuned: &Tuned) -> Result<Metrics, EvalError> {
        let loss: Loss = loss_of(self.task);
        let numbers: Vec<usize> = self.validation.scans.iter().flatten().map(|i| **i).collect();
        let mut said = Vec::with_capacity(numbers.len());
        for piece in numbers.chunks(SCANS_AT_ONCE) {
            let scans = self.read(piece, |_, scan| scan)?;
            let output = output(tuned, &scans, &Device::flex())?;
            let values = output.into_data().try_to_vec::<f32>().expect("outputs are f32");
            said.extend(values.into_iter().map(|x| loss.prediction(f64::from(x))));
        }
        let mut rest = said.into_iter();
        let mean = |scans: &Vec<&usize>| rest.by_ref().take(scans.len()).sum::<f64>() / scans.len() as f64;
        let people: Vec<f64> = self.validation.scans.iter().map(mean).collect();
        Ok(self.validation.score(self.task, &people, self.units))
    }

    fn read(
        &self,
        scans: &[usize],
        seen: impl Fn(usize, ScaledScan) -> ScaledScan + Sync,
    ) -> Result<Vec<ScaledScan>, CohortError> {
        let one = |&i: &usize| {
            let scaled = self.intake.scale(&self.cohort.scan(i)?).expect("scans without a usable region were left out");
            Ok(seen(i, scaled))
        };
        scans.par_iter().map(one).collect()
    }
}

/// One output a scan: [B, 1].
fn output(tuned: &Tuned, scans: &[ScaledScan], device: &Device) -> Result<Tensor<2>, EvalError> {
    let scans: Vec<&ScaledScan> = scans.iter().collect();
    let (series, frames, region_valid) = PaddedBatch::of_scans(&scans).on(device);
    Ok(tuned.output(&series, &frames, &region_valid)?)
}
