//! What is to be predicted of people: a number, or one of some classes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::division::TrainPeople;
use crate::participants::{Label, Participants, Values};
use crate::random;

/// More classes than this are names, not classes.
const MOST_CLASSES: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub name: String,
    pub kind: TargetKind,
    /// The number, or the position of the class, of everybody who has a value.
    pub values: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    Regression,
    /// One of some classes; the last of two is the one whose probability is scored.
    Classification {
        /// Their names, sorted (codes by value).
        classes: Vec<String>,
    },
}

impl TargetKind {
    /// Names of the classes; none for a number.
    pub fn classes(&self) -> &[String] {
        match self {
            Self::Regression => &[],
            Self::Classification { classes } => classes,
        }
    }
}

/// Why a column cannot be predicted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("expected a label column {column:?}, found {}", .found.join(", "))]
    NoColumn { column: String, found: Vec<String> },
    #[error("label {column:?}: expected {expected}, found {found}")]
    Unfit { column: String, expected: String, found: String },
}

impl Target {
    /// Reads a column of a participants table and decides what it is.
    pub fn of(people: &Participants, column: &str) -> Result<Self, TargetError> {
        let unfit =
            |expected: String, found: String| Err(TargetError::Unfit { column: column.into(), expected, found });
        let kind = match label(people, column)?.values() {
            Values::Quantity(_) => TargetKind::Regression,
            Values::Classes { names, .. } if names.len() < 2 => {
                return unfit("at least two different values".into(), names.len().to_string());
            }
            Values::Classes { names, .. } if names.len() > MOST_CLASSES => {
                let expected = format!("at most {MOST_CLASSES} classes or a number");
                return unfit(expected, format!("{} different texts", names.len()));
            }
            Values::Classes { names, .. } => TargetKind::Classification { classes: names },
        };
        Self::read_as(people, column, &kind)
    }

    pub fn all(people: &Participants, columns: &[String]) -> Result<Vec<Self>, TargetError> {
        columns.iter().map(|column| Self::of(people, column)).collect()
    }

    /// Reads a column of other people as what it was when something was fitted.
    pub fn read_as(people: &Participants, column: &str, kind: &TargetKind) -> Result<Self, TargetError> {
        let mut values = BTreeMap::new();
        let texts = people.subjects().zip(label(people, column)?.texts());
        for (subject, text) in texts.filter_map(|(subject, text)| Some((subject, text?))).collect::<BTreeMap<_, _>>() {
            let (value, expected) = match kind {
                TargetKind::Regression => (text.parse::<f64>().ok(), "numbers".to_owned()),
                TargetKind::Classification { classes } => {
                    (classes.iter().position(|c| *c == text).map(|c| c as f64), classes.join(" or "))
                }
            };
            let found = format!("{text:?} of {subject}");
            let value = value.ok_or(TargetError::Unfit { column: column.to_owned(), expected, found })?;
            values.insert(subject.to_owned(), value);
        }
        Ok(Self { name: column.to_owned(), kind: kind.clone(), values })
    }

    /// The value of a person: the number, or the position of the class.
    pub fn value(&self, subject: &str) -> Option<f64> {
        self.values.get(subject).copied()
    }

    pub fn code(&self, subject: &str) -> Option<usize> {
        self.classes().and(self.value(subject)).map(|code| code as usize)
    }

    /// Number of classes; none for a number.
    pub fn classes(&self) -> Option<usize> {
        Some(self.kind.classes().len()).filter(|classes| *classes > 0)
    }

    /// Units fitted on the training people who have a value.
    pub fn scale(&self, people: &TrainPeople) -> LabelScale {
        let values: Vec<f64> = people.subjects().iter().filter_map(|s| self.value(s)).collect();
        LabelScale::fit(&self.kind, &values)
    }

    /// The same people with labels dealt out anew, for checks against chance.
    pub fn shuffled(&self, seed: u64) -> Self {
        let mut values: Vec<f64> = self.values.values().copied().collect();
        random::shuffle(&mut values, &mut random::stream("shuffled labels", &[seed]));
        Self { values: self.values.keys().cloned().zip(values).collect(), ..self.clone() }
    }
}

