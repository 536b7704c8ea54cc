//! How good predictions are: what selects among heads, and what is reported.

use crate::target::Task;
use serde::{Deserialize, Serialize};

/// Scores of one set of people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// Of a number.
    Regression {
        /// Mean squared error of the z-scored label.
        mse: f64,
        /// Pearson correlation; not a number for constant predictions.
        rho: f64,
        /// Mean absolute error in units of the label.
        mae: f64,
    },
    /// Of two classes.
    Classification {
        /// Share of people classified rightly.
        accuracy: f64,
        /// Mean over classes of F1.
        macro_f1: f64,
        /// Mean over classes of recall.
        balanced_accuracy: f64,
        /// Area under the ROC curve.
        auc: f64,
        /// Mean squared error of the probability.
        brier: f64,
        /// Mean cross-entropy.
        loss: f64,
    },
}

impl Score {
    /// Scores predictions (numbers in z units, or probabilities of the second class) against labels in the same units;
    /// `unit` is what one z unit is worth.
    pub fn of(task: &Task, predictions: &[f64], labels: &[f64], unit: f64) -> Self {
        let n = labels.len() as f64;
        let mean =
            |f: &dyn Fn(f64, f64) -> f64| predictions.iter().zip(labels).map(|(&p, &y)| f(p, y)).sum::<f64>() / n;
        match task {
            Task::Regression => Self::Regression {
                mse: mean(&|p, y| (p - y) * (p - y)),
                rho: correlation(predictions, labels),
                mae: unit * mean(&|p, y| (p - y).abs()),
            },
            Task::Classification { .. } => {
                let count = |said: bool, is: bool| {
                    predictions.iter().zip(labels).filter(|(p, y)| (**p >= 0.5) == said && (**y > 0.5) == is).count()
                        as f64
                };
                let (tp, fp, miss, tn) =
                    (count(true, true), count(true, false), count(false, true), count(false, false));
                let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
                let bounded = |p: f64| p.clamp(1e-12, 1.0 - 1e-12);
                Self::Classification {
                    accuracy: (tp + tn) / n,
                    macro_f1: (ratio(2.0 * tp, 2.0 * tp + fp + miss) + ratio(2.0 * tn, 2.0 * tn + fp + miss)) / 2.0,
                    balanced_accuracy: (ratio(tp, tp + miss) + ratio(tn, tn + fp)) / 2.0,
                    auc: area_under_roc(predictions, labels),
                    brier: mean(&|p, y| (p - y) * (p - y)),
                    loss: mean(&|p, y| -(y * bounded(p).ln() + (1.0 - y) * bounded(1.0 - p).ln())),
                }
            }
        }
    }

    /// Whether this is the better one to choose: lower squared error; or higher accuracy, then macro-F1, then lower loss.
    pub fn beats(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Regression { mse: a, .. }, Self::Regression { mse: b, .. }) => a < b,
            (
                Self::Classification { accuracy: a1, macro_f1: f1, loss: l1, .. },
                Self::Classification { accuracy: a2, macro_f1: f2, loss: l2, .. },
            ) => (*a1, *f1, -*l1) > (*a2, *f2, -*l2),
            _ => false,
        }
    }

    /// Names and values in order.
    pub fn values(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::Regression { mse, rho, mae } => vec![("mse", mse), ("rho", rho), ("mae", mae)],
            Self::Classification { accuracy, macro_f1, balanced_accuracy, auc, brier, loss } => vec![
                ("accuracy", accuracy),
                ("macro_f1", macro_f1),
                ("balanced_accuracy", balanced_accuracy),
                ("auc", auc),
                ("brier", brier),
                ("loss", loss),
            ],
        }
    }
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let (ma, mb) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

/// Share of pairs of one person of each class that are in the right order, ties counting half.
fn area_under_roc(predictions: &[f64], labels: &[f64]) -> f64 {
    let mut ranked: Vec<(f64, bool)> = predictions.iter().zip(labels).map(|(&p, &y)| (p, y > 0.5)).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut negatives, mut pairs) = (0.0, 0.0);
    for tied in ranked.chunk_by(|a, b| a.0 == b.0) {
        let positive = tied.iter().filter(|x| x.1).count() as f64;
        let negative = tied.len() as f64 - positive;
        pairs += positive * (negatives + negative / 2.0);
        negatives += negative;
    }
    pairs / (negatives * (ranked.len() as f64 - negatives))
}

/// Mean and population spread of each score over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the score.
    pub name: String,
    /// Mean over seeds.
    pub mean: f64,
    /// Population standard deviation over seeds.
    pub spread: f64,
}

/// Summarises the scores of several seeds.
pub fn summarise(scores: &[Score]) -> Vec<Summary> {
    let Some(first) = scores.first() else { return Vec::new() };
    let all: Vec<Vec<(&str, f64)>> = scores.iter().map(Score::values).collect();
    (first.values().iter().enumerate())
        .map(|(i, (name, _))| {
            let n = all.len() as f64;
            let mean = all.iter().map(|s| s[i].1).sum::<f64>() / n;
            let spread = (all.iter().map(|s| (s[i].1 - mean).powi(2)).sum::<f64>() / n).sqrt();
            Summary { name: (*name).to_owned(), mean, spread }
        })
        .collect()
}
