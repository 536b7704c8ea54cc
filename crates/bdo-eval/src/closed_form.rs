//! The closed-form probe: ridge for a number, logistic for classes, with the penalty chosen inside the training people.

use std::collections::{BTreeMap, BTreeSet};

use bdo_data::random;
use serde::{Deserialize, Serialize};

use crate::design::{Coordinates, Design};
use crate::error::EvalError;
use crate::features::Features;
use crate::fitted::contrast;
use crate::logistic::{Exactness, LogisticProblem, probabilities, says};
use crate::ridge::{LinearFit, left_out_residuals, ridge};
use crate::standardise::FittedStandardiser;

/// Folds over people inside the training set that choose the penalty of a logistic fit.
const FOLDS: usize = 5;
/// Weaker penalties that are tried after the best one so far.
const PAST_THE_BEST: usize = 3;

/// What is to be predicted, one entry a training row.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    Number(Vec<f64>),
    /// Class numbers from 0, one a row, and how many classes there are, present in these rows or not.
    Class {
        codes: Vec<usize>,
        classes: usize,
    },
}

impl Labels {
    /// Those of some rows.
    fn of(&self, rows: &[usize]) -> Self {
        match self {
            Self::Number(values) => Self::Number(rows.iter().map(|i| values[*i]).collect()),
            Self::Class { codes, classes } => {
                Self::Class { codes: rows.iter().map(|i| codes[*i]).collect(), classes: *classes }
            }
        }
    }

    /// Number of classes, 0 for a number.
    pub fn classes(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Class { classes, .. } => *classes,
        }
    }
}

/// A linear model with everything needed to apply it to new people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedProbe {
    standardiser: FittedStandardiser,
    /// Row-major `[outputs, features]`, for standardised features.
    weights: Vec<f64>,
    intercepts: Vec<f64>,
    /// 0 for a number.
    classes: usize,
    pub penalty: f64,
    /// Each penalty tried with its score on left-out people: mean squared error or mean log loss.
    pub tried: Vec<(f64, f64)>,
}

impl FittedProbe {
    /// Fits on some rows; `groups` says which rows are of one person. `seed` decides the folds.
    pub fn fit(
        features: &Features,
        rows: &[usize],
        labels: &Labels,
        groups: &[usize],
        seed: u64,
    ) -> Result<Self, EvalError> {
        let design = Design::new(features, rows)?;
        let Choice { penalty, tried, .. } = Choice::inside(&design, labels, groups, seed);
        Ok(Self { tried, ..Self::at(&design, labels, penalty) })
    }

    /// The same with the penalty whose fit has the lowest `loss` on people that were not fitted on.
    pub fn fit_by(
        features: &Features,
        rows: &[usize],
        labels: &Labels,
        loss: impl Fn(&Self) -> f64,
    ) -> Result<Self, EvalError> {
        let design = Design::new(features, rows)?;
        let Choice { penalty, tried, .. } = Choice::by(&design, |penalty| loss(&Self::at(&design, labels, penalty)));
        Ok(Self { tried, ..Self::at(&design, labels, penalty) })
    }

    /// For each row the number of a fit without the row's person, and those fits: folds of people, all at one penalty.
    pub(crate) fn without_each(
        features: &Features,
        rows: &[usize],
        (labels, groups): (&Labels, &[usize]),
        penalty: f64,
        seed: u64,
    ) -> Result<(Vec<usize>, Vec<Self>), EvalError> {
        let codes = match labels {
            Labels::Number(values) => vec![0; values.len()],
            Labels::Class { codes, .. } => codes.clone(),
        };
        let folds = person_folds(&codes, groups, seed);
        let fit = |fold: usize| {
            let kept: Vec<usize> = (0..rows.len()).filter(|i| folds[*i] != fold).collect();
            let of_kept: Vec<usize> = kept.iter().map(|i| rows[*i]).collect();
            Ok(Self::at(&Design::new(features, &of_kept)?, &labels.of(&kept), penalty))
        };
        let fits = (0..FOLDS).map(fit).collect::<Result<_, EvalError>>()?;
        Ok((folds, fits))
    }

    fn at(design: &Design, labels: &Labels, penalty: f64) -> Self {
        let (mut weights, mut intercepts) = (vec![], vec![]);
        for output in fit(design, labels, penalty) {
            weights.extend(design.feature_weights(&output.weights));
            intercepts.push(output.intercept);
        }
        let standardiser = design.standardiser().clone();
        Self { standardiser, weights, intercepts, classes: labels.classes(), penalty, tried: vec![] }
    }

