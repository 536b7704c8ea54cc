//! Fine-tuning of encoder, control and head end to end: a model for each seed, chosen by validation and tested once.

pub mod grid;
mod movement;
mod seed;
pub mod tuned;

pub use grid::TunePoint;
use movement::Beside;
pub use seed::TuneOutcome;

use crate::cache::cached_features;
use crate::error::EvalError;
use crate::features::FeatureTable;
use crate::fitted::{FittedHead, HeadKind, Member, mean_of};
use crate::folder::WorkFolder;
use crate::method::{FitOn, Task};
use crate::outcome::{HeadRequest, HeadResult, SeedOutcome, check_seeds, finish};
use crate::part::{Part, Parts};
use crate::predict::predict_scans;
use crate::problem::Problem;
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::division::{Division, Split};
use bdo_data::target::{Target, TargetKind};
use bdo_model::config::ModelConfig;
use bdo_model::frozen::{FrozenModel, model_blake3};
use bdo_model::intake::{Centre, Intake};
use bdo_model::parameters::Parameters;
use bdo_model::pooling::Pooling;
use bdo_model::weights::{CardFacts, ModelDirectory, input_words};
use bdo_train::ranks::Ranks;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tuned::{HeadShape, Reads, TuneStart, fresh_head, head_of_probe, head_parameters, without_head};

/// What decides a fine-tuning, besides model and data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuneSettings {
    pub target: String,
    /// How frames are pooled: their mean (linear) or by attention.
    pub head: HeadKind,
    pub seeds: Vec<u64>,
    pub epochs: usize,
    /// Most time of each, in which as many epochs are run as fit; 0 for no limit.
    #[serde(default)]
    pub max_minutes: f64,
    pub points: Vec<TunePoint>,
    /// Frames drawn from a scan at each visit in training; 0 for all, as in validation and test.
    #[serde(default, skip_serializing_if = "is_default")]
    pub frames: usize,
    /// Where the head begins.
    #[serde(default, skip_serializing_if = "is_default")]
    pub head_start: HeadStart,
}

/// Where the head of a fine-tuning begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeadStart {
    /// As the closed-form probe of the frozen model.
    #[default]
    Probe,
    /// With small random weights.
    Fresh,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub trait TuneObserver: Observer {
    /// So many epochs of a configuration (counted from 0) are done; mean training loss of the last.
    fn epoch_done(&self, _seed: u64, _configuration: usize, _epochs: usize, _loss: f64) {}
}

/// Fine-tunes a model and leaves results, predictions, splits, models and heads in the folder. Run again, it goes on
/// after the last finished epoch. The first rank writes and has the result.
pub fn finetune(
    request: &HeadRequest<TuneSettings>,
    ranks: &dyn Ranks,
    observer: &dyn TuneObserver,
) -> Result<Option<HeadResult>, EvalError> {
    let settings = &request.settings;
    check(settings)?;
    let frozen = request.trusting.applied(FrozenModel::read_on(&request.model, &request.device)?);
    let cohort = Cohort::open(&request.data)?;
    let target = Target::of(cohort.participants(), &settings.target)?;
    let manifest = Division::of(&cohort)?.random(&settings.target, &settings.seeds)?;
    let asked = asked(&frozen, &cohort, &target, settings)?;
    ranks.agree_on_request(&asked, &cohort.content_blake3()?, 0)?;
    let folder = WorkFolder::open_with(&request.out, &asked, ranks)?;
    let (features, pooling) = (folder.join("features"), settings.pooling(frozen.model.config()));
    // One rank writes the cache; the others find it.
    if ranks.is_first() {
        cached_features(&features, &frozen, &cohort, pooling, observer)?;
        folder.write_json("splits.json", &manifest)?;
    }
    ranks.meet()?;
    let table = cached_features(&features, &frozen, &cohort, pooling, observer)?;
    let work = TuneWork::new(&frozen, &cohort, &target, settings, &table)?;
    let tune = |split| work.tune(&folder, split, ranks, observer);
    let found = manifest.splits.iter().map(tune).collect::<Result<Vec<_>, _>>()?;
    let (outcomes, members) = found.into_iter().unzip();
    if !ranks.is_first() {
        return Ok(None);
    }
    let head = work.head.clone().with(members);
    let first = FrozenModel::read_on(&folder.join(&head.members[0].model), &request.device)?;
    finish("finetune", request, &folder, (head, outcomes), [&frozen, &first], &cohort, observer).map(Some)
}

