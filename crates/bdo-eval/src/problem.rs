//! A task as a closed-form fit sees it: rows to fit on and to test, their labels and people.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::closed_form::{FittedProbe, Labels};
use crate::error::EvalError;
use crate::features::{Features, ScanRow};
use crate::fit::loss_of;
use crate::method::{Prediction, Task};
use crate::stack::{grid, mean_weights};

/// Rows of a table with their part in a task.
pub(crate) struct Problem<'a> {
    task: &'a Task<'a>,
    subjects: Vec<&'a str>,
    pub(crate) fitted: Vec<usize>,
    /// Rows of validation people, where they are not fitted on: what chooses between fits.
    pub(crate) choosing: Vec<usize>,
    pub(crate) tested: Vec<usize>,
    /// Number of the person of each fitted row.
    pub(crate) groups: Vec<usize>,
    /// Of the fitted rows.
    pub(crate) labels: Labels,
}

impl<'a> Problem<'a> {
    pub(crate) fn of(task: &'a Task<'a>, rows: &'a [ScanRow]) -> Result<Self, EvalError> {
        let (target, split) = (task.target, task.split);
        let subjects: Vec<&str> = rows.iter().map(|row| row.subject.as_str()).collect();
        let those = |wanted: &dyn Fn(&str) -> bool| -> Vec<usize> {
            (0..rows.len()).filter(|i| wanted(subjects[*i]) && target.value(subjects[*i]).is_some()).collect()
        };
        let fitted = those(&|subject| task.fits(subject));
        let choosing = those(&|subject| split.validation.contains(subject) && !task.fits(subject));
        let tested = those(&|subject| split.test.contains(subject));
        if fitted.len() < 2 {
            return Err(EvalError::Nobody { what: "to fit on" });
        }
        if tested.is_empty() {
            return Err(EvalError::Nobody { what: "to test" });
        }
        let of_fitted = || fitted.iter().map(|i| subjects[*i]);
        let people: BTreeSet<&str> = of_fitted().collect();
        let numbers: BTreeMap<&str, usize> = people.into_iter().enumerate().map(|(k, s)| (s, k)).collect();
        let groups = of_fitted().map(|subject| numbers[subject]).collect();
        let labels = match target.classes() {
            Some(classes) => Labels::Class { codes: of_fitted().filter_map(|s| target.code(s)).collect(), classes },
            None => Labels::Number(of_fitted().filter_map(|s| target.value(s)).collect()),
        };
        Ok(Self { task, subjects, fitted, choosing, tested, groups, labels })
    }

    /// Ridge or logistic regression on the fitted rows. Features of an encoder let validation people choose the penalty, whom it
    /// has not seen as it has the others; and what a mean weighs beside a movement, as the members of a [stack](crate::stack).
    pub(crate) fn probe(&self, features: &Features, pretrained: bool) -> Result<FittedProbe, EvalError> {
        if !pretrained || self.choosing.is_empty() {
            return FittedProbe::fit(features, &self.fitted, &self.labels, &self.groups, self.task.seed);
        }
        let features = self.weighed(features)?;
        self.probe_by_choosing(&features)
    }

    fn probe_by_choosing(&self, features: &Features) -> Result<FittedProbe, EvalError> {
        let loss = |probe: &FittedProbe| self.loss(&probe.predict(features, &self.choosing));
        FittedProbe::fit_by(features, &self.fitted, &self.labels, loss)
    }

    /// Features with the weights of mean and movement that validation people find likely; others as they are.
    fn weighed<'f>(&self, features: &'f Features) -> Result<Cow<'f, Features>, EvalError> {
        let further = (features.width() / features.together()).saturating_sub(1);
        if further == 0 || features.together() == 1 || self.choosing.is_empty() {
            return Ok(Cow::Borrowed(features));
        }
        // The mean is one run of columns, movement all others.
        let weighing = |shares: &[f64]| {
            let of_movement = (shares[1] / further as f64).sqrt();
            features.weighing([vec![shares[0].sqrt()], vec![of_movement; further]].concat())
        };
        let grid = grid(2);
        let loss = |shares: &Vec<f64>| {
            let features = weighing(shares);
            Ok(self.loss(&self.probe_by_choosing(&features)?.predict(&features, &self.choosing)))
        };
        let losses = grid.iter().map(loss).collect::<Result<Vec<f64>, EvalError>>()?;
        Ok(Cow::Owned(weighing(&mean_weights(&grid, &losses, self.choosing.len(), self.labels.classes()))))
    }

    /// Mean log loss or mean squared error of what was said of the choosing rows.
    pub(crate) fn loss(&self, said: &[f64]) -> f64 {
        let (target, loss) = (self.task.target, loss_of(&self.task.target.kind));
        let of_row =
            |(i, said): (&usize, &[f64])| target.value(self.subjects[*i]).map(|label| loss.of_saying(said, label));
        let losses = self.choosing.iter().zip(said.chunks_exact(self.labels.classes().max(1))).filter_map(of_row);
        losses.sum::<f64>() / self.choosing.len().max(1) as f64
    }

    /// What was said of the tested rows as one prediction a person, in order of their names, of several rows the mean; and
    /// what a reader must know.
    pub(crate) fn answer(&self, said: &[f64]) -> (Vec<Prediction>, Vec<String>) {
        let width = self.labels.classes().max(1);
        let mut sums: BTreeMap<&str, (Vec<f64>, f64)> = BTreeMap::new();
        for (i, row) in self.tested.iter().zip(said.chunks_exact(width)) {
            let (sum, n) = sums.entry(self.subjects[*i]).or_insert_with(|| (vec![0.0; width], 0.0));
            sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
            *n += 1.0;
        }
        let mean = |(subject, (sum, n)): (&str, (Vec<f64>, f64))| {
            self.task.prediction(subject, sum.into_iter().map(|x| x / n).collect())
        };
        let predictions: Vec<Prediction> = sums.into_iter().filter_map(mean).collect();
        let missing = self.task.split.test.subjects().len() - predictions.len();
        let flags = if missing == 0 { vec![] } else { vec![format!("{missing} test people have no features")] };
        (predictions, flags)
    }
}