    /// One number a row (regression), or the probabilities of all classes, row after row.
    pub fn predict(&self, features: &Features, rows: &[usize]) -> Vec<f64> {
        rows.iter().flat_map(|i| self.says(features.row(*i))).collect()
    }

    /// The same of one row.
    pub fn says(&self, x: &[f64]) -> Vec<f64> {
        let width = self.standardiser.width();
        let output = |k: usize| -> f64 {
            let terms = x.iter().zip(&self.weights[k * width..][..width]).enumerate();
            self.intercepts[k] + terms.map(|(j, (x, w))| w * self.standardiser.value(j, *x)).sum::<f64>()
        };
        says(&(0..self.intercepts.len()).map(output).collect::<Vec<f64>>(), self.classes)
    }

    /// Weights on features as they are, before they are standardised: of the one output, or of one of many classes above the
    /// mean of all.
    pub(crate) fn feature_weights(&self, class: usize) -> Vec<f64> {
        let spreads = self.standardiser.spreads();
        let weights = contrast(&self.weights, spreads.len(), class);
        weights.iter().zip(spreads).map(|(w, s)| if *s == 0.0 { 0.0 } else { w / s }).collect()
    }

    /// Weights of all outputs on features as they are, output after output, and the intercepts that belong to them: of the number, of
    /// the logit of the second of two classes, or of the logits of all classes.
    pub(crate) fn on_features(&self) -> (Vec<f64>, Vec<f64>) {
        let (spreads, means) = (self.standardiser.spreads(), self.standardiser.means());
        let (mut weights, mut intercepts) = (vec![], vec![]);
        for (output, intercept) in self.weights.chunks_exact(spreads.len()).zip(&self.intercepts) {
            let own = output.iter().zip(spreads).map(|(w, s)| if *s == 0.0 { 0.0 } else { w / s });
            let own: Vec<f64> = own.collect();
            intercepts.push(intercept - own.iter().zip(means).map(|(w, m)| w * m).sum::<f64>());
            weights.extend(own);
        }
        (weights, intercepts)
    }

    /// Number of fitted weights and intercepts.
    pub fn parameters(&self) -> usize {
        self.weights.len() + self.intercepts.len()
    }
}

/// A penalty chosen inside the training people.
#[derive(Debug, Clone)]
pub struct Choice {
    pub penalty: f64,
    /// Its score on left-out people: mean squared error or mean log loss.
    pub loss: f64,
    pub tried: Vec<(f64, f64)>,
}

impl Choice {
    /// Chooses by leaving out one person at a time (numbers) or folds of people (classes).
    pub fn inside(coordinates: &Coordinates, labels: &Labels, groups: &[usize], seed: u64) -> Self {
        match labels {
            Labels::Number(values) => Self::by(coordinates, |penalty| {
                let left_out = left_out_residuals(coordinates, values, groups, penalty);
                left_out.iter().map(|e| e * e).sum::<f64>() / values.len().max(1) as f64
            }),
            Labels::Class { codes, classes } => Self::class(coordinates, codes, *classes, groups, seed),
        }
    }

    /// Chooses by the loss of each penalty.
    pub fn by(coordinates: &Coordinates, loss: impl Fn(f64) -> f64) -> Self {
        Self::of(penalties(coordinates).into_iter().map(|penalty| (penalty, loss(penalty))).collect())
    }

    /// The penalty with the lowest score; of equal ones the strongest.
    fn of(tried: Vec<(f64, f64)>) -> Self {
        let best = tried.iter().min_by(|a, b| a.1.total_cmp(&b.1).then(b.0.total_cmp(&a.0)));
        let (penalty, loss) = best.copied().unwrap_or((1.0, f64::NAN));
        Self { penalty, loss, tried }
    }

