//! Fine-tuning of encoder, control and head end to end: a model for each seed, chosen by validation and tested once.

pub mod grid;
mod seed;
pub mod tuned;
pub mod visit;

pub use grid::TunePoint;
pub use seed::TuneOutcome;

use crate::error::EvalError;
use crate::features::ScanRow;
use crate::fitted::{FittedHead, HeadFacts, HeadKind, Member, mean_of};
use crate::folder::WorkFolder;
use crate::outcome::{HeadRequest, HeadResult, SeedOutcome, check_seeds};
use crate::part::{Part, Parts};
use crate::predict::predict_scans;
use crate::probe::{remember_people, score_further};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::division::{Division, Split};
use bdo_data::target::{LabelScale, Target};
use bdo_model::frozen::{FrozenModel, model_blake3};
use bdo_model::intake::{Centre, Intake, Windows};
use bdo_model::pooling::Pooling;
use bdo_model::weights::{CardFacts, ModelDirectory, input_words};
use rayon::prelude::*;
use seed::{CohortScans, SeedTuning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tuned::{HeadShape, TuneStart, head_parameters, without_head};

/// What decides a fine-tuning, besides model and data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuneSettings {
    /// The label.
    pub target: String,
    /// How frames are pooled: their mean (linear) or by attention.
    pub head: HeadKind,
    /// Seeds of splits, heads and orders.
    pub seeds: Vec<u64>,
    /// Epochs of every configuration.
    pub epochs: usize,
    /// Frames drawn of a scan in training; 0 for all. Validation and test see whole scans.
    pub frames: usize,
    /// Configurations that are run.
    pub points: Vec<TunePoint>,
}

/// Follows a fine-tuning.
pub trait TuneObserver: Observer {
    /// So many epochs of a configuration (counted from 0) are done; mean training loss of the last.
    fn epoch_done(&self, _seed: u64, _configuration: usize, _epochs: usize, _loss: f64) {}
}

/// Fine-tunes a model and leaves results, predictions, splits, models and heads in the folder. Run again, it goes on
/// after the last finished epoch.
pub fn finetune(request: &HeadRequest<TuneSettings>, observer: &dyn TuneObserver) -> Result<HeadResult, EvalError> {
    let settings = &request.settings;
    check(settings)?;
    let mut directory = ModelDirectory::read(&request.model)?;
    request.trusting.apply(&mut directory.people, &mut directory.preprocessor);
    let cohort = Cohort::open(&request.data)?;
    let target = Target::of(cohort.participants(), &settings.target)?;
    let manifest = Division::of(&cohort)?.random(&settings.target, &settings.seeds)?;
    let work = TuneWork::new(&directory, &cohort, &target, settings)?;
    let asked = work.asked(&model_blake3(&request.model)?);
    let folder = WorkFolder::open(&request.out, &asked)?;
    folder.write_json("splits.json", &manifest)?;
    let (mut outcomes, mut members) = (Vec::new(), Vec::new());
    for split in &manifest.splits {
        let (outcome, member) = work.tune(&folder, split, observer)?;
        outcomes.push(outcome);
        members.push(member);
    }
    let mut head = FittedHead::new(work.facts, members);
    head.write(folder.path())?;
    let first = FrozenModel::read(&folder.join(&head.members[0].model))?;
    remember_people(&folder, &head, &first, &cohort, observer)?;
    let test_data = request
        .test_data
        .as_ref()
        .map(|path| score_further(&folder, &head, path, request.trusting, observer))
        .transpose()?;
    let outcome =
        HeadResult::new("finetune", &head, outcomes, test_data, &directory.people.known_in(&cohort), settings);
    outcome.write(&folder)?;
    Ok(outcome)
}

/// A model, a cohort and a label, ready to be fine-tuned under any split.
#[derive(Debug)]
pub struct TuneWork<'a> {
    directory: &'a ModelDirectory,
    cohort: &'a Cohort,
    target: &'a Target,
    settings: &'a TuneSettings,
    intake: Intake,
    rows: Vec<ScanRow>,
    scans: Vec<usize>,
    facts: HeadFacts,
}

impl<'a> TuneWork<'a> {
    /// Checks the settings, matches regions and finds the scans that can be used.
    pub fn new(
        directory: &'a ModelDirectory,
        cohort: &'a Cohort,
        target: &'a Target,
        settings: &'a TuneSettings,
    ) -> Result<Self, EvalError> {
        check(settings)?;
        let intake = Intake::new(&directory.preprocessor, cohort)?;
        let (rows, scans) = usable_scans(cohort, &intake)?;
        let facts = HeadFacts {
            target: target.name.clone(),
            task: target.kind.clone(),
            pooling: Pooling::Mean,
            kind: settings.head,
            width: directory.config.width,
            cohort_blake3: cohort.content_blake3()?,
        };
        Ok(Self { directory, cohort, target, settings, intake, rows, scans, facts })
    }

