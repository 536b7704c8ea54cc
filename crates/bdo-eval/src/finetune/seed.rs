//! Fine-tuning for one seed: every configuration of the subset to its best epoch, the best of them by validation.

use super::grid::TunePoint;
use super::tuned::{TuneStart, Tuned};
use super::visit::visit;
use super::{TuneObserver, TuneSettings};
use crate::error::EvalError;
use crate::metric::Metrics;
use crate::part::Part;
use crate::score::beats;
use crate::select::loss_of;
use crate::supervised::learner::{Example, FittedNetwork, Parts, Request, fit_network};
use crate::supervised::network::Scans;
use crate::supervised::select::by_person;
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::record::{Plan, ValidationEntry};
use bdo_data::scaler::ScaledScan;
use bdo_data::target::{LabelScale, TargetKind};
use bdo_model::intake::Intake;
use bdo_model::ops::{Kernels, Precision};
use bdo_model::parameters::Parameters;
use bdo_train::fit::RunObserver;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

/// What one configuration came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneOutcome {
    /// The configuration.
    pub point: TunePoint,
    /// Its best epoch, counted from 1.
    pub epoch: usize,
    /// Scores of the validation people at that epoch.
    pub validation: Metrics,
    /// Mean training loss of every epoch.
    pub losses: Vec<f64>,
}

/// What one seed works with.
pub(super) struct SeedTuning<'a> {
    pub(super) settings: &'a TuneSettings,
    pub(super) scans: CohortScans<'a>,
    pub(super) start: TuneStart,
    pub(super) task: &'a TargetKind,
    /// Numbers of scans by person.
    pub(super) train: &'a Part<'a, usize>,
    pub(super) validation: &'a Part<'a, usize>,
    pub(super) units: LabelScale,
    pub(super) seed: u64,
    /// Where states are kept.
    pub(super) checkpoints: PathBuf,
}

impl SeedTuning<'_> {
    /// Runs, or goes on with, every configuration; returns all outcomes, the chosen one and its parameters. Of equal ones
    /// the first is chosen.
    pub(super) fn run(
        &self,
        points: &[TunePoint],
        observer: &dyn TuneObserver,
    ) -> Result<(Vec<TuneOutcome>, usize, Parameters), EvalError> {
        let examples = |part: &Part<'_, usize>| -> Vec<Example<usize>> {
            let people = part.scans.iter().zip(&part.labels).enumerate();
            let of = |(person, (scans, label)): (usize, (&Vec<&usize>, &f64))| {
                let label = self.units.to_loss(*label) as f32;
                scans.iter().map(|scan| Example { scan: **scan, label, person }).collect::<Vec<_>>()
            };
            people.flat_map(of).collect()
        };
        let (train, validation) = (examples(self.train), examples(self.validation));
        let parts = Parts { train, validation, test: Vec::new() };
        let mut tried: Vec<TuneOutcome> = Vec::new();
        let mut chosen: Option<(usize, Parameters)> = None;
        for (number, point) in points.iter().enumerate() {
            let fitted = self.fit(number, point, &parts, observer)?;
            let outcome = self.outcome(*point, &fitted, &parts)?;
            let better = match &chosen {
                None => true,
                Some((best, _)) => beats(&outcome.validation, &tried[*best].validation),
            };
            if better {
                chosen = Some((number, fitted.parameters));
            }
            tried.push(outcome);
        }
        let (chosen, parameters) = chosen.expect("at least one configuration is run");
        Ok((tried, chosen, Tuned::model_names(parameters)))
    }

    fn fit(
        &self,
        number: usize,
        point: &TunePoint,
        parts: &Parts<usize>,
        observer: &dyn TuneObserver,
    ) -> Result<FittedNetwork<Tuned>, EvalError> {
        let recipe = point.recipe(self.settings.epochs);
        let (folder, identity) = (self.checkpoints.join(format!("point-{number}")), format!("{} {point:?}", self.seed));
        let request = Request {
            config: &self.start,
            recipe: &recipe,
            loss: loss_of(self.task),
            scans: &self.scans,
            parts,
            seed: self.seed,
            kernels: Kernels::Fused(Precision::fastest()),
            states: Some((&folder, &identity)),
        };
        let watching = Watching { observer, seed: self.seed, number, steps_per_epoch: Cell::new(1) };
        Ok(fit_network(&request, &watching)?)
    }

    fn outcome(
        &self,
        point: TunePoint,
        fitted: &FittedNetwork<Tuned>,
        parts: &Parts<usize>,
    ) -> Result<TuneOutcome, EvalError> {
        let said = fitted.predict(&self.scans, &parts.validation)?;
        let people: Vec<Vec<f64>> =
            by_person(&parts.validation, &said).into_values().map(|(_, said)| self.units.said(said)).collect();
        let validation = self.validation.score(self.task, &people, self.units);
        Ok(TuneOutcome { point, epoch: fitted.epoch + 1, validation, losses: fitted.train_losses.clone() })
    }
}

/// Scans of a cohort as the model sees them: whole, or in training a random subset of their frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct CohortScans<'a> {
    pub(super) cohort: &'a Cohort,
    pub(super) intake: &'a Intake,
    /// Frames of a training visit; 0 for all.
    pub(super) frames: usize,
}

impl CohortScans<'_> {
    fn read(&self, scan: usize) -> Result<ScaledScan, CohortError> {
        let scan = self.cohort.scan(scan)?;
        Ok(self.intake.scale(&scan).expect("scans without a usable region were left out"))
    }
}

impl Scans for CohortScans<'_> {
    type Handle = usize;
    type Input = ScaledScan;

    fn training(&self, scan: &usize, seed: u64, epoch: u64) -> Result<Arc<ScaledScan>, CohortError> {
        Ok(Arc::new(visit(self.read(*scan)?, self.frames, [seed, epoch, *scan as u64])))
    }

    fn whole(&self, scan: &usize) -> Result<Arc<ScaledScan>, CohortError> {
        Ok(Arc::new(self.read(*scan)?))
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
