//! The label that is predicted, as numbers a loss can use.

use crate::error::EvalError;
use bdo_data::division::SplitError;
use bdo_data::participants::{Label, Participants};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A number with at most so many different values is a code for classes, as in splits.
const MOST_CODES: usize = 10;

/// What kind of thing is predicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A number, by squared error on the label z-scored by the training people.
    Regression,
    /// One of two classes, the second being the positive one, by binary cross-entropy.
    Classification {
        /// Their names, sorted.
        classes: [String; 2],
    },
}

/// A label column, by person.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The column.
    pub name: String,
    /// Number or classes.
    pub task: Task,
    /// Number, or 0 and 1, of everybody who has a value.
    pub values: BTreeMap<String, f64>,
}

impl Target {
    /// Reads a column and decides what it is.
    pub fn read(people: &Participants, name: &str) -> Result<Self, EvalError> {
        let texts = class_names(people, name)?;
        let mut distinct: Vec<&String> = texts.values().collect();
        distinct.sort_by(|a, b| order(a, b));
        distinct.dedup();
        let numeric = matches!(people.label(name), Some(Label::Number(_)));
        let task = if numeric && distinct.len() > MOST_CODES {
            Task::Regression
        } else if let [first, second] = distinct[..] {
            Task::Classification { classes: [first.clone(), second.clone()] }
        } else {
            let shown: Vec<&str> = distinct.iter().take(5).map(|s| s.as_str()).collect();
            let more = if distinct.len() > 5 { ", ..." } else { "" };
            return Err(EvalError::Target {
                target: name.to_owned(),
                expected: format!("two classes, or numbers with more than {MOST_CODES} different values"),
                found: format!("{} different values: {}{more}", distinct.len(), shown.join(", ")),
            });
        };
        Self::read_as(people, name, &task)
    }

    /// Reads a column of other people as the task a head was fitted for.
    pub fn read_as(people: &Participants, name: &str, task: &Task) -> Result<Self, EvalError> {
        let mut values = BTreeMap::new();
        for (subject, text) in class_names(people, name)? {
            let value = match task {
                Task::Regression => text.parse::<f64>().ok(),
                Task::Classification { classes } => classes.iter().position(|c| *c == text).map(|c| c as f64),
            };
            let value = value.ok_or_else(|| EvalError::Target {
                target: name.to_owned(),
                expected: match task {
                    Task::Regression => "numbers".to_owned(),
                    Task::Classification { classes } => format!("{} or {}", classes[0], classes[1]),
                },
                found: format!("{text:?} of {subject}"),
            })?;
            values.insert(subject, value);
        }
        Ok(Self { name: name.to_owned(), task: task.clone(), values })
    }

    /// The same people with labels dealt out anew, for checks against chance.
    pub fn shuffled(&self, seed: u64) -> Self {
        let mut values: Vec<f64> = self.values.values().copied().collect();
        bdo_data::random::shuffle(&mut values, &mut bdo_data::random::stream("shuffled labels", &[seed]));
        Self { values: self.values.keys().cloned().zip(values).collect(), ..self.clone() }
    }
}

/// Numbers in order of size before anything else in order of spelling.
fn order(a: &str, b: &str) -> std::cmp::Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => x.total_cmp(&y),
        _ => a.cmp(b),
    }
}

/// The present values as text, by person; equal numbers are spelled alike.
fn class_names(people: &Participants, name: &str) -> Result<BTreeMap<String, String>, EvalError> {
    let label = people
        .label(name)
        .ok_or_else(|| SplitError::NoColumn { column: name.to_owned(), found: people.columns().to_vec() })?;
    let texts: Vec<Option<String>> = match label {
        Label::Number(values) => values.into_iter().map(|v| v.map(|x| x.to_string())).collect(),
        Label::Category(values) => values,
    };
    Ok(people.subjects().map(str::to_owned).zip(texts).filter_map(|(subject, text)| Some((subject, text?))).collect())
}
