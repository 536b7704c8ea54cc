//! Fine-tuning for one seed: every configuration of the subset to its best epoch, the best of them by validation.

use super::grid::{SELECTION, TunePoint};
use super::movement::Beside;
use super::tuned::{TuneStart, Tuned};
use super::{TuneObserver, TuneWork};
use crate::error::EvalError;
use crate::fit::loss_of;
use crate::metric::Metrics;
use crate::part::Parts as People;
use crate::score::{beats, by_person, surely_lower};
use crate::supervised::learner::{FittedNetwork, Parts, Request, fit_network, predict};
use crate::supervised::network::{Network, Scans};
use crate::supervised::recipe::Recipe;
use bdo_data::cohort::CohortError;
use bdo_data::division::Split;
use bdo_data::random::{shuffle, stream};
use bdo_data::record::{Plan, ValidationEntry};
use bdo_data::scaler::ScaledScan;
use bdo_model::intake::CutScan;
use bdo_model::ops::Kernels;
use bdo_model::parameters::Parameters;
use bdo_train::fit::RunObserver;
use bdo_train::ranks::Ranks;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneOutcome {
    pub point: TunePoint,
    /// Its best epoch, counted from 1; 0 is where all begin.
    pub epoch: usize,
    /// Scores of the validation people before the first step.
    pub start: Metrics,
    /// The same at the best epoch.
    pub validation: Metrics,
    /// Mean training loss of every epoch.
    pub losses: Vec<f64>,
}

impl TuneWork<'_> {
    /// Runs, or goes on with, every configuration; returns all outcomes, the chosen one and its parameters. Of equal ones
    /// the first is chosen, and an epoch that is not surely better than the start is not chosen.
    pub(super) fn search(
        &self,
        (start, beside): (&TuneStart, Option<&Beside>),
        people: &People<'_, usize>,
        split: &Split,
        checkpoints: &Path,
        ranks: &dyn Ranks,
        observer: &dyn TuneObserver,
    ) -> Result<(Vec<TuneOutcome>, usize, Parameters), EvalError> {
        let label = |subject: &str| self.target.value(subject).map(|y| people.units.to_loss(y) as f32);
        let scans = self.table.rows.iter().map(|row| row.subject.as_str()).zip(self.scans.iter().copied());
        let (mut parts, seed) = (Parts::deal(split, scans, &label).0, split.seed());
        if let Some(beside) = beside {
            let row = |scan: usize| self.scans.partition_point(|other| *other < scan);
            for example in parts.train.iter_mut().chain(&mut parts.validation) {
                example.said.clone_from(&beside.said[row(example.scan)]);
            }
        }
        let mut tried: Vec<TuneOutcome> = Vec::new();
        let mut chosen: Option<(usize, Parameters)> = None;
        let score = |said: &[Vec<f64>]| {
            let said = by_person(&parts.validation, said).into_values().map(|(_, said)| people.units.said(said));
            people.score(&people.validation, &said.collect::<Vec<_>>())
        };
        let (device, loss) = (&self.frozen.model.device(), loss_of(&self.target.kind));
        let (kernels, initial) = (Kernels::fastest_on(device), Tuned::initial(start, seed));
        let untrained = Tuned::from_parameters(start, initial.clone(), kernels, &Device::flex())?;
        let batch_size = self.settings.points[0].batch_size;
        let said_at_start = predict(&untrained, loss, self, &parts.validation, batch_size)?;
        let losses = |said: &[Vec<f64>]| -> Vec<f64> {
            by_person(&parts.validation, said).into_values().map(|(label, said)| loss.of_saying(&said, label)).collect()
        };
        let (at_start, losses_at_start) = (score(&said_at_start), losses(&said_at_start));
        for (number, point) in self.settings.points.iter().enumerate() {
            let max_minutes = self.settings.max_minutes;
            let recipe = Recipe { max_minutes, ..point.recipe(self.settings.epochs) };
            let (folder, identity) = (checkpoints.join(format!("point-{number}")), format!("{seed} {point:?}"));
            let request = Request {
                config: start,
                recipe: &recipe,
                loss,
                scans: self,
                parts: &parts,
                seed,
                kernels,
                device,
                states: Some((&folder, &identity)),
                ranks,
            };
            let watching = Watching { observer, seed, number, steps_per_epoch: Cell::new(1) };
            let fitted: FittedNetwork<Tuned> = fit_network(&request, &watching).map_err(|error| match error {
                EvalError::InterruptedAt { .. } => EvalError::Interrupted,
                error => error,
            })?;
            let said = fitted.predict(self, &parts.validation)?;
            let validation = score(&said);
            let (epoch, validation, parameters) = if surely_lower(&losses(&said), &losses_at_start) {
                (fitted.epoch + 1, validation, fitted.parameters)
            } else {
                (0, at_start, initial.clone())
            };
            let better =
                chosen.as_ref().is_none_or(|(best, _)| beats(&validation, &tried[*best].validation, SELECTION));
            if better {
                chosen = Some((number, parameters));
            }
            tried.push(TuneOutcome { point: *point, epoch, start: at_start, validation, losses: fitted.train_losses });
        }
        let (chosen, parameters) = chosen.expect("at least one configuration is run");
        Ok((tried, chosen, Tuned::model_names(parameters)))
    }
}

