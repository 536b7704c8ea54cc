//! How good an epoch is on the validation people.

use super::learner::Example;
use super::recipe::Selection;
use crate::fit::Loss;
use crate::fitted::mean_of;
use crate::metric::Metrics;
use bdo_data::record::{Loss as LossTerms, Terms, ValidationEntry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the validation people say about an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Mean cross-entropy, or mean squared error.
    pub loss: f64,
    /// Share of people whose class is right; none for numbers.
    pub accuracy: Option<f64>,
    /// Mean of the F1 of all classes; none for numbers.
    pub macro_f1: Option<f64>,
    /// Pearson correlation; none for classes, or where nothing varies.
    pub rho: Option<f64>,
}

impl Score {
    /// Scores predictions of scans, averaged over the scans of a person.
    pub fn of<H>(loss: Loss, examples: &[Example<H>], predictions: &[Vec<f64>]) -> Self {
        let (truth, said): (Vec<f64>, Vec<Vec<f64>>) = by_person(examples, predictions).into_values().unzip();
        let zero = (loss != Loss::SquaredError).then_some(0.0);
        let nobody = Self { loss: 0.0, accuracy: zero, macro_f1: zero, rho: None };
        let classes = if loss == Loss::SquaredError { 0 } else { loss.outputs().max(2) };
        // Numbers are z-scored already, so their standard deviation is one.
        let found = Metrics::of(classes, &truth, &said.concat(), 1.0);
        found.map_or(nobody, |metrics| Self::from(&metrics))
    }

    pub(super) fn entry(&self, step: u64, scans: usize) -> ValidationEntry {
        let named = [("accuracy", self.accuracy), ("macro_f1", self.macro_f1), ("rho", self.rho)];
        let measures = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        ValidationEntry { step, loss: LossTerms::plain(self.loss), measures: Terms(measures.collect()), scans }
    }

    pub(super) fn of_entry(entry: &ValidationEntry) -> Self {
        let value = |name: &str| entry.measures.0.get(name).copied();
        let (accuracy, macro_f1, rho) = (value("accuracy"), value("macro_f1"), value("rho"));
        Self { loss: entry.loss.total, accuracy, macro_f1, rho }
    }

    /// Whether this epoch is to be chosen over the best one so far.
    pub fn beats(&self, best: &Self, selection: Selection) -> bool {
        let by_loss = self.loss < best.loss;
        match selection {
            Selection::LossAfter(_) => by_loss,
            Selection::Protocol => match (self.accuracy, best.accuracy, self.macro_f1, best.macro_f1) {
                (Some(a), Some(b), Some(f), Some(g)) => (a, f) > (b, g) || ((a, f) == (b, g) && by_loss),
                _ => by_loss,
            },
        }
    }
}

impl From<&Metrics> for Score {
    fn from(metrics: &Metrics) -> Self {
        match metrics {
            Metrics::Regression(m) => Self { loss: m.mse, accuracy: None, macro_f1: None, rho: m.rho },
            Metrics::Classification(m) => {
                Self { loss: m.log_loss, accuracy: Some(m.accuracy), macro_f1: Some(m.macro_f1), rho: None }
            }
        }
    }
}

/// Label and mean prediction of each person, by number.
pub fn by_person<H>(examples: &[Example<H>], predictions: &[Vec<f64>]) -> BTreeMap<usize, (f64, Vec<f64>)> {
    let mut people: BTreeMap<usize, (f64, Vec<Vec<f64>>)> = BTreeMap::new();
    for (example, said) in examples.iter().zip(predictions) {
        people.entry(example.person).or_insert((f64::from(example.label), vec![])).1.push(said.clone());
    }
    people.into_iter().map(|(person, (label, said))| (person, (label, mean_of(&said)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_count_once_and_ties_go_by_f1_then_loss() {
        let example = |label: f32, person: usize| Example { scan: (), label, person };
        let examples = [example(1.0, 0), example(1.0, 0), example(0.0, 1), example(0.0, 2)];
        let said = [0.2, 0.9, 0.1, 0.7].map(|p| vec![1.0 - p, p]);
        let score = Score::of(Loss::CrossEntropy, &examples, &said);
        assert!((score.accuracy.unwrap_or(0.0) - 2.0 / 3.0).abs() < 1e-12, "{score:?}");
        // One of two said positive is: F1 2/3; one of two negatives found and no other said: 2/3.
        assert!((score.macro_f1.unwrap_or(0.0) - 2.0 / 3.0).abs() < 1e-12, "{score:?}");
        let better = Score { loss: score.loss - 0.1, ..score };
        assert!(better.beats(&score, Selection::Protocol) && !score.beats(&better, Selection::Protocol));
        let surer = Score { accuracy: Some(0.9), loss: 9.0, ..score };
        assert!(surer.beats(&better, Selection::Protocol) && !surer.beats(&better, Selection::LossAfter(5)));
    }
}