fn label(people: &Participants, column: &str) -> Result<Label, TargetError> {
    let missing = || TargetError::NoColumn { column: column.to_owned(), found: people.columns().to_vec() };
    people.label(column).ok_or_else(missing)
}

/// Z-scores of a number by the training people; classes are left as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelScale {
    pub mean: f64,
    /// Population standard deviation of the training people; 1 where they are all alike.
    pub spread: f64,
}

impl LabelScale {
    pub fn fit(kind: &TargetKind, labels: &[f64]) -> Self {
        if let TargetKind::Classification { .. } = kind {
            return Self { mean: 0.0, spread: 1.0 };
        }
        let n = labels.len().max(1) as f64;
        let mean = labels.iter().sum::<f64>() / n;
        let spread = (labels.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n).sqrt();
        Self { mean, spread: if spread > 0.0 { spread } else { 1.0 } }
    }

    /// A label in units of the loss.
    pub fn to_loss(self, label: f64) -> f64 {
        (label - self.mean) / self.spread
    }

    /// A prediction in units of the label.
    pub fn to_label(self, value: f64) -> f64 {
        value * self.spread + self.mean
    }

    /// What is said of a person in units of the label: a number; probabilities of classes stay as they are.
    pub fn said(self, said: Vec<f64>) -> Vec<f64> {
        if let [number] = said[..] { vec![self.to_label(number)] } else { said }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people() -> Participants {
        let text = (0..12).fold(String::from("id\tSEX\tsex\tcode\tage\tgroup\tname\n"), |text, i| {
            let sex = if i % 2 == 0 { "M" } else { "F" };
            let age = if i == 3 { "n/a".to_owned() } else { format!("{}.5", 10 + i) };
            format!("{text}p{i}\t{}\t{sex}\t{}\t{age}\t{}\tone\n", 1 + i % 2, 10 - i % 2, i % 3)
        });
        Participants::parse("p.tsv", text.as_bytes(), &[]).unwrap()
    }

    fn classes(target: &Target) -> Vec<&str> {
        match &target.kind {
            TargetKind::Regression => vec![],
            TargetKind::Classification { classes } => classes.iter().map(String::as_str).collect(),
        }
    }

    #[test]
    fn codes_are_classes_and_numbers_are_numbers() {
        let people = people();
        let of = |column| Target::of(&people, column).unwrap();
        let sex = of("SEX");
        assert_eq!((sex.classes(), sex.code("p0"), sex.code("p1")), (Some(2), Some(0), Some(1)));
        assert_eq!((classes(&of("sex")), of("sex").value("p0")), (vec!["F", "M"], Some(1.0)));
        assert_eq!((classes(&of("code")), of("code").value("p0")), (vec!["9", "10"], Some(1.0)), "codes by value");
        let age = of("age");
        assert_eq!((age.classes(), age.value("p0"), age.value("p3"), age.code("p0")), (None, Some(10.5), None, None));
        assert_eq!(
            Target::of(&people, "name").unwrap_err().to_string(),
            "label \"name\": expected at least two different values, found 1"
        );
        assert!(Target::of(&people, "fiq").is_err());
    }

    #[test]
    fn labels_of_other_people_are_read_as_what_they_were() {
        let people = people();
        assert_eq!(Target::of(&people, "group").unwrap().classes(), Some(3));
        let sexes = TargetKind::Classification { classes: vec!["F".into(), "X".into()] };
        let refused = Target::read_as(&people, "sex", &sexes).unwrap_err().to_string();
        assert_eq!(refused, "label \"sex\": expected F or X, found \"M\" of p0");
    }

    #[test]
    fn only_numbers_are_scaled() {
        let scale = LabelScale::fit(&TargetKind::Regression, &[1.0, 3.0]);
        assert_eq!((scale.to_loss(3.0), scale.to_label(1.0)), (1.0, 3.0));
        assert_eq!(LabelScale::fit(&TargetKind::Regression, &[2.0, 2.0]).spread, 1.0);
        let classes = TargetKind::Classification { classes: vec!["a".into(), "b".into()] };
        assert_eq!(LabelScale::fit(&classes, &[1.0, 1.0]), LabelScale { mean: 0.0, spread: 1.0 });
    }
}
