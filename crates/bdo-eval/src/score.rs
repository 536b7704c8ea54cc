//! How good predictions are: what selects among epochs and heads, and how seeds are summed up.

use crate::fit::Loss;
use crate::fitted::mean_of;
use crate::metric::Metrics;
use crate::supervised::learner::Example;
use crate::supervised::recipe::Selection;
use bdo_data::record::{Loss as LossTerms, Terms, ValidationEntry};
use bdo_data::target::{LabelScale, TargetKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Under so many tested people a score says little of others, and resampling them too.
pub(crate) const FEW_PEOPLE: usize = 20;

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
        // Numbers are z-scored already, so their standard deviation is one.
        let found = Metrics::of(loss.classes(), &truth, &said.concat(), 1.0);
        found.map_or(nobody, |metrics| Self::from(&metrics))
    }

    pub(crate) fn entry(&self, step: u64, scans: usize) -> ValidationEntry {
        let named = [("accuracy", self.accuracy), ("macro_f1", self.macro_f1), ("rho", self.rho)];
        let measures = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        ValidationEntry { step, loss: LossTerms::plain(self.loss), measures: Terms(measures.collect()), scans }
    }

    pub(crate) fn of_entry(entry: &ValidationEntry) -> Self {
        let value = |name: &str| entry.measures.0.get(name).copied();
        let (accuracy, macro_f1, rho) = (value("accuracy"), value("macro_f1"), value("rho"));
        Self { loss: entry.loss.total, accuracy, macro_f1, rho }
    }

    /// Whether this is to be chosen over the best one so far.
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

/// The same of scores of people.
pub fn beats(first: &Metrics, second: &Metrics, selection: Selection) -> bool {
    Score::from(first).beats(&Score::from(second), selection)
}

/// Whether losses of people lie below other losses of the same people by more than the standard error of the difference: of a few
/// dozen people, anything less is mostly luck.
pub fn surely_lower(losses: &[f64], others: &[f64]) -> bool {
    let gains: Vec<f64> = others.iter().zip(losses).map(|(other, loss)| other - loss).collect();
    let (mean, spread) = mean_and_spread(&gains);
    mean > spread / (gains.len() as f64).sqrt()
}

/// Label and mean prediction of each person, by number.
pub fn by_person<H>(examples: &[Example<H>], predictions: &[Vec<f64>]) -> BTreeMap<usize, (f64, Vec<f64>)> {
    let mut people: BTreeMap<usize, (f64, Vec<Vec<f64>>)> = BTreeMap::new();
    for (example, said) in examples.iter().zip(predictions) {
        people.entry(example.person).or_insert((f64::from(example.label), vec![])).1.push(said.clone());
    }
    people.into_iter().map(|(person, (label, said))| (person, (label, mean_of(&said)))).collect()
}

/// Scores what is said of at least one person: a number in units of the label, or the probabilities of all classes.
pub fn score_rows(task: &TargetKind, said: &[Vec<f64>], labels: &[f64], units: LabelScale) -> Metrics {
    let found = Metrics::of(task.classes().len(), labels, &said.concat(), units.spread);
    found.expect("parts without people were refused")
}

/// Mean and population spread of each score over seeds; none where a seed has none, and no spread of a single seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub name: String,
    pub mean: Option<f64>,
    /// Population standard deviation over seeds.
    pub spread: Option<f64>,
}

/// Mean and population standard deviation.
pub fn mean_and_spread(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt())
}

pub fn summarise(scores: &[Metrics]) -> Vec<Summary> {
    let names = scores.first().map(Metrics::named).unwrap_or_default();
    let one = |name: &'static str| {
        let values: Option<Vec<f64>> = scores.iter().map(|s| s.get(name)).collect();
        let (mean, spread) = values.map(|values| mean_and_spread(&values)).unzip();
        Summary { name: name.to_owned(), mean, spread: spread.filter(|_| scores.len() > 1) }
    };
    names.into_iter().map(|(name, _)| one(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::ClassificationMetrics;

    fn classes(accuracy: f64, macro_f1: f64, log_loss: f64) -> Metrics {
        Metrics::Classification(ClassificationMetrics {
            accuracy,
            macro_f1,
            log_loss,
            balanced_accuracy: 0.0,
            auc: None,
            brier: 0.0,
            calibration_error: 0.0,
        })
    }

    #[test]
    fn ties_are_broken_by_f1_then_loss() {
        let beats = |first: &Metrics, second: &Metrics| beats(first, second, Selection::Protocol);
        assert!(beats(&classes(0.7, 0.1, 9.0), &classes(0.6, 0.9, 0.1)));
        assert!(beats(&classes(0.7, 0.6, 9.0), &classes(0.7, 0.5, 0.1)));
        assert!(beats(&classes(0.7, 0.6, 0.3), &classes(0.7, 0.6, 0.4)));
        assert!(!beats(&classes(0.7, 0.6, 0.4), &classes(0.7, 0.6, 0.4)), "of equal ones the first stays");
    }

    #[test]
    fn people_count_once_and_ties_go_by_f1_then_loss() {
        let example = |label: f32, person: usize| Example { scan: (), label, person, said: vec![] };
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

    #[test]
    fn a_gain_within_its_standard_error_is_none() {
        let others = [1.0, 2.0, 3.0, 4.0];
        assert!(surely_lower(&others.map(|x| x - 0.01), &others), "small and the same for all");
        assert!(!surely_lower(&others, &others) && !surely_lower(&[0.0, 2.5, 3.5, 3.5], &others));
        assert!(surely_lower(&[0.0, 1.5, 2.5, 4.1], &others));
    }

    #[test]
    fn the_spread_is_that_of_the_population() {
        // 25, 26 and 28 of 35 right: the known 75.24 +- 3.56 percent.
        let scores: Vec<Metrics> = [25.0, 26.0, 28.0].iter().map(|k| classes(k / 35.0, 0.0, 0.0)).collect();
        let found = summarise(&scores);
        assert_eq!(found[0].name, "accuracy");
        assert!(
            (found[0].mean.unwrap_or(0.0) - 0.7524).abs() < 5e-5
                && (found[0].spread.unwrap_or(0.0) - 0.0356).abs() < 5e-5
        );
        assert_eq!(found[2].mean, None, "no seed has an AUC");
    }
}
