//! The people of one part of a split, with their scans and labels.

use crate::error::EvalError;
use crate::features::ScanRow;
use crate::fit::{Examples, Loss};
use crate::fitted::mean_of;
use crate::head::Head;
use crate::method::Prediction;
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
}

impl<'a, I: ?Sized> Parts<'a, I> {
    /// Deals people out, and refuses a part that cannot be fitted or scored; `inputs` has one entry a row.
    pub fn of(rows: &[ScanRow], inputs: &[&'a I], target: &Target, split: &Split) -> Result<Self, EvalError> {
        let part = |name, people: &dyn Fn(&str) -> bool| {
            let part = Part::of(rows, inputs, target, people);
            part.check(target, split.seed(), name).map(|()| part)
        };
        Ok(Self {
            train: part("training", &|s| split.train.contains(s))?,
            validation: part("validation", &|s| split.validation.contains(s))?,
            test: part("test", &|s| split.test.contains(s))?,
        })
    }
}

impl Parts<'_, ()> {
    /// The same refusals as far as labels say it, before anything is computed of the scans.
    pub fn check_people(target: &Target, split: &Split) -> Result<(), EvalError> {
        let check = |name, subjects: &[String]| {
            let people: Vec<String> = subjects.iter().filter(|s| target.value(s).is_some()).cloned().collect();
            let labels = people.iter().filter_map(|person| target.value(person)).collect();
            Part::<()> { people, labels, scans: Vec::new() }.check(target, split.seed(), name)
        };
        check("training", split.train.subjects())?;
        check("validation", split.validation.subjects())?;
        check("test", split.test.subjects())
    }
}

impl<'a, I: ?Sized> Part<'a, I> {
    /// Picks people by name; `inputs` has one entry a row.
    pub fn of(rows: &[ScanRow], inputs: &[&'a I], target: &Target, chosen: impl Fn(&str) -> bool) -> Self {
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

    /// Refuses a part that cannot be fitted or scored: nobody, or one class only.
    pub fn check(&self, target: &Target, seed: u64, part: &'static str) -> Result<(), EvalError> {
        let refuse = |expected: &str, found: String| {
            let name = format!("target {:?}, seed {seed}", target.name);
            Err(EvalError::named(name, format!("{expected} among the {part} people with features"), found))
        };
        if self.people.is_empty() {
            return refuse("at least one person", "none".to_owned());
        }
        // Of many classes some may be missing where nothing is fitted; with one of two nothing can be scored.
        if let TargetKind::Classification { classes } = &target.kind
            && (classes.len() == 2 || part == "training")
            && let Some(absent) = (0..classes.len()).find(|c| self.labels.iter().all(|y| *y != *c as f64))
        {
            let expected = if classes.len() == 2 { "both classes" } else { "all classes" };
            return refuse(expected, format!("nobody of {:?}", classes[absent]));
        }
        Ok(())
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

    /// What a head says of each person, the mean over scans: a number in units of the label, or the probabilities of all
    /// classes.
    pub fn predict<H: Head<Input = I>>(
        &self,
        head: &H,
        parameters: &[f64],
        loss: Loss,
        units: LabelScale,
    ) -> Vec<Vec<f64>> {
        let one = |input: &&I| units.said(loss.says(&head.outputs(parameters, input)));
        let mean = |scans: &Vec<&I>| mean_of(&scans.iter().map(one).collect::<Vec<_>>());
        self.scans.iter().map(mean).collect()
    }

    /// What is said of each person: numbers in units of the label, or probabilities of all classes.
    pub fn predictions(&self, said: &[Vec<f64>]) -> Vec<Prediction> {
        let one = |((subject, &truth), said): ((&String, &f64), &Vec<f64>)| Prediction {
            subject: subject.clone(),
            truth,
            predicted: said.clone(),
        };
        self.people.iter().zip(&self.labels).zip(said).map(one).collect()
    }
}
