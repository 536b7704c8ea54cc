//! The people of the parts of a split, with their scans and labels.

use crate::error::EvalError;
use crate::features::ScanRow;
use crate::fit::{Examples, loss_of};
use crate::fitted::mean_of;
use crate::head::{Head, widened};
use crate::method::Prediction;
use crate::metric::Metrics;
use crate::score::score_rows;
use bdo_data::division::Split;
use bdo_data::target::{LabelScale, Target, TargetKind};
use std::collections::BTreeMap;

/// People with at least one scan and a label, sorted by name.
#[derive(Debug)]
pub struct Part<'a, I: ?Sized> {
    pub people: Vec<String>,
    /// Numbers in units of the label, or positions of classes; one a person.
    pub labels: Vec<f64>,
    pub scans: Vec<Vec<&'a I>>,
}

#[derive(Debug)]
pub struct Parts<'a, I: ?Sized> {
    pub train: Part<'a, I>,
    pub validation: Part<'a, I>,
    pub test: Part<'a, I>,
    pub task: &'a TargetKind,
    /// Those of the training people.
    pub units: LabelScale,
}

impl<'a, I: ?Sized> Parts<'a, I> {
    /// Deals people out, and refuses a part that cannot be fitted or scored; `inputs` has one entry a row.
    pub fn of(rows: &[ScanRow], inputs: &[&'a I], target: &'a Target, split: &Split) -> Result<Self, EvalError> {
        let part = |name, chosen: &dyn Fn(&str) -> bool| {
            let part = Part::of(rows, inputs, target, chosen);
            check(target, split.seed(), name, &part.labels).map(|()| part)
        };
        let train = part("training", &|s| split.train.contains(s))?;
        Ok(Self {
            units: LabelScale::fit(&target.kind, &train.labels),
            train,
            validation: part("validation", &|s| split.validation.contains(s))?,
            test: part("test", &|s| split.test.contains(s))?,
            task: &target.kind,
        })
    }

    /// What a head says of each person of a part.
    pub fn said_by<H: Head<Input = I>>(&self, head: &H, parameters: &[f32], part: &Part<'_, I>) -> Vec<Vec<f64>> {
        let (loss, parameters) = (loss_of(self.task), widened(parameters));
        part.said(|input| self.units.said(loss.says(&head.outputs(&parameters, input))))
    }

    /// Scores what is said of the people of a part.
    pub fn score(&self, part: &Part<'_, I>, said: &[Vec<f64>]) -> Metrics {
        score_rows(self.task, said, &part.labels, self.units)
    }
}

impl Parts<'_, ()> {
    /// The same refusals as far as labels say it, before anything is computed of the scans.
    pub fn check_people(target: &Target, split: &Split) -> Result<(), EvalError> {
        let check = |name, subjects: &[String]| {
            let labels: Vec<f64> = subjects.iter().filter_map(|subject| target.value(subject)).collect();
            check(target, split.seed(), name, &labels)
        };
        check("training", split.train.subjects())?;
        check("validation", split.validation.subjects())?;
        check("test", split.test.subjects())
    }
}

/// Refuses a part that cannot be fitted or scored: nobody, or one class only.
fn check(target: &Target, seed: u64, part: &str, labels: &[f64]) -> Result<(), EvalError> {
    let refuse = |expected: &str, found: String| {
        let name = format!("target {:?}, seed {seed}", target.name);
        Err(EvalError::named(name, format!("{expected} among the {part} people with features"), found))
    };
    if labels.is_empty() {
        return refuse("at least one person", "none".to_owned());
    }
    // Of many classes some may be missing where nothing is fitted; with one of two nothing can be scored.
    let classes = target.kind.classes();
    if (classes.len() == 2 || part == "training")
        && let Some(absent) = (0..classes.len()).find(|c| labels.iter().all(|y| *y != *c as f64))
    {
        let expected = if classes.len() == 2 { "both classes" } else { "all classes" };
        return refuse(expected, format!("nobody of {:?}", classes[absent]));
    }
    Ok(())
}

impl<'a, I: ?Sized> Part<'a, I> {
    /// Picks people by name; `inputs` has one entry a row.
    fn of(rows: &[ScanRow], inputs: &[&'a I], target: &Target, chosen: impl Fn(&str) -> bool) -> Self {
        let mut found: BTreeMap<&str, Vec<&'a I>> = BTreeMap::new();
        for (row, input) in rows.iter().zip(inputs) {
            if chosen(&row.subject) && target.value(&row.subject).is_some() {
                found.entry(&row.subject).or_default().push(*input);
            }
        }
        Self {
            labels: found.keys().map(|person| target.values[*person]).collect(),
            people: found.keys().map(|person| (*person).to_owned()).collect(),
            scans: found.into_values().collect(),
        }
    }

    /// One example a scan, labels in units of the loss.
    pub fn examples(&self, units: LabelScale) -> Examples<'a, I> {
        let mut examples = Examples { inputs: Vec::new(), labels: Vec::new() };
        for (scans, label) in self.scans.iter().zip(&self.labels) {
            examples.inputs.extend(scans);
            examples.labels.extend(std::iter::repeat_n(units.to_loss(*label), scans.len()));
        }
        examples
    }

    /// What is said of each person, the mean over scans: a number in units of the label, or the probabilities of all classes.
    pub fn said(&self, of_scan: impl Fn(&'a I) -> Vec<f64>) -> Vec<Vec<f64>> {
        let mean = |scans: &Vec<&'a I>| mean_of(&scans.iter().map(|scan| of_scan(scan)).collect::<Vec<_>>());
        self.scans.iter().map(mean).collect()
    }

    pub fn predictions(&self, said: &[Vec<f64>]) -> Vec<Prediction> {
        let people = self.people.iter().zip(&self.labels).zip(said);
        people
            .map(|((subject, &truth), said)| Prediction { subject: subject.clone(), truth, predicted: said.clone() })
            .collect()
    }
}
