//! Scores of predictions. What is undefined (one class only, a constant prediction) is `None`, never NaN.

use serde::{Deserialize, Serialize};

const CALIBRATION_BINS: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RegressionMetrics {
    /// Mean squared error, in squared spreads of the training labels.
    pub mse: f64,
    /// Mean absolute error, in units of the label.
    pub mae: f64,
    /// Pearson correlation; none where truth or prediction is constant.
    pub rho: Option<f64>,
    /// Share of variance explained; none where the truth is constant.
    pub r2: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassificationMetrics {
    /// Share of people whose most probable class is theirs.
    pub accuracy: f64,
    /// Mean over the true classes of the share that was found.
    pub balanced_accuracy: f64,
    /// Mean over classes of the harmonic mean of precision and recall.
    pub macro_f1: f64,
    /// Chance that a person of a class gets more of its probability than one who is not, ties half; for more than two classes
    /// the mean over classes. None where only one class is present.
    pub auc: Option<f64>,
    /// Mean squared error of the probabilities.
    pub brier: f64,
    /// Mean difference of confidence and accuracy in ten bins of confidence.
    pub calibration_error: f64,
    /// Mean negative logarithm of the true class's probability.
    pub log_loss: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Metrics {
    Regression(RegressionMetrics),
    Classification(ClassificationMetrics),
}

impl Metrics {
    /// Scores what is said of people, person after person: a number in units of the label, or the probabilities of all
    /// classes. `spread` is that of the training labels. None without people.
    pub fn of(classes: usize, truth: &[f64], said: &[f64], spread: f64) -> Option<Self> {
        if classes == 0 {
            return regression(truth, said, spread).map(Self::Regression);
        }
        let codes: Vec<usize> = truth.iter().map(|y| *y as usize).collect();
        classification(&codes, said, classes).map(Self::Classification)
    }

    /// Every score with its name, in the order tables show them.
    pub fn named(&self) -> Vec<(&'static str, Option<f64>)> {
        match self {
            Self::Regression(m) => vec![("mse", Some(m.mse)), ("rho", m.rho), ("r2", m.r2), ("mae", Some(m.mae))],
            Self::Classification(m) => vec![
                ("accuracy", Some(m.accuracy)),
                ("macro_f1", Some(m.macro_f1)),
                ("auc", m.auc),
                ("balanced_accuracy", Some(m.balanced_accuracy)),
                ("brier", Some(m.brier)),
                ("calibration_error", Some(m.calibration_error)),
                ("log_loss", Some(m.log_loss)),
            ],
        }
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.named().into_iter().find(|(n, _)| *n == name).and_then(|(_, value)| value)
    }
}

/// Scores predictions in units of the label; `spread` is that of the training labels.
pub fn regression(truth: &[f64], predicted: &[f64], spread: f64) -> Option<RegressionMetrics> {
    let n = truth.len() as f64;
    if truth.is_empty() || truth.len() != predicted.len() {
        return None;
    }
    let squares = truth.iter().zip(predicted).map(|(t, p)| (t - p).powi(2)).sum::<f64>();
    let mean = truth.iter().sum::<f64>() / n;
    let total = truth.iter().map(|t| (t - mean).powi(2)).sum::<f64>();
    let scale = if spread > 0.0 { spread } else { 1.0 };
    Some(RegressionMetrics {
        mse: squares / n / scale.powi(2),
        mae: truth.iter().zip(predicted).map(|(t, p)| (t - p).abs()).sum::<f64>() / n,
        rho: pearson(truth, predicted),
        r2: (total > 0.0).then(|| 1.0 - squares / total),
    })
}

/// Pearson correlation; none where either side is constant (up to rounding).
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let n = a.len() as f64;
    if a.len() < 2 || a.len() != b.len() {
        return None;
    }
    let (mean_a, mean_b) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    let varies = |squares: f64, mean: f64| squares > (mean.abs() * 1e-14).powi(2) * n && squares > 0.0;
    (varies(aa, mean_a) && varies(bb, mean_b)).then(|| (ab / (aa.sqrt() * bb.sqrt())).clamp(-1.0, 1.0))
}

/// Scores probabilities, row-major `[people, classes]`, against class numbers.
pub fn classification(truth: &[usize], probabilities: &[f64], classes: usize) -> Option<ClassificationMetrics> {
    let n = truth.len() as f64;
    if truth.is_empty() || classes == 0 || probabilities.len() != truth.len() * classes {
        return None;
    }
    let predicted: Vec<usize> = probabilities.chunks_exact(classes).map(most_probable).collect();
    let mut confusion = vec![0usize; classes * classes];
    truth.iter().zip(&predicted).for_each(|(t, p)| confusion[t * classes + p] += 1);
    let actual = |k: usize| (0..classes).map(|p| confusion[k * classes + p]).sum::<usize>();
    let claimed = |k: usize| (0..classes).map(|t| confusion[t * classes + k]).sum::<usize>();
    let hit = |k: usize| confusion[k * classes + k];
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let recalls = (0..classes).filter(|k| actual(*k) > 0).map(|k| hit(k) as f64 / actual(k) as f64).collect();
    let seen = (0..classes).filter(|k| actual(*k) + claimed(*k) > 0);
    let f1s = seen.map(|k| 2.0 * hit(k) as f64 / (actual(k) + claimed(k)) as f64).collect();
    let own = truth.iter().zip(probabilities.chunks_exact(classes)).map(|(t, p)| p[*t]);
    Some(ClassificationMetrics {
        accuracy: (0..classes).map(hit).sum::<usize>() as f64 / n,
        balanced_accuracy: mean(recalls),
        macro_f1: mean(f1s),
        auc: area(truth, probabilities, classes),
        brier: brier(truth, probabilities, classes),
        calibration_error: calibration_error(truth, &predicted, probabilities, classes),
        log_loss: own.map(|p| -p.clamp(f64::EPSILON, 1.0 - f64::EPSILON).ln()).sum::<f64>() / n,
    })
}

/// The class with the highest probability, of equal ones the first.
pub fn most_probable(probabilities: &[f64]) -> usize {
    (1..probabilities.len()).fold(0, |best, k| if probabilities[k] > probabilities[best] { k } else { best })
}

fn area(truth: &[usize], probabilities: &[f64], classes: usize) -> Option<f64> {
    let of = |k: usize| {
        let scores: Vec<f64> = probabilities.iter().skip(k).step_by(classes).copied().collect();
        let positive: Vec<bool> = truth.iter().map(|t| *t == k).collect();
        auc(&positive, &scores)
    };
    if classes == 2 {
        return of(1);
    }
    let areas: Vec<f64> = (0..classes).filter_map(of).collect();
    (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
}

/// Area under the curve by ranks, ties counted half; none where one class is missing.
pub fn auc(positive: &[bool], scores: &[f64]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let (mut below, mut pairs, mut start) = (0usize, 0.0, 0);
    while start < order.len() {
        let tied = order[start..].iter().take_while(|i| scores[**i] == scores[order[start]]).count();
        let group = &order[start..start + tied];
        let hits = group.iter().filter(|i| positive[**i]).count();
        pairs += hits as f64 * (below as f64 + (tied - hits) as f64 / 2.0);
        below += tied - hits;
        start += tied;
    }
    let hits = order.len() - below;
    (below > 0 && hits > 0).then(|| pairs / (below as f64 * hits as f64))
}

fn brier(truth: &[usize], probabilities: &[f64], classes: usize) -> f64 {
    let n = truth.len() as f64;
    let rows = truth.iter().zip(probabilities.chunks_exact(classes));
    let of_class = |t: usize, k: usize, p: f64| (p - f64::from(u8::from(t == k))).powi(2);
    if classes == 2 {
        return rows.map(|(t, p)| of_class(*t, 1, p[1])).sum::<f64>() / n;
    }
    rows.map(|(t, p)| p.iter().enumerate().map(|(k, p)| of_class(*t, k, *p)).sum::<f64>()).sum::<f64>() / n
}

fn calibration_error(truth: &[usize], predicted: &[usize], probabilities: &[f64], classes: usize) -> f64 {
    let mut bins = [(0.0f64, 0.0f64); CALIBRATION_BINS];
    for ((t, k), p) in truth.iter().zip(predicted).zip(probabilities.chunks_exact(classes)) {
        let bin = ((p[*k] * CALIBRATION_BINS as f64) as usize).min(CALIBRATION_BINS - 1);
        bins[bin].0 += p[*k];
        bins[bin].1 += f64::from(u8::from(t == k));
    }
    bins.iter().map(|(confidence, hits)| (confidence - hits).abs()).sum::<f64>() / truth.len() as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn undefined_scores_are_none() {
        assert_eq!(regression(&[], &[], 1.0), None);
        let constant = regression(&[1.0, 2.0, 3.0], &[0.1 + 0.2; 3], 1.0).unwrap();
        assert_eq!(constant.rho, None);
        assert!(constant.r2.is_some());
        assert_eq!(regression(&[2.0, 2.0], &[1.0, 3.0], 1.0).unwrap().r2, None);
        assert_eq!(classification(&[0, 0], &[0.6, 0.4, 0.3, 0.7], 2).unwrap().auc, None);
        let certain = classification(&[1], &[1.0, 0.0], 2).unwrap();
        assert!(certain.log_loss.is_finite() && certain.log_loss > 30.0);
    }

    #[test]
    fn constant_probabilities_have_an_area_of_one_half() {
        let m = classification(&[0, 1, 1], &[0.3, 0.7, 0.3, 0.7, 0.3, 0.7], 2).unwrap();
        assert_eq!(m.auc, Some(0.5));
        assert_eq!(m.balanced_accuracy, 0.5);
    }
}