    /// What a folder of this work records, so that no other work goes on in it.
    pub fn asked(&self, model_hash: &str) -> serde_json::Value {
        serde_json::json!({
            "verb": "finetune", "target": self.target.name, "settings": self.settings, "model_blake3": model_hash,
            "cohort_blake3": self.facts.cohort_blake3, "version": env!("CARGO_PKG_VERSION"),
            "instruction_set": bdo_kernels::Isa::current().to_string(),
        })
    }

    /// One split: every configuration of the subset, the chosen model written below the folder, one test.
    pub fn tune(
        &self,
        folder: &WorkFolder,
        split: &Split,
        observer: &dyn TuneObserver,
    ) -> Result<(SeedOutcome, Member), EvalError> {
        let (seed, target, directory) = (split.seed(), self.target, self.directory);
        let inputs: Vec<&usize> = self.scans.iter().collect();
        let parts = Parts::of(&self.rows, &inputs, target, split)?;
        let units = LabelScale::fit(&target.kind, &parts.train.labels);
        let tuning = SeedTuning {
            settings: self.settings,
            scans: CohortScans { cohort: self.cohort, intake: &self.intake, frames: self.settings.frames },
            start: TuneStart {
                config: directory.config.clone(),
                head: HeadShape::of(self.settings.head, directory.config.width, &target.kind),
                parameters: Arc::new(directory.parameters.clone()),
            },
            task: &target.kind,
            train: &parts.train,
            validation: &parts.validation,
            units,
            seed,
            checkpoints: folder.join(&format!("seed{seed}/checkpoints")),
        };
        let (tried, chosen, parameters) = tuning.run(&self.settings.points, observer)?;
        let chosen_point = serde_json::json!({"point": tried[chosen].point, "epoch": tried[chosen].epoch});
        let model = format!("seed{seed}/model");
        let mut member = Member::new(&model, split, &parts.train.people, units, chosen_point);
        member.parameters = head_parameters(&parameters, tuning.start.head);
        // The notes are of the pre-training; a tuned model takes whole scans.
        let tuned = ModelDirectory { parameters: without_head(parameters), notes: None, ..directory.clone() };
        publish(folder, &member, tuned, self.cohort, split, &target.name)?;
        member.model_blake3 = model_blake3(&folder.join(&member.model))?;
        member.know_scans(self.cohort);
        let said = self.test_once(folder, &member, &parts.test, observer)?;
        let outcome = SeedOutcome {
            chosen: member.chosen.clone(),
            tried: serde_json::json!(tried),
            ..SeedOutcome::of(split, &parts, tried[chosen].validation, &target.kind, &said, units)
        };
        Ok((outcome, member))
    }

    /// Predicts the test people with the chosen model as it was written.
    fn test_once(
        &self,
        folder: &WorkFolder,
        member: &Member,
        test: &Part<'_, usize>,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<f64>>, EvalError> {
        let head = FittedHead::new(self.facts.clone(), vec![member.clone()]);
        let frozen = FrozenModel::read(&folder.join(&member.model))?;
        let numbers: Vec<usize> = test.scans.iter().flatten().map(|i| **i).collect();
        let said: BTreeMap<usize, Vec<f64>> =
            predict_scans(&frozen, &head, &[0], self.cohort, &numbers, observer, |_, _| ())?
                .said
                .into_iter()
                .map(|(i, values)| (i, mean_of(&values)))
                .collect();
        let mean = |scans: &Vec<&usize>| mean_of(&scans.iter().map(|i| said[*i].clone()).collect::<Vec<_>>());
        Ok(test.scans.iter().map(mean).collect())
    }
}

fn check(settings: &TuneSettings) -> Result<(), EvalError> {
    let refuse = |name, expected, found: &str| Err(EvalError::setting(name, expected, found));
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

/// Scans with a usable region, short enough to be trained on whole.
fn usable_scans(cohort: &Cohort, intake: &Intake) -> Result<(Vec<ScanRow>, Vec<usize>), EvalError> {
    let usable: Vec<bool> = (0..cohort.len())
        .into_par_iter()
        .map(|i| {
            Ok(cohort.index()[i].frames <= Windows::WHOLE_SCANS.longest_whole
                && intake.scale(&cohort.scan(i)?).is_some())
        })
        .collect::<Result<_, bdo_data::cohort::CohortError>>()?;
    let scans: Vec<usize> = (0..cohort.len()).filter(|i| usable[*i]).collect();
    if scans.is_empty() {
        return Err(EvalError::NoScans { cohort: cohort.folder().to_path_buf() });
    }
    Ok((scans.iter().map(|i| ScanRow::of(&cohort.index()[*i])).collect(), scans))
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
