//! A label column as numbers a loss with one output can work with.

use crate::train::objective::Task;
use bdo_data::division::TrainPeople;
use bdo_data::participants::Participants;
use bdo_eval::target::{Target, TargetError, TargetValues};

/// A column that can be predicted with one output.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// Class or number.
    pub task: Task,
    /// Names of the two classes, 0 and 1; empty for a number.
    pub classes: Vec<String>,
    target: Target,
}

/// Units of a label: z-scores for numbers, nothing for classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelScale {
    /// Mean over the training people.
    pub mean: f64,
    /// Population standard deviation over them.
    pub deviation: f64,
}

/// A column cannot be predicted with one output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// It cannot be predicted at all.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Neither a number nor two classes.
    #[error("label {column:?}: expected a number or two classes, found {found} different values")]
    Classes {
        /// The column.
        column: String,
        /// How many there are.
        found: usize,
    },
}

impl Labels {
    /// Reads a column: two classes (or a number with two values), or a number with more than ten values.
    pub fn of(people: &Participants, column: &str) -> Result<Self, LabelError> {
        let target = Target::of(people, column)?;
        match &target.values {
            TargetValues::Number(_) => Ok(Self { task: Task::Number, classes: Vec::new(), target }),
            TargetValues::Class { names, .. } if names.len() == 2 => {
                Ok(Self { task: Task::Class, classes: names.clone(), target })
            }
            TargetValues::Class { names, .. } => {
                Err(LabelError::Classes { column: column.to_owned(), found: names.len() })
            }
        }
    }

    /// The number, or 0 or 1 for the class.
    pub fn value(&self, subject: &str) -> Option<f64> {
        self.target.value(subject)
    }

    /// Units fitted on the training people.
    pub fn scale(&self, people: &TrainPeople) -> LabelScale {
        if self.task == Task::Class {
            return LabelScale { mean: 0.0, deviation: 1.0 };
        }
        let values: Vec<f64> = people.subjects().iter().filter_map(|s| self.value(s)).collect();
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
        LabelScale { mean, deviation: if deviation > 0.0 { deviation } else { 1.0 } }
    }
}

impl LabelScale {
    /// A label in units of the loss.
    pub fn to_loss(self, label: f64) -> f64 {
        (label - self.mean) / self.deviation
    }

    /// A prediction in units of the label.
    pub fn to_label(self, prediction: f64) -> f64 {
        prediction * self.deviation + self.mean
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn columns_become_classes_or_numbers() {
        let rows: String = (0..12).fold(String::from("id\tsex\tcode\tage\tgroup\n"), |text, i| {
            let sex = if i % 2 == 0 { "M" } else { "F" };
            format!("{text}p{i}\t{sex}\t{}\t{}\t{}\n", if i % 2 == 0 { 10 } else { 9 }, 20 + i, i % 3)
        });
        let people = Participants::parse("p.tsv", rows.as_bytes(), &[]).unwrap();
        let sex = Labels::of(&people, "sex").unwrap();
        assert_eq!(
            (sex.task, sex.classes.clone(), sex.value("p0")),
            (Task::Class, vec!["F".into(), "M".into()], Some(1.0))
        );
        let code = Labels::of(&people, "code").unwrap();
        assert_eq!((code.classes.clone(), code.value("p0")), (vec!["9".to_owned(), "10".to_owned()], Some(1.0)));
        let age = Labels::of(&people, "age").unwrap();
        assert_eq!((age.task, age.value("p3")), (Task::Number, Some(23.0)));
        assert_eq!(
            Labels::of(&people, "group").unwrap_err().to_string(),
            "label \"group\": expected a number or two classes, found 3 different values"
        );
        assert!(Labels::of(&people, "iq").is_err());
    }
}
