//! How good predictions are: what selects among heads, and how seeds are summed up.

use crate::metric::{Metrics, classification, regression};
use crate::supervised::recipe::Selection;
use crate::supervised::select::Score;
use bdo_data::target::{LabelScale, TargetKind};
use serde::{Deserialize, Serialize};

/// Scores predictions (numbers in units of the label, or probabilities of the second class) against labels (numbers, or 0
/// and 1) of at least one person.
pub fn score(task: &TargetKind, predictions: &[f64], labels: &[f64], units: LabelScale) -> Metrics {
    const SOMEBODY: &str = "parts without people were refused";
    match task {
        TargetKind::Regression => Metrics::Regression(regression(labels, predictions, units.spread).expect(SOMEBODY)),
        TargetKind::Classification { .. } => {
            let codes: Vec<usize> = labels.iter().map(|y| usize::from(*y > 0.5)).collect();
            let probabilities: Vec<f64> = predictions.iter().flat_map(|p| [1.0 - p, *p]).collect();
            Metrics::Classification(classification(&codes, &probabilities, 2).expect(SOMEBODY))
        }
    }
}

/// What one output says of each person, as rows: a number, or the probabilities of both classes.
pub fn rows_of_one_output(task: &TargetKind, said: &[f64]) -> Vec<Vec<f64>> {
    let row = |&said: &f64| if *task == TargetKind::Regression { vec![said] } else { vec![1.0 - said, said] };
    said.iter().map(row).collect()
}

/// Scores what is said of people: a number in units of the label, or the probabilities of all classes.
pub fn score_rows(task: &TargetKind, said: &[Vec<f64>], labels: &[f64], units: LabelScale) -> Metrics {
    match task {
        TargetKind::Regression => {
            let numbers: Vec<f64> = said.iter().map(|row| row[0]).collect();
            score(task, &numbers, labels, units)
        }
        TargetKind::Classification { classes } => {
            let codes: Vec<usize> = labels.iter().map(|y| *y as usize).collect();
            let found = classification(&codes, &said.concat(), classes.len());
            Metrics::Classification(found.expect("parts without people were refused"))
        }
    }
}

/// Whether the first is the better one to choose: lower squared error; or higher accuracy, then macro-F1, then lower loss.
pub fn beats(first: &Metrics, second: &Metrics) -> bool {
    Score::from(first).beats(&Score::from(second), Selection::Protocol)
}

/// Mean and population spread of each score over seeds; none where a seed has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the score.
    pub name: String,
    /// Mean over seeds.
    pub mean: Option<f64>,
    /// Population standard deviation over seeds.
    pub spread: Option<f64>,
}

/// Summarises the scores of several seeds.
pub fn summarise(scores: &[Metrics]) -> Vec<Summary> {
    let names = scores.first().map(Metrics::named).unwrap_or_default();
    let n = scores.len() as f64;
    let one = |name: &'static str| {
        let values: Option<Vec<f64>> = scores.iter().map(|s| s.get(name)).collect();
        let mean = values.as_ref().map(|v| v.iter().sum::<f64>() / n);
        let spread = values.zip(mean).map(|(v, m)| (v.iter().map(|x| (x - m).powi(2)).sum::<f64>() / n).sqrt());
        Summary { name: name.to_owned(), mean, spread }
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
        assert!(beats(&classes(0.7, 0.1, 9.0), &classes(0.6, 0.9, 0.1)));
        assert!(beats(&classes(0.7, 0.6, 9.0), &classes(0.7, 0.5, 0.1)));
        assert!(beats(&classes(0.7, 0.6, 0.3), &classes(0.7, 0.6, 0.4)));
        assert!(!beats(&classes(0.7, 0.6, 0.4), &classes(0.7, 0.6, 0.4)), "of equal ones the first stays");
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
