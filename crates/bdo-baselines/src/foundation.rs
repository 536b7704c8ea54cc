//! BrainLM and Brain-JEPA on a labelled cohort: with a model trained without labels, a linear probe on its features, or
//! fine-tuning of it end to end.

use crate::brainjepa::JepaTeacher;
use crate::brainlm::BrainLm;
use crate::embed::table;
use crate::method::{Outcome, Run};
use crate::pretrain::directory::{TokenConfig, TokenDirectory};
use crate::pretrain::scans::{TokenScan, feature_patches, taken_in};
use crate::token::grid::{Grid, WINDOWS};
use crate::token::{TokenEncoder, TokenShape};
use crate::tune::{Feature, HeadShape, LinearHead, Patches, TuneStart, Tuned, probe_recipes};
use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_eval::cache::{find, keep};
use bdo_eval::error::EvalError;
use bdo_eval::features::TableOrigin;
use bdo_eval::finetune::TunePoint;
use bdo_eval::predict::Trusting;
use bdo_eval::supervised::learner::{FittedNetwork, Parts, too_few};
use bdo_eval::supervised::network::Network;
use bdo_eval::supervised::recipe::{BASELINE_ORDER, Rate, Recipe, Selection};
use bdo_model::frozen::model_blake3;
use bdo_model::intake::Intake;
use bdo_model::pooling::Pooling;
use bdo_train::fit::{RunObserver, Unobserved};
use bdo_train::settings::{Kind, Settings};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// A model of masked tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundationMethod {
    BrainLm,
    BrainJepa,
}

/// Fine-tuning: which points of the grid, and for how long each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    pub epochs: usize,
    /// Points of the protocol's grid.
    pub points: Vec<TunePoint>,
    /// Time for each point; 0 means no limit.
    pub max_minutes: f64,
}

impl Tuning {
    fn recipes(&self) -> Vec<Recipe> {
        let recipe = |point: &TunePoint| {
            let rate = Rate::Cosine { from: point.learning_rate, to: point.least_learning_rate };
            let (max_minutes, selection) = (self.max_minutes, Selection::Protocol);
            Recipe { rate, max_minutes, selection, order: BASELINE_ORDER, ..point.recipe(self.epochs) }
        };
        self.points.iter().map(recipe).collect()
    }
}

/// What a result is made with, besides what decides every result.
#[derive(Clone, Debug)]
pub struct FoundationRun<'a> {
    /// Its states are those of a fine-tuning.
    pub run: Run<'a>,
    pub model: &'a Path,
    pub trusting: Trusting,
    /// Fine-tuning in place of a probe.
    pub tuning: Option<&'a Tuning>,
    /// A folder that features are kept in, if any.
    pub features: Option<&'a Path>,
}

/// A result, with whose predictions they are.
#[derive(Clone, Debug)]
pub struct FoundationOutcome {
    /// Predictions of the probe, or of the tuned model.
    pub outcome: Outcome,
    pub people: Vec<String>,
    pub notes: Vec<String>,
}

impl FoundationMethod {
    pub const ALL: [Self; 2] = [Self::BrainLm, Self::BrainJepa];

    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// As configurations call it.
    pub fn kind(self) -> Kind {
        match self {
            Self::BrainLm => Kind::BrainLm,
            Self::BrainJepa => Kind::BrainJepa,
        }
    }

    /// Trained numbers of encoder and decoder or predictor on a grid of ten windows, where centres are known.
    pub fn parameter_count(self, regions: usize, settings: &Settings) -> usize {
        self.config(settings, Grid { regions, windows: WINDOWS }).trained("")
    }

    /// Those of the encoder, which is all that features need.
    pub fn encoder_count(self, regions: usize, settings: &Settings) -> usize {
        self.config(settings, Grid { regions, windows: WINDOWS }).trained("encoder.")
    }

    /// Operations of one training step, per scan.
    pub fn train_flops(self, grid: Grid, settings: &Settings) -> f64 {
        self.config(settings, grid).cost().train_flops
    }

    fn config(self, settings: &Settings, grid: Grid) -> TokenConfig {
        TokenConfig::of(self.kind(), settings, grid, true).expect("this is not BDO")
    }

    /// Fits with the labels of training people, chooses with validation people, predicts test people once. `label` gives a
    /// person's label in units of the loss; `observer` follows a fine-tuning.
    pub fn run(
        self,
        cohort: &Cohort,
        split: &Split,
        run: &FoundationRun,
        label: &dyn Fn(&str) -> Option<f32>,
        observer: &dyn RunObserver,
    ) -> Result<FoundationOutcome, EvalError> {
        let mut directory = TokenDirectory::read(run.model)?;
        run.trusting.apply(&mut directory.people, &mut directory.preprocessor);
        if directory.config.kind() != self.kind() {
            let found = directory.config.kind().name();
            return Err(EvalError::found(format!("a model of {}", self.name()), format!("one of {found}")));
        }
        let Some(tuning) = run.tuning else { return probe(&directory, (cohort, split), run, label) };
        match &directory.config {
            TokenConfig::BrainLm(config) => {
                tuned::<BrainLm>(config, &directory, (cohort, split), (run, tuning), label, observer)
            }
            TokenConfig::BrainJepa(config) => {
                tuned::<JepaTeacher>(config, &directory, (cohort, split), (run, tuning), label, observer)
            }
        }
    }
}

