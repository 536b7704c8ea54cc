//! BrainLM and Brain-JEPA on a cohort: trained without labels on everybody who is not tested, then a linear probe.

use crate::brainjepa::{BrainJepa, BrainJepaConfig, GRADIENTS, LEAST_WINDOWS};
use crate::brainlm::{BrainLm, BrainLmConfig};
use crate::connectivity::{Connectome, StandardSeries};
use crate::head::{LinearHead, probe_recipes};
use crate::method::Outcome;
use crate::pretrain::learner::{JepaLearner, Learner, LmLearner};
use crate::pretrain::recipe::TokenRecipe;
use crate::pretrain::run::{PretrainError, TokenScan, features, pretrain};
use crate::token::diffusion_map::DiffusionMap;
use crate::token::grid::{Grid, PATCH, WINDOWS};
use crate::token::place::Places;
use crate::train::example::{Example, Parts};
use crate::train::fit::{FitError, Fitted, Request, fit};
use crate::train::objective::Task;
use crate::train::recipe::Selection;
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::scaler::FittedRobustScaler;
use bdo_data::split::Split;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, trainable_count};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Scans whose features are computed at once.
const FEATURE_BATCH: usize = 4;

/// A model of masked tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundationMethod {
    /// BrainLM.
    BrainLm,
    /// Brain-JEPA.
    BrainJepa,
}

/// Everything besides method and data that decides a result.
#[derive(Clone, Debug)]
pub struct FoundationRun<'a> {
    /// Width of the encoder: 192, 384 or 768.
    pub width: usize,
    /// How to train.
    pub recipe: &'a TokenRecipe,
    /// Kind of label.
    pub task: Task,
    /// Seed of everything random.
    pub seed: u64,
    /// What the layers run.
    pub kernels: Kernels,
}

/// A result, with whose predictions they are.
#[derive(Clone, Debug)]
pub struct FoundationOutcome {
    /// Predictions of the probe.
    pub outcome: Outcome,
    /// Labelled scans by part; persons are numbers of [`people`](Self::people).
    pub parts: Parts,
    /// Names by number.
    pub people: Vec<String>,
    /// What a reader of the result must know.
    pub notes: Vec<String>,
}

