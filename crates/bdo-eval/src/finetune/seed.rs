//! Fine-tuning for one seed: every configuration of the subset to its best epoch, the best of them by validation.

use super::grid::{SELECTION, TunePoint};
use super::tuned::{TuneStart, Tuned};
use super::{TuneObserver, TuneSettings};
use crate::error::EvalError;
use crate::metric::Metrics;
use crate::part::Part;
use crate::select::loss_of;
use crate::supervised::learner::{Example, FittedNetwork, Parts, Request, fit_network, predict_untrained};
use crate::supervised::network::{Network, Scans};
use crate::supervised::recipe::Recipe;
use crate::supervised::select::{Score, by_person};
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::record::{Plan, ValidationEntry};
use bdo_data::target::{LabelScale, TargetKind};
use bdo_model::intake::{CutScan, Intake, Windows};
use bdo_model::ops::Kernels;
use bdo_model::parameters::Parameters;
use bdo_train::fit::RunObserver;
use bdo_train::ranks::Ranks;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

/// What one configuration came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneOutcome {
    /// The configuration.
    pub point: TunePoint,
    /// Its best epoch, counted from 1; 0 is the closed-form probe of the frozen model, where all begin.
    pub epoch: usize,
    /// Scores of the validation people before the first step.
    pub start: Metrics,
    /// The same at the best epoch.
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
    pub(super) ranks: &'a dyn Ranks,
    pub(super) device: Device,
}

impl SeedTuning<'_> {
    /// Runs, or goes on with, every configuration; returns all outcomes, the chosen one and its parameters. Of equal ones
    /// the first is chosen, and an epoch that is not better than the start is not chosen.
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
        let mut start: Option<Metrics> = None;
        for (number, point) in points.iter().enumerate() {
            let max_minutes = self.settings.max_minutes;
            let recipe = Recipe { max_minutes, ..point.recipe(self.settings.epochs) };
            let (folder, identity) =
                (self.checkpoints.join(format!("point-{number}")), format!("{} {point:?}", self.seed));
            let request = Request {
                config: &self.start,
                recipe: &recipe,
                loss: loss_of(self.task),
                scans: &self.scans,
                parts: &parts,
                seed: self.seed,
                kernels: Kernels::fastest_on(&self.device),
                device: &self.device,
                states: Some((&folder, &identity)),
                ranks: self.ranks,
            };
            let initial = Tuned::initial(&self.start, self.seed);
            let start = match start {
                Some(start) => start,
                None => {
                    *start.insert(self.score(&parts, &predict_untrained(&request, initial.clone(), &parts.validation)?))
                }
            };
            let watching = Watching { observer, seed: self.seed, number, steps_per_epoch: Cell::new(1) };
            let fitted: FittedNetwork<Tuned> = fit_network(&request, &watching)?;
            let validation = self.score(&parts, &fitted.predict(&self.scans, &parts.validation)?);
            let (epoch, validation, parameters) = if is_better(&validation, &start) {
                (fitted.epoch + 1, validation, fitted.parameters)
            } else {
                (0, start, initial)
            };
            let better = chosen.as_ref().is_none_or(|(best, _)| is_better(&validation, &tried[*best].validation));
            if better {
                chosen = Some((number, parameters));
            }
            tried.push(TuneOutcome { point: *point, epoch, start, validation, losses: fitted.train_losses });
        }
        let (chosen, parameters) = chosen.expect("at least one configuration is run");
        Ok((tried, chosen, Tuned::model_names(parameters)))
    }

    /// Of predictions of the validation scans.
    fn score(&self, parts: &Parts<usize>, said: &[Vec<f64>]) -> Metrics {
        let people: Vec<Vec<f64>> =
            by_person(&parts.validation, said).into_values().map(|(_, said)| self.units.said(said)).collect();
        self.validation.score(self.task, &people, self.units)
    }
}

fn is_better(first: &Metrics, second: &Metrics) -> bool {
    Score::from(first).beats(&Score::from(second), SELECTION)
}

/// Scans of a cohort as the model sees them everywhere: whole, or in its windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct CohortScans<'a> {
    pub(super) cohort: &'a Cohort,
    pub(super) intake: &'a Intake,
    pub(super) windows: Windows,
}

impl Scans for CohortScans<'_> {
    type Handle = usize;
    type Input = CutScan;

    fn training(&self, scan: &usize, _: u64, _: u64) -> Result<Arc<CutScan>, CohortError> {
        self.whole(scan)
    }

    fn whole(&self, scan: &usize) -> Result<Arc<CutScan>, CohortError> {
        let scan = self.intake.scale(&self.cohort.scan(*scan)?);
        Ok(Arc::new(self.windows.of_scan(scan.expect("scans without a usable region have no features"))))
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