/// What is said of scans that were not taken in.
fn left_out(cohort: &Cohort, taken_in: usize, grid: Grid) -> Vec<String> {
    let (out, frames) = (cohort.len() - taken_in, grid.frames());
    let note = format!("{out} scans of fewer than {frames} frames or without a known region are left out");
    if out > 0 { vec![note] } else { Vec::new() }
}

/// A linear head on features, which are computed unless they are in a file.
fn probe(
    directory: &TokenDirectory,
    (cohort, split): (&Cohort, &Split),
    FoundationRun { run, model, features, .. }: &FoundationRun,
    label: &dyn Fn(&str) -> Option<f32>,
) -> Result<FoundationOutcome, EvalError> {
    let origin = TableOrigin::of(model_blake3(model)?, cohort, Pooling::Mean)?;
    let table = if let Some(found) = features.and_then(|folder| find(folder, &origin)) {
        found
    } else {
        let scans: Vec<usize> = (0..cohort.len()).collect();
        let made = table(directory, cohort, &scans, origin, run.device, &Unobserved)?;
        features.map_or(Ok(()), |folder| keep(folder, &made))?;
        made
    };
    let notes = left_out(cohort, table.rows.len(), directory.config.grid());
    let inputs: Vec<_> = (0..table.rows.len()).map(|row| Arc::new(Feature(table.feature(row)))).collect();
    let subjects = table.rows.iter().map(|row| row.subject.as_str());
    let (parts, people) = Parts::deal(split, subjects.zip(inputs), label);
    let shape = HeadShape { width: table.features.width(), outputs: run.loss.outputs() };
    let run = Run { states: None, ..*run };
    Ok(FoundationOutcome {
        outcome: best::<LinearHead>(&shape, &probe_recipes(), &parts, &run, &Unobserved)?,
        people,
        notes,
    })
}

/// The encoder trained further with a head on top.
fn tuned<E: TokenEncoder>(
    config: &E::Config,
    directory: &TokenDirectory,
    (cohort, split): (&Cohort, &Split),
    (FoundationRun { run, .. }, tuning): (&FoundationRun, &Tuning),
    label: &dyn Fn(&str) -> Option<f32>,
    observer: &dyn RunObserver,
) -> Result<FoundationOutcome, EvalError> {
    let intake = Intake::new(&directory.preprocessor, cohort)?;
    let scans = taken_in(cohort, &(0..cohort.len()).collect::<Vec<_>>(), &intake, config.grid())?;
    let notes = left_out(cohort, scans.len(), config.grid());
    let input = |(i, scan): &(usize, TokenScan)| {
        (cohort.index()[*i].id.subject.as_str(), Arc::new(Patches(feature_patches(config, scan))))
    };
    let inputs: Vec<_> = scans.iter().map(input).collect();
    let (parts, people) = Parts::deal(split, inputs.into_iter(), label);
    let start = TuneStart {
        config: config.clone(),
        outputs: run.loss.outputs(),
        // The last file is what features are made with: the only one of BrainLM, the moving average of Brain-JEPA.
        values: Arc::new(directory.weights.last().cloned().unwrap_or_default()),
    };
    Ok(FoundationOutcome {
        outcome: best::<Tuned<E>>(&start, &tuning.recipes(), &parts, run, observer)?,
        people,
        notes,
    })
}

/// Predictions of the best of several recipes on the validation people; the first of equal ones.
fn best<N: Network>(
    config: &N::Config,
    recipes: &[Recipe],
    parts: &Parts<Arc<N::Input>>,
    run: &Run,
    observer: &dyn RunObserver,
) -> Result<Outcome, EvalError> {
    let mut best: Option<FittedNetwork<N>> = None;
    for (i, recipe) in recipes.iter().enumerate() {
        let folder = run.states.map(|(folder, name)| (folder.join(format!("point-{i}")), name));
        let states = folder.as_ref().map(|(folder, name)| (folder.as_path(), *name));
        let fitted = Run { states, ..*run }.fit::<N>(config, recipe, parts, observer)?;
        if best.as_ref().is_none_or(|best| fitted.score.beats(&best.score, Selection::Protocol)) {
            best = Some(fitted);
        }
    }
    Outcome::of(&best.ok_or_else(|| too_few(parts))?, parts)
}