/// There is no result.
#[derive(Debug, thiserror::Error)]
pub enum FoundationError {
    /// The cohort cannot be read.
    #[error(transparent)]
    Cohort(#[from] CohortError),
    /// No scan is long enough.
    #[error("expected scans of at least {} frames, found none", LEAST_WINDOWS * PATCH)]
    TooShort,
    /// Training failed.
    #[error(transparent)]
    Pretrain(#[from] PretrainError),
    /// The probe failed.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The model cannot be put together.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

/// Scans of a cohort that a grid fits on.
struct Usable {
    scans: Vec<TokenScan>,
    subjects: Vec<String>,
    grid: Grid,
    notes: Vec<String>,
}

impl FoundationMethod {
    /// Both.
    pub const ALL: [Self; 2] = [Self::BrainLm, Self::BrainJepa];

    /// As typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::BrainLm => "brainlm",
            Self::BrainJepa => "brainjepa",
        }
    }

    /// The training of its public code, with a batch that fits a workstation.
    pub fn recipe(self) -> TokenRecipe {
        match self {
            Self::BrainLm => TokenRecipe::brain_lm(16),
            Self::BrainJepa => TokenRecipe::brain_jepa(16),
        }
    }

    /// Trained numbers of encoder and decoder or predictor on a grid of ten windows, where centres are known.
    pub fn parameter_count(self, regions: usize, width: usize) -> usize {
        let grid = Grid { regions, windows: WINDOWS };
        trainable_count(&match self {
            Self::BrainLm => BrainLm::table(&BrainLmConfig::of_width(grid, width, true)),
            Self::BrainJepa => BrainJepa::table(&BrainJepaConfig::of_width(grid, width)),
        })
    }

    /// Trains on training and validation people without their labels, probes with the labels of training people, chooses
    /// with validation people, predicts test people once. `label` gives a person's label in units of the loss.
    pub fn run(
        self,
        cohort: &Cohort,
        split: &Split,
        run: &FoundationRun,
        label: &dyn Fn(&str) -> Option<f32>,
        watch: &mut dyn FnMut(usize, f64) -> bool,
    ) -> Result<FoundationOutcome, FoundationError> {
        let mut usable = Usable::of(cohort, split)?;
        match self {
            Self::BrainLm => {
                let places = Places::of_centres(cohort.regions());
                if places.is_none() {
                    usable.notes.push("not every region has a centre, so each has a learned code".into());
                }
                let config = BrainLmConfig::of_width(usable.grid, run.width, places.is_some());
                let learner = LmLearner::fresh(&config, places, run.seed, run.kernels)?;
                learned(learner, usable, split, run, label, watch)
            }
            Self::BrainJepa => {
                let places = Places::of_gradients(&group_gradients(cohort, split)?);
                usable.notes.push("regions are placed by gradients of the training people's mean connectivity".into());
                let config = BrainJepaConfig::of_width(usable.grid, run.width);
                let learner = JepaLearner::fresh(&config, places, run.seed, run.kernels)?;
                learned(learner, usable, split, run, label, watch)
            }
        }
    }
}

impl Usable {
    fn of(cohort: &Cohort, split: &Split) -> Result<Self, FoundationError> {
        let scaler = FittedRobustScaler::fit(cohort, &split.train)?;
        let regions = cohort.regions().len();
        let least = LEAST_WINDOWS * PATCH;
        let (long, short): (Vec<usize>, Vec<usize>) =
            (0..cohort.len()).partition(|i| cohort.index()[*i].frames >= least);
        let shortest = long.iter().map(|i| cohort.index()[*i].frames).min().ok_or(FoundationError::TooShort)?;
        let grid = Grid::for_frames(regions, shortest).ok_or(FoundationError::TooShort)?;
        let mut notes = Vec::new();
        if !short.is_empty() {
            notes.push(format!("{} scans of fewer than {least} frames are left out", short.len()));
        }
        if grid.windows < WINDOWS {
            notes.push(format!(
                "the original takes {} frames; the shortest scan has {shortest}, so {} are taken",
                WINDOWS * PATCH,
                grid.frames()
            ));
        }
        let scaled = long
            .par_iter()
            .map(|&i| {
                let scan = cohort.scan(i)?;
                Ok(TokenScan { scan: scaler.apply(&scan), tr_seconds: scan.tr_seconds })
            })
            .collect::<Result<Vec<_>, CohortError>>()?;
        let subjects = long.iter().map(|i| cohort.index()[*i].id.subject.clone()).collect();
        Ok(Self { scans: scaled, subjects, grid, notes })
    }
}

/// Functional gradients of the mean correlation over the scans of training people.
fn group_gradients(cohort: &Cohort, split: &Split) -> Result<DiffusionMap, CohortError> {
    let n = cohort.regions().len();
    let mut sums = vec![0.0f64; n * n];
    let mut scans = 0.0;
    for i in (0..cohort.len()).filter(|i| split.train.contains(&cohort.index()[*i].id.subject)) {
        let scan = cohort.scan(i)?;
        let pearson = StandardSeries::new(&scan.series, scan.frames(), &scan.valid_regions()).pearson();
        sums.iter_mut().zip(pearson).for_each(|(sum, r)| *sum += f64::from(r));
        scans += 1.0;
    }
    sums.iter_mut().for_each(|sum| *sum /= f64::max(scans, 1.0));
    Ok(DiffusionMap::of_connectivity(&sums, n, GRADIENTS))
}

fn learned<L: Learner>(
    learner: L,
    usable: Usable,
    split: &Split,
    run: &FoundationRun,
    label: &dyn Fn(&str) -> Option<f32>,
    watch: &mut dyn FnMut(usize, f64) -> bool,
) -> Result<FoundationOutcome, FoundationError> {
    let Usable { scans, subjects, notes, .. } = usable;
    let seen = |subject: &str| split.train.contains(subject) || split.validation.contains(subject);
    let chosen: Vec<&TokenScan> = scans.iter().zip(&subjects).filter(|(_, s)| seen(s)).map(|(scan, _)| scan).collect();
    let learner = pretrain(learner, &chosen, run.recipe, run.seed, watch)?;
    let mut people: Vec<String> = subjects.clone();
    people.sort();
    people.dedup();
    let number: BTreeMap<&String, usize> = people.iter().enumerate().map(|(i, name)| (name, i)).collect();
    let part = |chosen: &dyn Fn(&str) -> bool| -> Vec<Example> {
        let labelled: Vec<(usize, f32)> = (0..scans.len())
            .filter(|i| chosen(&subjects[*i]))
            .filter_map(|i| Some((i, label(&subjects[i])?)))
            .collect();
        let scans: Vec<&TokenScan> = labelled.iter().map(|(i, _)| &scans[*i]).collect();
        let rows = features(&learner, &scans, FEATURE_BATCH);
        let example = |((i, label), nodes): ((usize, f32), Vec<f32>)| Example {
            inputs: Arc::new(Connectome { regions: 1, nodes, edges: None }),
            label,
            person: number[&subjects[i]],
        };
        labelled.into_iter().zip(rows).map(example).collect()
    };
    let parts = Parts {
        train: part(&|s| split.train.contains(s)),
        validation: part(&|s| split.validation.contains(s)),
        test: part(&|s| split.test.contains(s)),
    };
    let fitted = best_probe(&parts, run)?;
    let outcome = Outcome {
        validation: fitted.predict(&parts.validation),
        test: fitted.predict(&parts.test),
        epoch: fitted.epoch,
        score: fitted.score,
        history: fitted.history,
    };
    Ok(FoundationOutcome { outcome, parts, people, notes })
}

/// The best of the protocol's settings on the validation people; the first of equal ones.
fn best_probe(parts: &Parts, run: &FoundationRun) -> Result<Fitted<LinearHead>, FitError> {
    let width = parts.train.first().map_or(0, |example| example.inputs.nodes.len());
    let mut best: Option<Fitted<LinearHead>> = None;
    for recipe in &probe_recipes() {
        let request = Request {
            config: &width,
            recipe,
            task: run.task,
            parts,
            seed: run.seed,
            kernels: run.kernels,
            checkpoints: None,
        };
        let fitted = fit::<LinearHead>(&request, &mut |_| true)?;
        if best.as_ref().is_none_or(|best| fitted.score.beats(&best.score, Selection::Protocol)) {
            best = Some(fitted);
        }
    }
    best.ok_or(FitError::TooFew { train: parts.train.len(), validation: parts.validation.len() })
}