    fn class(coordinates: &Coordinates, codes: &[usize], classes: usize, groups: &[usize], seed: u64) -> Self {
        let folds = person_folds(codes, groups, seed);
        let part = |fold: usize| {
            let (held, kept): (Vec<usize>, Vec<usize>) = (0..coordinates.rows()).partition(|i| folds[*i] == fold);
            let problem = LogisticProblem::new(coordinates, kept, codes, classes);
            let weights = problem.zeros();
            (held, problem, weights)
        };
        let mut parts: Vec<_> = (0..FOLDS).map(part).collect();
        let mut tried: Vec<(f64, f64)> = vec![];
        for penalty in penalties(coordinates) {
            let mut loss = 0.0;
            for (held, problem, weights) in &mut parts {
                *weights = problem.fit(penalty, Exactness::Selecting, std::mem::take(weights));
                let own = |i: &usize| probabilities(weights, classes.max(2), coordinates.row(*i))[codes[*i]];
                loss -= held.iter().map(|i| own(i).max(f64::EPSILON).ln()).sum::<f64>();
            }
            tried.push((penalty, loss / coordinates.rows().max(1) as f64));
            // The loss falls and then rises as the penalty weakens; the weakest penalties cost the most and are not reached.
            let lowest = tried.iter().map(|(_, loss)| *loss).fold(f64::INFINITY, f64::min);
            if tried.len() > PAST_THE_BEST
                && tried[tried.len() - PAST_THE_BEST..].iter().all(|(_, loss)| *loss > lowest)
            {
                break;
            }
        }
        Self::of(tried)
    }
}

/// Half decades around the mean squared length of a row, strongest first, so that fits start from their neighbour's.
fn penalties(coordinates: &Coordinates) -> Vec<f64> {
    let unit = coordinates.mean_square();
    (-7..=7).rev().map(|k| unit * 10f64.powf(f64::from(k) / 2.0)).collect()
}

/// The fit on all rows: one for a number or two classes, else one a class.
pub(crate) fn fit(coordinates: &Coordinates, labels: &Labels, penalty: f64) -> Vec<LinearFit> {
    match labels {
        Labels::Number(values) => vec![ridge(coordinates, values, penalty)],
        Labels::Class { codes, classes } => {
            let all = LogisticProblem::new(coordinates, (0..coordinates.rows()).collect(), codes, *classes);
            let (fit, rank) = (all.fit(penalty, Exactness::Final, all.zeros()), coordinates.rank());
            let output = |output: &[f64]| LinearFit { weights: output[..rank].to_vec(), intercept: output[rank] };
            fit.chunks_exact(rank + 1).map(output).collect()
        }
    }
}

/// A fold for every row: rows of one person together, classes spread evenly.
fn person_folds(codes: &[usize], groups: &[usize], seed: u64) -> Vec<usize> {
    let mut known = BTreeSet::new();
    let mut people: Vec<(usize, usize)> = groups.iter().copied().zip(codes.iter().copied()).collect();
    people.retain(|(group, _)| known.insert(*group));
    random::shuffle(&mut people, &mut random::stream("probe folds", &[seed]));
    people.sort_by_key(|(_, code)| *code);
    let fold_of: BTreeMap<usize, usize> =
        people.iter().enumerate().map(|(k, (group, _))| (*group, k % FOLDS)).collect();
    groups.iter().map(|g| fold_of[g]).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn folds_keep_people_together_and_spread_classes() {
        let groups: Vec<usize> = (0..60).map(|i| i / 2).collect();
        let codes: Vec<usize> = groups.iter().map(|g| usize::from(g % 3 == 0)).collect();
        let folds = person_folds(&codes, &groups, 3);
        for i in (0..60).step_by(2) {
            assert_eq!(folds[i], folds[i + 1]);
        }
        for fold in 0..FOLDS {
            let rare = (0..60).filter(|i| folds[*i] == fold && codes[*i] == 1).count();
            assert_eq!(rare, 4, "fold {fold}");
        }
    }

    #[test]
    fn a_class_without_training_rows_is_never_predicted() {
        let values: Vec<f64> = (0..40).map(|i| f64::from(i % 10)).collect();
        let features = Features::new(40, 1, values).unwrap();
        let rows: Vec<usize> = (0..40).collect();
        let codes: Vec<usize> = rows.iter().map(|i| usize::from(i % 10 >= 5)).collect();
        let labels = Labels::Class { codes, classes: 3 };
        let probe = FittedProbe::fit(&features, &rows, &labels, &rows, 0).unwrap();
        let p = probe.predict(&features, &[0, 9]);
        assert!(p[2] < 0.02 && p[5] < 0.02 && p[0] > 0.9 && p[4] > 0.9, "{p:?}");
    }
}
