//! BrainLM and Brain-JEPA on a labelled cohort: with a model trained without labels, a linear probe on its features, or
//! fine-tuning of it end to end.

use crate::brainjepa::{BrainJepa, BrainJepaConfig};
use crate::brainlm::{BrainLm, BrainLmConfig};
use crate::embed::{Row, rows_of, table};
use crate::head::{Feature, HeadShape, LinearHead, probe_recipes};
use crate::method::Outcome;
use crate::pretrain::directory::{TokenConfig, TokenDirectory};
use crate::pretrain::features::{TokenScan, feature_patches};
use crate::pretrain::model::{TokenModel, TrainedJepa, TrainedLm};
use crate::pretrain::scans::taken_in;
use crate::token::cost::TokenCost;
use crate::token::grid::{Grid, WINDOWS};
use crate::tune::{Patches, TuneStart, Tuned};
use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_eval::cache::{find, keep};
use bdo_eval::error::EvalError;
use bdo_eval::features::TableOrigin;
use bdo_eval::finetune::TunePoint;
use bdo_eval::fit::Loss;
use bdo_eval::predict::Trusting;
use bdo_eval::supervised::learner::{FittedNetwork, Parts, Request, fit_network, too_few};
use bdo_eval::supervised::network::{InMemory, Network};
use bdo_eval::supervised::recipe::{BASELINE_ORDER, Rate, Recipe, Selection};
use bdo_model::frozen::model_blake3;
use bdo_model::intake::Intake;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterSpec, trainable_count};
use bdo_model::pooling::Pooling;
use bdo_train::fit::{RunObserver, Unobserved};
use bdo_train::ranks::Ranks;
use bdo_train::settings::{Kind, Settings};
use burn::tensor::Device;
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

/// Everything besides model and data that decides a result.
#[derive(Clone, Debug)]
pub struct FoundationRun<'a> {
    pub model: &'a Path,
    pub trusting: Trusting,
    pub loss: Loss,
    pub seed: u64,
    pub kernels: Kernels,
    /// Where they run.
    pub device: &'a Device,
    /// Fine-tuning in place of a probe.
    pub tuning: Option<&'a Tuning>,
    /// Where the state of a fine-tuning is kept, if anywhere, and what names it.
    pub states: Option<(&'a Path, &'a str)>,
    /// A folder that features are kept in, if any.
    pub features: Option<&'a Path>,
    pub ranks: &'a dyn Ranks,
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
    pub fn parameter_count(self, regions: usize, width: usize) -> usize {
        trainable_count(&self.table(regions, width))
    }

    /// Operations of one training step, per scan.
    pub fn train_flops(self, grid: Grid, settings: &Settings) -> f64 {
        let width = settings.method.size.width();
        match self {
            Self::BrainLm => {
                let config = BrainLmConfig::of_width(grid, width, true);
                TokenCost::of_brain_lm(&BrainLmConfig { mask_ratio: settings.mask.ratio, ..config }).train_flops
            }
            Self::BrainJepa => TokenCost::of_brain_jepa(&BrainJepaConfig::of_width(grid, width)).train_flops,
        }
    }

    /// Those of the encoder, which is all that features need.
    pub fn encoder_count(self, regions: usize, width: usize) -> usize {
        let mut table = self.table(regions, width);
        table.retain(|spec| spec.name.starts_with("encoder."));
        trainable_count(&table)
    }

    fn table(self, regions: usize, width: usize) -> Vec<ParameterSpec> {
        let grid = Grid { regions, windows: WINDOWS };
        match self {
            Self::BrainLm => BrainLm::table(&BrainLmConfig::of_width(grid, width, true)),
            Self::BrainJepa => BrainJepa::table(&BrainJepaConfig::of_width(grid, width)),
        }
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
        match &directory.config {
            TokenConfig::BrainLm(config) => {
                result_of::<TrainedLm>(config, &directory, (cohort, split), run, label, observer)
            }
            TokenConfig::BrainJepa(config) => {
                result_of::<TrainedJepa>(config, &directory, (cohort, split), run, label, observer)
            }
        }
    }
}

