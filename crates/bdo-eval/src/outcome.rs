//! What a probe or a fine-tuning came to, as files for people and programs.

use crate::error::EvalError;
use crate::fitted::FittedHead;
use crate::folder::WorkFolder;
use crate::method::Prediction;
use crate::metric::Metrics;
use crate::part::Parts;
use crate::predict::{PeopleScore, Trusting, predict, probability_columns, spelled};
use crate::score::{FEW_PEOPLE, Summary, summarise};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::division::Split;
use bdo_data::durable;
use bdo_data::target::{Target, TargetKind};
use bdo_model::familiarity::Familiarity;
use bdo_model::frozen::FrozenModel;
use burn::tensor::Device;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A model on a labelled cohort, and where results go.
#[derive(Clone, Debug)]
pub struct HeadRequest<S> {
    pub model: PathBuf,
    pub data: PathBuf,
    /// Further people, scored with what was fitted.
    pub test_data: Option<PathBuf>,
    /// The folder to make; a fine-tuning that is there is continued.
    pub out: PathBuf,
    /// What is taken for granted about the cohort.
    pub trusting: Trusting,
    pub device: Device,
    pub settings: S,
}

/// Refuses to repeat a seed, or to have none.
pub(crate) fn check_seeds(seeds: &[u64]) -> Result<(), EvalError> {
    if seeds.is_empty() || seeds.iter().enumerate().any(|(i, s)| seeds[..i].contains(s)) {
        return Err(EvalError::named("seeds", "at least one, each once", format!("{seeds:?}")));
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeedOutcome {
    pub seed: u64,
    pub split_blake3: String,
    /// Training, validation and test people with features.
    pub people: [usize; 3],
    /// The chosen configuration and epoch.
    pub chosen: serde_json::Value,
    pub validation: Metrics,
    /// Scores of the test people, computed once.
    pub test: Metrics,
    /// Every configuration with its validation scores.
    pub tried: serde_json::Value,
    #[serde(skip)]
    pub predictions: Vec<Prediction>,
}

impl SeedOutcome {
    /// What was chosen and tried, and what was said of the test people, in units of the label or as probabilities.
    pub(crate) fn of<I: ?Sized>(
        split: &Split,
        parts: &Parts<'_, I>,
        validation: Metrics,
        [chosen, tried]: [serde_json::Value; 2],
        said: &[Vec<f64>],
    ) -> Self {
        Self {
            seed: split.seed(),
            split_blake3: split.blake3.clone(),
            people: [parts.train.people.len(), parts.validation.people.len(), parts.test.people.len()],
            chosen,
            validation,
            test: parts.score(&parts.test, said),
            tried,
            predictions: parts.test.predictions(said),
        }
    }
}

/// Further people, scored with the fitted head.
#[derive(Clone, Debug, Serialize)]
pub struct TestData {
    pub cohort: PathBuf,
    /// Hash of all that cohort holds.
    pub cohort_blake3: String,
    /// People of it the head was fitted on: their scores mean nothing.
    pub seen_by_head: usize,
    /// People of it the model was pre-trained on.
    pub seen_by_model: usize,
    /// Scores, if anybody has a label.
    pub score: Option<PeopleScore>,
    #[serde(skip)]
    pub tsv: String,
}

/// `result.json`.
#[derive(Clone, Debug, Serialize)]
pub struct HeadResult {
    pub version: String,
    pub verb: &'static str,
    pub settings: serde_json::Value,
    pub task: TargetKind,
    pub cohort_blake3: String,
    /// Hashes of the models, one a seed.
    pub model_blake3: Vec<String>,
    pub seeds: Vec<SeedOutcome>,
    /// Mean and population spread of the test scores over seeds.
    pub summary: Vec<Summary>,
    /// Test people, over all seeds, that the model was pre-trained on.
    pub pretrained_test_people: usize,
    pub test_data: Option<TestData>,
}

/// Leaves the fitted head, the scans it knows and the result in the folder, with scores of further people. `models` are the
/// pre-trained one and that of the first member.
pub(crate) fn finish<S: Serialize>(
    verb: &'static str,
    request: &HeadRequest<S>,
    folder: &WorkFolder,
    (mut head, seeds): (FittedHead, Vec<SeedOutcome>),
    models: [&FrozenModel; 2],
    cohort: &Cohort,
    observer: &dyn Observer,
) -> Result<HeadResult, EvalError> {
    head.write(folder.path())?;
    // Scans are familiar to a head that are like those of the people its first member was fitted on.
    let fitted_on = head.members[0].people().known_in(cohort);
    let (training, others): (Vec<usize>, Vec<usize>) =
        (0..cohort.len()).partition(|i| fitted_on.is_trained(&cohort.index()[*i].id.subject));
    if let Some(found) = Familiarity::of_cohort(models[1], cohort, &training, &others, observer)? {
        found.write(folder.path(), &models[1].blake3)?;
    }
    let place = (request.trusting, &request.device);
    let further = request.test_data.as_ref().map(|path| score_further(folder, &head, path, place, observer));
    let test_data = further.transpose()?;
    let pretrained = models[0].people.known_in(cohort);
    let scores: Vec<Metrics> = seeds.iter().map(|s| s.test).collect();
    let tested: BTreeSet<&str> = seeds.iter().flat_map(|s| &s.predictions).map(|p| p.subject.as_str()).collect();
    let result = HeadResult {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        verb,
        settings: serde_json::json!(request.settings),
        task: head.task,
        cohort_blake3: head.cohort_blake3,
        model_blake3: head.members.into_iter().map(|m| m.model_blake3).collect(),
        summary: summarise(&scores),
        pretrained_test_people: tested.into_iter().filter(|person| pretrained.is_trained(person)).count(),
        seeds,
        test_data,
    };
    result.write(folder)?;
    Ok(result)
}

/// Scores further people with the head that was just fitted.
fn score_further(
    folder: &WorkFolder,
    head: &FittedHead,
    data: &Path,
    (trusting, device): (Trusting, &Device),
    observer: &dyn Observer,
) -> Result<TestData, EvalError> {
    let cohort = Cohort::open(data)?;
    let predictions = predict(folder.path(), head, &cohort, (trusting, device), observer)?;
    let target = Target::read_as(cohort.participants(), &head.target, &head.task)?;
    let (seen_by_head, seen_by_model) = predictions.seen();
    Ok(TestData {
        cohort: data.to_path_buf(),
        cohort_blake3: cohort.content_blake3()?,
        seen_by_head,
        seen_by_model,
        score: predictions.score(head, &target),
        tsv: predictions.to_tsv(head, None),
    })
}

impl HeadResult {
    /// Writes `predictions.tsv`, `table.md`, those of further people, and `result.json` last.
    pub(crate) fn write(&self, folder: &WorkFolder) -> Result<(), EvalError> {
        let seeds = self.seeds.iter().map(|seed| (seed.seed, seed.predictions.as_slice()));
        durable::write(&folder.join("predictions.tsv"), predictions_tsv(&self.task, seeds).as_bytes())?;
        if let Some(further) = &self.test_data {
            durable::write(&folder.join("test_data_predictions.tsv"), further.tsv.as_bytes())?;
        }
        durable::write(&folder.join("table.md"), self.table().as_bytes())?;
        folder.write_json("result.json", self)
    }

    /// A Markdown table: scores of the test people, and of further people where there are any.
    pub fn table(&self) -> String {
        let further = self.test_data.as_ref().and_then(|t| t.score.as_ref());
        let mut out = String::from("| score | test people |");
        out.push_str(if further.is_some() { " further people | further people, seeds together |\n" } else { "\n" });
        out.push_str(if further.is_some() { "|---|---|---|---|\n" } else { "|---|---|\n" });
        for (i, row) in self.summary.iter().enumerate() {
            out.push_str(&format!("| {} | {} |", row.name, row.shown()));
            if let Some(further) = further {
                let together = shown(further.together.named()[i].1);
                out.push_str(&format!(" {} | {together} |", further.summary[i].shown()));
            }
            out.push('\n');
        }
        let counts: Vec<String> = self.seeds.iter().map(|s| s.people[2].to_string()).collect();
        out.push_str(&format!(
            "\nTest people per seed: {}. Mean and population spread over seeds.\n",
            counts.join(", ")
        ));
        if let Some(few) = self.seeds.iter().map(|s| s.people[2]).min().filter(|n| *n < FEW_PEOPLE) {
            out.push_str(&format!(
                "Only {few} people were tested in a split: the score of others may be quite another one.\n"
            ));
        }
        if self.pretrained_test_people > 0 {
            out.push_str(&format!(
                "{} test people were in the pre-training of the model (without labels).\n",
                self.pretrained_test_people
            ));
        }
        if let Some(test) = &self.test_data
            && test.seen_by_head + test.seen_by_model > 0
        {
            out.push_str(&format!(
                "Of the further people, {} were trained on by a head and {} by the model.\n",
                test.seen_by_head, test.seen_by_model
            ));
        }
        out
    }
}

/// Predictions of test people, one line each: the number, the probability of the second class, or of more classes that of each.
pub fn predictions_tsv<'a>(task: &TargetKind, seeds: impl Iterator<Item = (u64, &'a [Prediction])>) -> String {
    let classes = task.classes();
    let named = if classes.len() == 2 { &classes[1..] } else { classes };
    let columns = if named.is_empty() { "\tprediction".to_owned() } else { probability_columns(named) };
    let mut out = format!("seed\tsubject\ttruth{columns}\n");
    for (seed, person) in seeds.flat_map(|(seed, people)| people.iter().map(move |person| (seed, person))) {
        out.push_str(&format!("{seed}\t{}\t{}", person.subject, spelled(task, person.truth)));
        let said = if person.predicted.len() > 2 { person.predicted.as_slice() } else { &[person.said()] };
        said.iter().for_each(|x| out.push_str(&format!("\t{x}")));
        out.push('\n');
    }
    out
}

impl Summary {
    fn shown(&self) -> String {
        let spread = self.spread.map_or_else(String::new, |spread| format!(" +- {spread:.4}"));
        format!("{}{spread}", shown(self.mean))
    }
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |x| format!("{x:.4}"))
}
