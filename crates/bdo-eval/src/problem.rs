//! A task as a closed-form fit sees it: rows to fit on and to test, their labels and people.

use std::collections::{BTreeMap, BTreeSet};

use crate::closed_form::Labels;
use crate::error::EvalError;
use crate::features::ScanRow;
use crate::method::{Prediction, Task, mean_by_person};

/// Rows of a table with their part in a task.
pub(crate) struct Problem<'a> {
    task: &'a Task<'a>,
    subjects: Vec<&'a str>,
    pub(crate) fitted: Vec<usize>,
    /// Rows of validation people, where they are not fitted on: what chooses between fits.
    pub(crate) choosing: Vec<usize>,
    pub(crate) tested: Vec<usize>,
    pub(crate) groups: Vec<usize>,
    /// Class of each fitted row; empty for a number.
    codes: Vec<usize>,
    /// Number of each fitted row; empty for classes.
    values: Vec<f64>,
}

impl<'a> Problem<'a> {
    pub(crate) fn of(task: &'a Task<'a>, rows: &'a [ScanRow]) -> Result<Self, EvalError> {
        let subjects: Vec<&str> = rows.iter().map(|row| row.subject.as_str()).collect();
        let known = |i: &usize| task.target.value(subjects[*i]).is_some();
        let fitted: Vec<usize> = (0..rows.len()).filter(|i| task.fits(subjects[*i]) && known(i)).collect();
        let chooses = |subject: &str| task.split.validation.contains(subject) && !task.fits(subject);
        let choosing: Vec<usize> = (0..rows.len()).filter(|i| chooses(subjects[*i]) && known(i)).collect();
        let tested: Vec<usize> =
            (0..rows.len()).filter(|i| task.split.test.contains(subjects[*i]) && known(i)).collect();
        if fitted.len() < 2 {
            return Err(EvalError::Nobody { what: "to fit on" });
        }
        if tested.is_empty() {
            return Err(EvalError::Nobody { what: "to test" });
        }
        let people: BTreeSet<&str> = fitted.iter().map(|i| subjects[*i]).collect();
        let numbers: BTreeMap<&str, usize> = people.into_iter().enumerate().map(|(k, s)| (s, k)).collect();
        let groups = fitted.iter().map(|i| numbers[subjects[*i]]).collect();
        let (mut codes, mut values) = (vec![], vec![]);
        if task.target.classes().is_some() {
            codes = fitted.iter().filter_map(|i| task.target.code(subjects[*i])).collect();
        } else {
            values = fitted.iter().filter_map(|i| task.target.value(subjects[*i])).collect();
        }
        Ok(Self { task, subjects, fitted, choosing, tested, groups, codes, values })
    }

    pub(crate) fn labels(&self) -> Labels<'_> {
        match self.task.target.classes() {
            Some(classes) => Labels::Class { codes: &self.codes, classes },
            None => Labels::Number(&self.values),
        }
    }

    /// Mean log loss or mean squared error of what was said of the choosing rows.
    pub(crate) fn loss(&self, said: &[f64]) -> f64 {
        let target = self.task.target;
        let width = target.classes().unwrap_or(1).max(1);
        let of_row = |(i, said): (&usize, &[f64])| match target.classes() {
            Some(_) => target.code(self.subjects[*i]).map(|code| -said[code].max(f64::EPSILON).ln()),
            None => target.value(self.subjects[*i]).map(|value| (said[0] - value) * (said[0] - value)),
        };
        let losses = self.choosing.iter().zip(said.chunks_exact(width)).filter_map(of_row);
        losses.sum::<f64>() / self.choosing.len().max(1) as f64
    }

    /// What was said of the tested rows as one prediction a person, and what a reader must know.
    pub(crate) fn answer(&self, said: &[f64]) -> (Vec<Prediction>, Vec<String>) {
        let people: Vec<&str> = self.tested.iter().map(|i| self.subjects[*i]).collect();
        let predictions = joined(self.task, mean_by_person(&people, said, self.labels().classes().max(1)));
        let missing = self.task.split.test.subjects().len() - predictions.len();
        let flags = if missing == 0 { vec![] } else { vec![format!("{missing} test people have no features")] };
        (predictions, flags)
    }
}

/// Joins what was said with what is true.
pub(crate) fn joined(task: &Task<'_>, said: BTreeMap<String, Vec<f64>>) -> Vec<Prediction> {
    said.into_iter()
        .filter_map(|(subject, predicted)| {
            let truth = task.target.value(&subject)?;
            Some(Prediction { subject, truth, predicted })
        })
        .collect()
}