fn result_of<M: TokenModel>(
    config: &M::Config,
    directory: &TokenDirectory,
    (cohort, split): (&Cohort, &Split),
    run: &FoundationRun,
    label: &dyn Fn(&str) -> Option<f32>,
    observer: &dyn RunObserver,
) -> Result<FoundationOutcome, EvalError> {
    let intake = Intake::new(&directory.preprocessor, cohort)?;
    let scans = taken_in(cohort, &(0..cohort.len()).collect::<Vec<_>>(), &intake, directory.config.grid())?;
    let mut notes = Vec::new();
    if scans.len() < cohort.len() {
        let (out, frames) = (cohort.len() - scans.len(), directory.config.grid().frames());
        notes.push(format!("{out} scans of fewer than {frames} frames or without a known region are left out"));
    }
    let model = M::of_parameters(config, directory.places.clone(), directory.weights.clone(), run.kernels, run.device)?;
    let (outcome, people) = match run.tuning {
        None => {
            let features = embedded(&model, &scans, cohort, run)?;
            let width = features.first().map_or(0, |(_, feature)| feature.len());
            let inputs = features.into_iter().map(|(i, feature)| (i, Feature(feature))).collect();
            let (parts, people) = labelled(cohort, split, inputs, label);
            let shape = HeadShape { width, outputs: run.loss.outputs() };
            (best::<LinearHead>(&shape, &probe_recipes(), &parts, run, None, &Unobserved)?, people)
        }
        Some(tuning) => {
            let inputs = scans.iter().map(|(i, scan)| (*i, Patches(feature_patches(&model, scan)))).collect();
            let (parts, people) = labelled(cohort, split, inputs, label);
            let start = TuneStart {
                config: config.clone(),
                outputs: run.loss.outputs(),
                places: directory.places.clone(),
                // The last file is what features are made with: the only one of BrainLM, the moving average of Brain-JEPA.
                values: Arc::new(directory.weights.last().cloned().unwrap_or_default()),
            };
            (best::<Tuned<M::Encoder>>(&start, &tuning.recipes(), &parts, run, run.states, observer)?, people)
        }
    };
    Ok(FoundationOutcome { outcome, people, notes })
}

/// Features of scans, by their number in the cohort; computed unless they are in a file.
fn embedded<M: TokenModel>(
    model: &M,
    scans: &[(usize, TokenScan)],
    cohort: &Cohort,
    run: &FoundationRun,
) -> Result<Vec<Row>, EvalError> {
    let origin = TableOrigin::of(model_blake3(run.model)?, cohort, Pooling::Mean)?;
    if let Some(found) = run.features.and_then(|folder| find(folder, &origin))
        && found.rows.iter().map(|row| &row.scan).eq(&names(scans, cohort))
    {
        return Ok(scans.iter().enumerate().map(|(row, (i, _))| (*i, found.feature(row))).collect());
    }
    let rows = rows_of(model, scans);
    if let Some(folder) = run.features {
        keep(folder, &table(&rows, cohort, origin)?)?;
    }
    Ok(rows)
}

/// How the cohort calls the scans that were taken in.
fn names(scans: &[(usize, TokenScan)], cohort: &Cohort) -> Vec<String> {
    scans.iter().map(|(i, _)| cohort.index()[*i].id.to_string()).collect()
}

/// Inputs with labels, by part, and the people by their number; inputs are given by the number of their scan.
fn labelled<I>(
    cohort: &Cohort,
    split: &Split,
    inputs: Vec<(usize, I)>,
    label: &dyn Fn(&str) -> Option<f32>,
) -> (Parts<Arc<I>>, Vec<String>) {
    let shared: Vec<(usize, Arc<I>)> = inputs.into_iter().map(|(i, input)| (i, Arc::new(input))).collect();
    let scans = shared.iter().map(|(i, input)| (cohort.index()[*i].id.subject.as_str(), input.clone()));
    Parts::deal(split, scans, label)
}

/// Predictions of the best of several recipes on the validation people; the first of equal ones.
fn best<N: Network>(
    config: &N::Config,
    recipes: &[Recipe],
    parts: &Parts<Arc<N::Input>>,
    run: &FoundationRun,
    states: Option<(&Path, &str)>,
    observer: &dyn RunObserver,
) -> Result<Outcome, EvalError> {
    let mut best: Option<FittedNetwork<N>> = None;
    for (i, recipe) in recipes.iter().enumerate() {
        let folder = states.map(|(folder, name)| (folder.join(format!("point-{i}")), name));
        let request = Request {
            config,
            recipe,
            loss: run.loss,
            scans: &InMemory::new(),
            parts,
            seed: run.seed,
            kernels: run.kernels,
            device: run.device,
            states: folder.as_ref().map(|(folder, name)| (folder.as_path(), *name)),
            ranks: run.ranks,
        };
        let fitted = fit_network::<N, _>(&request, observer)?;
        if best.as_ref().is_none_or(|best| fitted.score.beats(&best.score, Selection::Protocol)) {
            best = Some(fitted);
        }
    }
    let best = best.ok_or_else(|| too_few(parts))?;
    Outcome::of(&best, run.loss, &InMemory::new(), parts)
}