/// What a folder of a fine-tuning records, so that no other work goes on in it.
pub fn asked(
    frozen: &FrozenModel,
    cohort: &Cohort,
    target: &Target,
    settings: &TuneSettings,
) -> Result<serde_json::Value, EvalError> {
    Ok(json!({
        "verb": "finetune", "target": target.name, "settings": settings, "model_blake3": frozen.blake3,
        "cohort_blake3": cohort.content_blake3()?, "version": env!("CARGO_PKG_VERSION"),
        "instruction_set": bdo_kernels::Isa::current().to_string(), "pooling": settings.pooling(frozen.model.config()),
    }))
}

/// A model, a cohort and a label, ready to be fine-tuned under any split.
#[derive(Debug)]
pub struct TuneWork<'a> {
    frozen: &'a FrozenModel,
    cohort: &'a Cohort,
    target: &'a Target,
    settings: &'a TuneSettings,
    intake: Intake,
    /// The pooled control of the frozen model, which the probe that all begin with is fitted on.
    table: &'a FeatureTable,
    /// Number in the cohort of each row of the table.
    scans: Vec<usize>,
    parameters: Arc<Parameters>,
    /// Without members.
    head: FittedHead,
}

impl TuneSettings {
    /// What of the frozen model the start is fitted on, and what the tuned head reads in the end.
    pub fn pooling(&self, config: &ModelConfig) -> Pooling {
        let beside = config.fingerprint && self.head == HeadKind::Linear && self.head_start == HeadStart::Probe;
        if beside { Pooling::MeanMovement } else { Pooling::Mean }
    }

    /// The head that trains.
    pub fn head(&self, config: &ModelConfig, task: &TargetKind) -> HeadShape {
        let reads = match self.pooling(config) {
            Pooling::MeanMovement => Reads::Movement,
            _ if self.head == HeadKind::Attention => Reads::Attended,
            _ => Reads::Mean,
        };
        HeadShape::of(reads, config.width, task)
    }
}

impl<'a> TuneWork<'a> {
    /// Checks the settings and matches regions and scans. The table holds the control of the frozen model, pooled as
    /// [`TuneSettings::pooling`] says.
    pub fn new(
        frozen: &'a FrozenModel,
        cohort: &'a Cohort,
        target: &'a Target,
        settings: &'a TuneSettings,
        table: &'a FeatureTable,
    ) -> Result<Self, EvalError> {
        check(settings)?;
        let (config, pooling) = (frozen.model.config(), settings.pooling(frozen.model.config()));
        let width = pooling.width(config.width, config.regions);
        let passed_over = |i: &usize| table.passed_over.contains(&cohort.index()[*i].id.to_string());
        Ok(Self {
            intake: Intake::new(&frozen.contract, cohort)?,
            scans: (0..cohort.len()).filter(|i| !passed_over(i)).collect(),
            parameters: Arc::new(frozen.model.parameters()),
            head: FittedHead::of(target, pooling, settings.head, width, cohort.content_blake3()?),
            frozen,
            cohort,
            target,
            settings,
            table,
        })
    }

