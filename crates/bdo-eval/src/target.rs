//! What is to be predicted of people: a number, or one of some classes.

use std::collections::{BTreeMap, BTreeSet};

use bdo_data::participants::{Label, Participants};
use serde::{Deserialize, Serialize};

/// A number with at most this many different values is a code; splits stratify by the same rule.
const MOST_CODES: usize = 10;

/// A label with the people who have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The column.
    pub name: String,
    /// What the people have.
    pub values: TargetValues,
}

/// The values of a label, by person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetValues {
    /// A number each.
    Number(BTreeMap<String, f64>),
    /// A class each; the last of two is the one whose probability is scored.
    Class {
        /// Names of the classes, sorted (codes by value).
        names: Vec<String>,
        /// Position in the names, by person.
        codes: BTreeMap<String, usize>,
    },
}

/// Why a column cannot be predicted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There is no such column.
    #[error("expected a label column {column:?}, found {}", .found.join(", "))]
    NoColumn {
        /// What was asked for.
        column: String,
        /// What there is.
        found: Vec<String>,
    },
    /// Nothing varies.
    #[error("label {column:?}: expected at least two different values, found {found}")]
    Constant {
        /// The column.
        column: String,
        /// How many there are.
        found: usize,
    },
    /// Free text, or an identifier.
    #[error("label {column:?}: expected at most {most} classes or a number, found {found} different texts")]
    TooManyClasses {
        /// The column.
        column: String,
        /// The most classes that make sense.
        most: usize,
        /// How many there are.
        found: usize,
    },
}

/// More classes than this are names, not classes.
const MOST_CLASSES: usize = 100;

impl Target {
    /// Reads a column of a participants table.
    pub fn of(people: &Participants, column: &str) -> Result<Self, TargetError> {
        let label = people
            .label(column)
            .ok_or_else(|| TargetError::NoColumn { column: column.to_owned(), found: people.columns().to_vec() })?;
        let subjects = people.subjects().map(str::to_owned);
        let values = match label {
            Label::Number(values) => {
                let present = subjects.zip(values).filter_map(|(s, v)| Some((s, v?))).collect();
                coded(present)
            }
            Label::Category(values) => {
                let names: BTreeSet<&String> = values.iter().flatten().collect();
                let names: Vec<String> = names.into_iter().cloned().collect();
                let code = |v: &String| names.partition_point(|n| n < v);
                let codes = subjects.zip(&values).filter_map(|(s, v)| Some((s, code(v.as_ref()?)))).collect();
                TargetValues::Class { names, codes }
            }
        };
        let column = column.to_owned();
        match &values {
            TargetValues::Class { names, .. } if names.len() < 2 => {
                Err(TargetError::Constant { column, found: names.len() })
            }
            TargetValues::Class { names, .. } if names.len() > MOST_CLASSES => {
                Err(TargetError::TooManyClasses { column, most: MOST_CLASSES, found: names.len() })
            }
            _ => Ok(Self { name: column, values }),
        }
    }

    /// Number of classes; none for a number.
    pub fn classes(&self) -> Option<usize> {
        match &self.values {
            TargetValues::Number(_) => None,
            TargetValues::Class { names, .. } => Some(names.len()),
        }
    }

    /// The value of a person: the number, or the position of the class.
    pub fn value(&self, subject: &str) -> Option<f64> {
        match &self.values {
            TargetValues::Number(values) => values.get(subject).copied(),
            TargetValues::Class { codes, .. } => codes.get(subject).map(|c| *c as f64),
        }
    }

    /// The class of a person.
    pub fn code(&self, subject: &str) -> Option<usize> {
        match &self.values {
            TargetValues::Number(_) => None,
            TargetValues::Class { codes, .. } => codes.get(subject).copied(),
        }
    }

    /// Whether another column says the same as this one under another name or coding: `SEX` 1, 2 and `sex` M, F.
    pub fn is_said_by(&self, other: &Target) -> bool {
        match (&self.values, &other.values) {
            (TargetValues::Class { codes: a, .. }, TargetValues::Class { codes: b, .. }) => {
                let pairs: BTreeSet<(usize, usize)> = a.iter().filter_map(|(s, x)| Some((*x, *b.get(s)?))).collect();
                let (left, right): (BTreeSet<_>, BTreeSet<_>) = pairs.iter().copied().unzip();
                !pairs.is_empty() && pairs.len() == left.len() && pairs.len() == right.len()
            }
            (TargetValues::Number(a), TargetValues::Number(b)) => {
                let (x, y): (Vec<f64>, Vec<f64>) = a.iter().filter_map(|(s, x)| Some((*x, *b.get(s)?))).unzip();
                // Only the same number in other units correlates this well.
                crate::metric::pearson(&x, &y).is_some_and(|r| r.abs() > 0.9999)
            }
            _ => false,
        }
    }
}

/// A code with few values becomes a class.
fn coded(present: BTreeMap<String, f64>) -> TargetValues {
    let mut distinct: Vec<f64> = present.values().copied().collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    if distinct.len() > MOST_CODES {
        return TargetValues::Number(present);
    }
    let codes = present.into_iter().map(|(s, v)| (s, distinct.partition_point(|d| *d < v))).collect();
    TargetValues::Class { names: distinct.iter().map(ToString::to_string).collect(), codes }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn people() -> Participants {
        let text = (0..12).fold(String::from("id\tSEX\tsex\tage\tAGE\tdx\tname\n"), |text, i| {
            let sex = if i % 2 == 0 { "M" } else { "F" };
            let age = if i == 3 { "n/a".to_owned() } else { format!("{}.5", 10 + i) };
            format!("{text}p{i}\t{}\t{sex}\t{age}\t{}\t{}\tone\n", 1 + i % 2, 120 + 12 * i, i % 3)
        });
        Participants::parse("p.tsv", text.as_bytes(), &[]).unwrap()
    }

    #[test]
    fn codes_are_classes_and_numbers_are_numbers() {
        let people = people();
        let sex = Target::of(&people, "SEX").unwrap();
        assert_eq!((sex.classes(), sex.code("p0"), sex.code("p1")), (Some(2), Some(0), Some(1)));
        let age = Target::of(&people, "age").unwrap();
        assert_eq!((age.classes(), age.value("p0"), age.value("p3")), (None, Some(10.5), None));
        assert_eq!(
            Target::of(&people, "name").unwrap_err().to_string(),
            "label \"name\": expected at least two different values, found 1"
        );
        assert!(Target::of(&people, "fiq").is_err());
    }

    #[test]
    fn the_same_label_under_another_name_is_recognised() {
        let people = people();
        let of = |name| Target::of(&people, name).unwrap();
        assert!(of("SEX").is_said_by(&of("sex")) && of("age").is_said_by(&of("AGE")));
        assert!(!of("SEX").is_said_by(&of("dx")) && !of("sex").is_said_by(&of("age")));
    }
}
