//! How good predictions are: what selects among heads, and how seeds are summed up.

use crate::metric::Metrics;
use crate::supervised::recipe::Selection;
use crate::supervised::select::Score;
use bdo_data::target::{LabelScale, TargetKind};
use serde::{Deserialize, Serialize};

/// Under so many tested people a score says little of others, and resampling them too.
pub(crate) const FEW_PEOPLE: usize = 20;

/// Scores what is said of at least one person: a number in units of the label, or the probabilities of all classes.
pub fn score_rows(task: &TargetKind, said: &[Vec<f64>], labels: &[f64], units: LabelScale) -> Metrics {
    let found = Metrics::of(task.classes().len(), labels, &said.concat(), units.spread);
    found.expect("parts without people were refused")
}

/// Whether the first is the better one to choose.
pub fn beats(first: &Metrics, second: &Metrics, selection: Selection) -> bool {
    Score::from(first).beats(&Score::from(second), selection)
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