    /// One split: every configuration of the subset, the chosen model written below the folder, one test.
    pub fn tune(
        &self,
        folder: &WorkFolder,
        split: &Split,
        ranks: &dyn Ranks,
        observer: &dyn TuneObserver,
    ) -> Result<(SeedOutcome, Member), EvalError> {
        let (seed, target, config) = (split.seed(), self.target, self.frozen.model.config());
        let inputs: Vec<&usize> = self.scans.iter().collect();
        let parts = Parts::of(&self.table.rows, &inputs, target, split)?;
        let task = Task { cohort: self.cohort, split, target, seed, fit_on: FitOn::Train };
        let problem = Problem::of(&task, &self.table.rows)?;
        let head = self.settings.head(config, &target.kind);
        let beside = (self.head.pooling == Pooling::MeanMovement)
            .then(|| Beside::new(&problem, &self.table.features, (parts.units, head), seed))
            .transpose()?;
        let head_values = match (&beside, self.settings.head_start) {
            (Some(beside), _) => beside.start.clone(),
            (None, HeadStart::Probe) => head_of_probe(&problem.probe(&self.table.features, true)?, parts.units),
            (None, HeadStart::Fresh) => fresh_head(head, seed),
        };
        let start = TuneStart { config: config.clone(), head, parameters: self.parameters.clone(), head_values };
        let checkpoints = folder.join(&format!("seed{seed}/checkpoints"));
        let found = self.search((&start, beside.as_ref()), &parts, split, &checkpoints, ranks, observer)?;
        let (tried, chosen, parameters) = found;
        let chosen_point = json!({"point": tried[chosen].point, "epoch": tried[chosen].epoch});
        let mut member = Member::new(&format!("seed{seed}/model"), split, &parts, chosen_point.clone());
        let values = head_parameters(&parameters, head);
        member.parameters = beside.map_or_else(|| values.clone(), |beside| beside.summed(&values, head));
        // With the notes of the pre-training, which say how scans are cut.
        let tuned = ModelDirectory {
            config: start.config.clone(),
            preprocessor: self.frozen.contract.clone(),
            parameters: without_head(parameters),
            people: self.frozen.people.clone(),
            notes: self.frozen.notes.clone(),
        };
        if ranks.is_first() {
            publish(folder, &member, tuned, self.cohort, split, &target.name)?;
        }
        ranks.meet()?;
        member.model_blake3 = model_blake3(&folder.join(&member.model))?;
        member.know_scans(self.cohort);
        // One rank that stops here would leave the others waiting.
        let watching: &dyn Observer = if ranks.size() > 1 { &Unwatched } else { observer };
        let said = self.test_once(folder, &member, &parts.test, watching)?;
        let choices = [chosen_point, json!(tried)];
        Ok((SeedOutcome::of(split, &parts, tried[chosen].validation, choices, &said), member))
    }

    /// Predicts the test people with the chosen model as it was written.
    fn test_once(
        &self,
        folder: &WorkFolder,
        member: &Member,
        test: &Part<'_, usize>,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<f64>>, EvalError> {
        let head = self.head.clone().with(vec![member.clone()]);
        let frozen = FrozenModel::read_on(&folder.join(&member.model), &self.frozen.model.device())?;
        let numbers: Vec<usize> = test.scans.iter().flatten().map(|i| **i).collect();
        let (said, _) = predict_scans(&frozen, &head, &[0], self.cohort, &numbers, observer, |_, _| ())?;
        let said: BTreeMap<usize, Vec<f64>> = said.into_iter().map(|(i, values)| (i, mean_of(&values))).collect();
        Ok(test.said(|i| said[i].clone()))
    }
}

/// Work that goes on to its end and shows no progress.
pub(crate) struct Unwatched;

impl Observer for Unwatched {}

impl TuneObserver for Unwatched {}

fn check(settings: &TuneSettings) -> Result<(), EvalError> {
    let refuse = |name, expected, found: &str| Err(EvalError::named(name, expected, found));
    if settings.head == HeadKind::Ridge {
        return refuse("head", "linear or attention, which have gradients", "ridge");
    }
    if settings.epochs == 0 {
        return refuse("epochs", "at least 1", "0");
    }
    if settings.points.is_empty() {
        return refuse("budget", "1 to 36 configurations", "0");
    }
    check_seeds(&settings.seeds)
}

/// The fine-tuned model as a model directory; its training people are those of pre-training and of this split.
fn publish(
    folder: &WorkFolder,
    member: &Member,
    mut tuned: ModelDirectory,
    cohort: &Cohort,
    split: &Split,
    target: &str,
) -> Result<(), EvalError> {
    tuned.people.subjects.extend(member.train_people.iter().cloned());
    let trained = cohort.index().iter().filter(|entry| split.train.contains(&entry.id.subject));
    for entry in trained {
        tuned.people.scans.insert(entry.blake3.clone());
        tuned.people.sources.extend(Some(entry.source_blake3.clone()).filter(|hash| !hash.is_empty()));
    }
    let facts = CardFacts {
        name: "BDO".to_owned(),
        software_version: env!("CARGO_PKG_VERSION").to_owned(),
        data: format!("{} people with a value of {target}, after pre-training", member.train_people.len()),
        input: input_words(&tuned.config, Centre::Visible),
        training: format!("fine-tuned end to end on {target}, seed {}, {}.", member.seed, member.chosen),
        results: Vec::new(),
    };
    Ok(tuned.write(&folder.join(&member.model), &facts)?)
}
