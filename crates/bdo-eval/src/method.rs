//! The one signature that everything which predicts shares, and what it hands back.

use std::collections::BTreeMap;

use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use serde::{Deserialize, Serialize};

use crate::error::EvalError;
use crate::metric::Metrics;
use bdo_data::target::Target;

/// Who a closed-form method is fitted on. Its penalty is always chosen inside these people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitOn {
    /// Training people: what a method that needs validation people for its selection has too.
    #[default]
    Train,
    /// Training and validation people: all that are not tested.
    TrainAndValidation,
}

/// One prediction problem: a label, and who may be fitted on and who is tested.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    pub cohort: &'a Cohort,
    pub split: &'a Split,
    pub target: &'a Target,
    pub seed: u64,
    /// Who closed-form methods are fitted on.
    pub fit_on: FitOn,
}

impl Task<'_> {
    /// Whether a closed-form method may be fitted on a person.
    pub fn fits(&self, subject: &str) -> bool {
        let selects = self.fit_on == FitOn::TrainAndValidation && self.split.validation.contains(subject);
        self.split.train.contains(subject) || selects
    }

    /// What is said of a person, beside what is true; none without a label.
    pub fn prediction(&self, subject: &str, predicted: Vec<f64>) -> Option<Prediction> {
        Some(Prediction { subject: subject.to_owned(), truth: self.target.value(subject)?, predicted })
    }

    /// Scores predictions of test people; none without any.
    pub fn score(&self, predictions: &[Prediction]) -> Option<Metrics> {
        let truth: Vec<f64> = predictions.iter().map(|p| p.truth).collect();
        let said: Vec<f64> = predictions.iter().flat_map(|p| p.predicted.iter().copied()).collect();
        Metrics::of(self.target.classes().unwrap_or(0), &truth, &said, self.target.scale(&self.split.train).spread)
    }
}

/// What is said of one test person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub subject: String,
    /// The number, or the position of the class.
    pub truth: f64,
    /// The number in units of the label, or the probability of every class.
    pub predicted: Vec<f64>,
}

impl Prediction {
    /// The number, or the probability of the last class.
    pub fn said(&self) -> f64 {
        self.predicted.last().copied().unwrap_or(f64::NAN)
    }
}

/// What a method hands back for a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// One entry a test person; of several scans the mean.
    pub predictions: Vec<Prediction>,
    pub parameters: usize,
    pub fitted_on_blake3: String,
    /// Choices that were made on the way (the penalty, the epoch).
    pub chosen: BTreeMap<String, f64>,
    pub flags: Vec<String>,
}

/// Anything that can be a row of the table.
pub trait Method: Sync + Send {
    fn name(&self) -> &str;

    /// Everything besides cohort, split and seed that decides the result (settings, the hash of a model): a stored result is
    /// used again only if this is the same.
    fn fingerprint(&self) -> String;

    /// Fits on the task's training people and predicts its test people.
    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError>;
}