impl TuneWork<'_> {
    fn scaled(&self, scan: usize) -> Result<ScaledScan, CohortError> {
        let scaled = self.intake.scale(&self.cohort.scan(scan)?);
        Ok(scaled.expect("scans without a usable region have no features"))
    }
}

/// Scans of the cohort as the model sees them: whole, or in its windows; in training, if so asked, some of their frames.
impl Scans for TuneWork<'_> {
    type Handle = usize;
    type Input = CutScan;

    fn whole(&self, scan: &usize) -> Result<Arc<CutScan>, CohortError> {
        Ok(Arc::new(self.frozen.windows.of_scan(self.scaled(*scan)?)))
    }

    fn visit(&self, scan: &usize, seed: u64, epoch: u64) -> Result<Arc<CutScan>, CohortError> {
        let seen = visit(self.scaled(*scan)?, self.settings.frames, [seed, epoch, *scan as u64]);
        Ok(Arc::new(self.frozen.windows.of_scan(seen)))
    }
}

/// Says which configuration an epoch belongs to.
struct Watching<'a> {
    observer: &'a dyn TuneObserver,
    seed: u64,
    number: usize,
    steps_per_epoch: Cell<u64>,
}

impl RunObserver for Watching<'_> {
    fn planned(&self, plan: &Plan, _: u64) {
        self.steps_per_epoch.set(plan.steps_per_epoch);
    }

    fn validated(&self, entry: &ValidationEntry) {
        let epochs = (entry.step / self.steps_per_epoch.get()) as usize;
        self.observer.epoch_done(self.seed, self.number, epochs, entry.measures.get("train_loss"));
    }

    fn stop_requested(&self) -> bool {
        self.observer.stop_requested()
    }
}

/// What a training step sees of a scan: at most `frames` of its frames at random, with their true times; 0 keeps all. A function of seed, epoch and scan alone.
fn visit(scan: ScaledScan, frames: usize, position: [u64; 3]) -> ScaledScan {
    let count = scan.times_seconds.len();
    if frames == 0 || count <= frames {
        return scan;
    }
    let mut chosen: Vec<usize> = (0..count).collect();
    shuffle(&mut chosen, &mut stream("fine-tuning visit", &position));
    chosen.truncate(frames);
    chosen.sort_unstable();
    let regions = scan.region_valid.len();
    ScaledScan {
        times_seconds: chosen.iter().map(|&t| scan.times_seconds[t]).collect(),
        values: chosen.iter().flat_map(|&t| scan.values[t * regions..(t + 1) * regions].iter().copied()).collect(),
        region_valid: scan.region_valid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_keeps_times_and_rows_together() {
        let scan = ScaledScan {
            times_seconds: (0..10).map(f64::from).collect(),
            values: (0u8..10).flat_map(|t| [f32::from(t), -f32::from(t)]).collect(),
            region_valid: vec![true, true],
        };
        let seen = visit(scan.clone(), 4, [1, 2, 3]);
        assert_eq!(seen.times_seconds.len(), 4);
        assert!(seen.times_seconds.is_sorted());
        for (t, row) in seen.times_seconds.iter().zip(seen.values.chunks(2)) {
            assert_eq!((f64::from(row[0]), f64::from(row[1])), (*t, -t));
        }
        assert_eq!(visit(scan.clone(), 4, [1, 2, 3]), seen);
        assert_ne!(visit(scan.clone(), 4, [1, 3, 3]), seen);
        assert_eq!(visit(scan.clone(), 0, [0; 3]), scan);
        assert_eq!(visit(scan.clone(), 10, [0; 3]), scan);
    }
}
