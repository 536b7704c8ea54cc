//! The people of a cohort and their labels, as a table with missing values.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::durable::{self, FileError};

#[derive(Debug, thiserror::Error)]
pub enum ParticipantsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path}: {problem}")]
    Malformed { path: String, problem: String },
}

/// Spellings of a missing value in the tables people have.
const MISSING: [&str; 9] = ["", "n/a", "N/A", "NA", "na", "nan", "NaN", "null", "NULL"];

/// Headers under which tables give the person, most specific first.
const ID_HEADERS: &str =
    "participant_id,subject_id,src_subject_id,subject,sub_id,sub,subid,eid,scandir id,scandirid,scandir_id,id";

/// One row a person, any number of label columns; a missing label is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Participants {
    columns: Vec<String>,
    rows: Vec<(Arc<str>, Labels)>,
    by_subject: HashMap<Arc<str>, usize>,
    descriptions: BTreeMap<String, ColumnNote>,
}

/// The labels of one person, one text after another: a string for each would take four times as much memory, and training
/// holds the tables of tens of thousands of people.
#[derive(Debug, Clone, Default, PartialEq)]
struct Labels {
    text: Box<str>,
    /// Where each ends; an empty one is missing.
    ends: Box<[u32]>,
}

impl Labels {
    fn of<S: AsRef<str>>(labels: impl IntoIterator<Item = Option<S>>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for label in labels {
            text.push_str(label.as_ref().map_or("", AsRef::as_ref));
            ends.push(u32::try_from(text.len()).expect("the labels of a person are a line of a table"));
        }
        Self { text: text.into(), ends: ends.into() }
    }

    fn get(&self, column: usize) -> Option<&str> {
        let from = column.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[from as usize..self.ends[column] as usize]).filter(|label| !label.is_empty())
    }

    fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        (0..self.ends.len()).map(|column| self.get(column))
    }
}

/// What `participants.json` says about a column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnNote {
    #[serde(rename = "Description", default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "Units", default, skip_serializing_if = "Option::is_none")]
    pub units: Option<String>,
    #[serde(rename = "Levels", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: BTreeMap<String, String>,
}

/// A label column, read as what it holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Label {
    /// Every present value is a number.
    Number(Vec<Option<f64>>),
    /// Anything else: categories by name.
    Category(Vec<Option<String>>),
}

/// A number with at most this many different values is a code, such as 1 and 2.
const MOST_CODES: usize = 10;

/// What a label can be predicted, stratified and drawn as.
#[derive(Debug, Clone, PartialEq)]
pub enum Values<'a> {
    /// A number that is no code.
    Quantity(&'a [Option<f64>]),
    /// The names of the classes, sorted (codes by value), and the class of every row.
    Classes { names: Vec<String>, of: Vec<Option<usize>> },
}

impl Label {
    /// The values as text; equal numbers are spelled alike.
    pub fn texts(&self) -> Vec<Option<String>> {
        match self {
            Self::Number(values) => values.iter().map(|v| v.map(|x| x.to_string())).collect(),
            Self::Category(texts) => texts.clone(),
        }
    }

    pub fn values(&self) -> Values<'_> {
        let texts = self.texts();
        let mut names: Vec<String> = texts.iter().flatten().cloned().collect();
        names.sort_by(|a, b| match (self, a.parse::<f64>(), b.parse::<f64>()) {
            (Self::Number(_), Ok(a), Ok(b)) => a.total_cmp(&b),
            _ => a.cmp(b),
        });
        names.dedup();
        match self {
            Self::Number(values) if names.len() > MOST_CODES => Values::Quantity(values),
            _ => {
                let places: HashMap<&String, usize> = names.iter().zip(0..).collect();
                let of = texts.iter().map(|text| Some(places[text.as_ref()?])).collect();
                Values::Classes { names, of }
            }
        }
    }
}

impl Participants {
    pub fn with_columns<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Adds a person; the labels are in the order of the columns. A person already there is replaced.
    pub fn insert(&mut self, subject: impl Into<String>, labels: Vec<Option<String>>) {
        debug_assert_eq!(labels.len(), self.columns.len(), "one label a column");
        self.insert_labels(&subject.into(), Labels::of(labels));
    }

    fn insert_labels(&mut self, subject: &str, labels: Labels) {
        if let Some(&row) = self.by_subject.get(subject) {
            self.rows[row].1 = labels;
        } else {
            let subject: Arc<str> = subject.into();
            self.by_subject.insert(subject.clone(), self.rows.len());
            self.rows.push((subject, labels));
        }
    }

    pub fn derive(&mut self, name: &str, note: ColumnNote, value: impl Fn(&Self, usize) -> Option<String>) {
        if self.columns.iter().any(|c| c == name) {
            return;
        }
        let values: Vec<_> = (0..self.rows.len()).map(|row| value(self, row)).collect();
        self.columns.push(name.to_owned());
        for ((_, labels), value) in self.rows.iter_mut().zip(values) {
            *labels = Labels::of(labels.iter().chain([value.as_deref()]));
        }
        self.descriptions.insert(name.to_owned(), note);
    }

    pub fn describe(&mut self, column: &str, note: ColumnNote) {
        self.descriptions.insert(column.to_owned(), note);
    }

    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    pub fn subjects(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|(s, _)| &**s)
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a person has a row, with or without the `sub-` prefix.
    pub fn row_of(&self, subject: &str) -> Option<usize> {
        let bare = subject.strip_prefix("sub-").unwrap_or(subject);
        [subject, bare]
            .into_iter()
            .find_map(|s| self.by_subject.get(s).copied())
            .or_else(|| self.by_subject.get(format!("sub-{bare}").as_str()).copied())
    }

    /// One label of one person; `None` where missing.
    pub fn get(&self, row: usize, column: &str) -> Option<&str> {
        let column = self.columns.iter().position(|c| c == column)?;
        self.rows.get(row)?.1.get(column)
    }

    /// Where a person was scanned, by a column of a usual name.
    pub fn site_of(&self, subject: &str) -> Option<&str> {
        let usual = |c: &&String| ["site", "site_id", "scanner"].contains(&c.to_lowercase().as_str());
        let column = self.columns.iter().find(usual)?;
        self.get(self.row_of(subject)?, column)
    }

    /// This table with the rows of another in place of its own: where that table has a person and a column, its value counts, also
    /// where it is missing. People and columns it does not have stay as they are; people this table does not have are left out.
    pub fn corrected_by(&self, other: &Self) -> Self {
        self.joined(other, self.subjects(), |subject, column| {
            let corrected = other.row_of(subject).filter(|_| other.columns.contains(column));
            corrected.map_or_else(|| self.get(self.row_of(subject)?, column), |row| other.get(row, column))
        })
    }

    /// The columns and notes of both tables, with these people and values.
    fn joined<'a>(
        &'a self,
        other: &'a Self,
        subjects: impl Iterator<Item = &'a str>,
        value: impl Fn(&str, &String) -> Option<&'a str>,
    ) -> Self {
        let mut columns = self.columns.clone();
        columns.extend(other.columns.iter().filter(|c| !self.columns.contains(c)).cloned());
        let mut out = Self { descriptions: self.descriptions.clone(), ..Self::with_columns(columns.clone()) };
        out.descriptions.extend(other.descriptions.clone());
        for subject in subjects {
            out.insert(subject, columns.iter().map(|c| value(subject, c).map(str::to_owned)).collect());
        }
        out
    }

    pub fn label(&self, column: &str) -> Option<Label> {
        let column = self.columns.iter().position(|c| c == column)?;
        let texts: Vec<Option<&str>> = self.rows.iter().map(|(_, labels)| labels.get(column)).collect();
        let numbers: Option<Vec<Option<f64>>> = texts
            .iter()
            .map(|t| t.map(|t| t.parse().ok().filter(|x: &f64| x.is_finite())).map_or(Some(None), |x| x.map(Some)))
            .collect();
        Some(match numbers {
            Some(numbers) if numbers.iter().any(Option::is_some) => Label::Number(numbers),
            _ => Label::Category(texts.into_iter().map(|t| t.map(str::to_owned)).collect()),
        })
    }

    /// Keeps the people for whom `keep` holds, adding a row of missing labels for those of `subjects` without one.
    pub fn restricted_to(&self, subjects: &[String]) -> Self {
        let nothing = || Labels::of(vec![None::<&str>; self.columns.len()]);
        let labels = |subject: &String| self.row_of(subject).map_or_else(nothing, |row| self.rows[row].1.clone());
        self.with_rows(subjects.iter().map(|subject| (subject.clone(), labels(subject))))
    }

    #[must_use]
    pub fn renamed(&self, name: impl Fn(&str) -> String) -> Self {
        self.with_rows(self.rows.iter().map(|(subject, labels)| (name(subject), labels.clone())))
    }

    fn with_rows(&self, rows: impl Iterator<Item = (String, Labels)>) -> Self {
        let mut out =
            Self { columns: self.columns.clone(), descriptions: self.descriptions.clone(), ..Self::default() };
        rows.for_each(|(subject, labels)| out.insert_labels(&subject, labels));
        out
    }

    /// Joins two tables: columns of both, people of both; on conflict the other table wins where it has a value.
    pub fn merged_with<'a>(&'a self, other: &'a Self) -> Self {
        let added = other.subjects().filter(|s| !self.by_subject.contains_key(*s));
        self.joined(other, self.subjects().chain(added), |subject, column| {
            let of = |table: &'a Self| table.by_subject.get(subject).and_then(|row| table.get(*row, column));
            of(other).or_else(|| of(self))
        })
    }

    /// Reads a TSV or CSV table (decided by the header line), with `n/a`, empty and the given extra spellings as missing.
    pub fn read(path: &Path, extra_missing: &[&str]) -> Result<Self, ParticipantsError> {
        let bytes = durable::read(path)?;
        let mut table = Self::parse(&path.display().to_string(), &bytes, extra_missing)?;
        let sidecar = path.with_extension("json");
        if sidecar != path && sidecar.is_file() {
            // The sidecar is a courtesy; one that does not parse takes nothing away from the table.
            if let Ok(notes) = serde_json::from_slice::<BTreeMap<String, serde_json::Value>>(&durable::read(&sidecar)?)
            {
                for (column, note) in notes {
                    table.descriptions.insert(column, serde_json::from_value(note).unwrap_or_default());
                }
            }
        }
        Ok(table)
    }

    /// Parses the text of a table; `path` is for messages.
    pub fn parse(path: &str, bytes: &[u8], extra_missing: &[&str]) -> Result<Self, ParticipantsError> {
        let malformed = |problem: String| ParticipantsError::Malformed { path: path.to_owned(), problem };
        let text = std::str::from_utf8(bytes)
            .map_err(|e| malformed(format!("expected UTF-8 text, found other bytes at offset {}", e.valid_up_to())))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let header = text.lines().next().unwrap_or_default();
        let delimiter = if header.contains('\t') || !header.contains(',') { b'\t' } else { b',' };
        let mut reader =
            csv::ReaderBuilder::new().delimiter(delimiter).quoting(delimiter == b',').from_reader(text.as_bytes());
        let headers: Vec<String> =
            reader.headers().map_err(|e| malformed(e.to_string()))?.iter().map(|h| h.trim().to_owned()).collect();
        let id_column = ID_HEADERS.split(',').find_map(|id| headers.iter().position(|h| h.eq_ignore_ascii_case(id)));
        let id_column = id_column.ok_or_else(|| {
            malformed(format!("expected a column named participant_id, found {}", headers.join(", ")))
        })?;
        if let Some(twice) = crate::region::repeated_name(headers.iter().map(String::as_str)) {
            return Err(malformed(format!("expected different column names, found {twice:?} twice")));
        }
        let mut table =
            Self::with_columns(headers.iter().enumerate().filter(|(i, _)| *i != id_column).map(|(_, h)| h.clone()));
        for record in reader.records() {
            let record = record.map_err(|e| malformed(e.to_string()))?;
            let mut subject = None;
            let mut labels = Vec::with_capacity(table.columns.len());
            for (i, value) in record.iter().enumerate() {
                let value = value.trim();
                let present = !MISSING.contains(&value) && !extra_missing.contains(&value);
                match (i == id_column, present) {
                    (true, true) => subject = Some(value),
                    (true, false) => {}
                    (false, _) => labels.push(present.then_some(value)),
                }
            }
            let labels = Labels::of(labels);
            let line = record.position().map_or(0, csv::Position::line);
            let subject = subject
                .ok_or_else(|| malformed(format!("expected a {}, found none in line {line}", headers[id_column])))?;
            if let Some(row) = table.by_subject.get(subject)
                && table.rows[*row].1 != labels
            {
                return Err(malformed(format!(
                    "expected one row a person, found a second, different one for {subject} in line {line}"
                )));
            }
            table.insert_labels(subject, labels);
        }
        Ok(table)
    }

    /// The table as BIDS writes it: tab-separated, `participant_id` first, `n/a` where missing.
    pub fn to_tsv(&self) -> String {
        let mut out = String::from("participant_id");
        for column in &self.columns {
            out.push('\t');
            out.push_str(&flat(column));
        }
        out.push('\n');
        for (subject, labels) in &self.rows {
            out.push_str(&flat(subject));
            for label in labels.iter() {
                out.push('\t');
                out.push_str(&label.map_or_else(|| "n/a".into(), flat));
            }
            out.push('\n');
        }
        out
    }

    /// What the columns mean, as BIDS keeps it beside the table.
    pub fn to_json(&self) -> String {
        let notes: BTreeMap<&String, &ColumnNote> =
            self.descriptions.iter().filter(|(c, _)| self.columns.contains(c)).collect();
        serde_json::to_string_pretty(&notes).expect("a map of strings always serialises") + "\n"
    }
}

/// A tab or line break inside a value would shift every column after it.
fn flat(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_crlf_tsv_with_missing_values() {
        let table =
            Participants::parse("p.tsv", b"SUB_ID\tage\tsex\r\n1\t-9999\tM\r\n2\t30.5\t\r\n", &["-9999"]).unwrap();
        assert_eq!(table.label("age"), Some(Label::Number(vec![None, Some(30.5)])));
        assert_eq!(table.label("sex"), Some(Label::Category(vec![Some("M".into()), None])));
        assert_eq!(table.to_tsv(), "participant_id\tage\tsex\n1\tn/a\tM\n2\t30.5\tn/a\n");
    }

    #[test]
    fn prefix_of_bids_does_not_matter_for_look_up() {
        let table = Participants::parse("p.tsv", b"participant_id,x\nsub-01,3\n", &[]).unwrap();
        assert_eq!(table.row_of("01"), Some(0));
        assert_eq!(table.row_of("sub-01"), Some(0));
        assert_eq!(table.row_of("1"), None);
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |bytes: &[u8]| Participants::parse("p.tsv", bytes, &[]).unwrap_err().to_string();
        assert_eq!(error(b"age\tsex\n"), "p.tsv: expected a column named participant_id, found age, sex");
        assert_eq!(
            error(b"id\tage\n1\t2\n1\t3\n"),
            "p.tsv: expected one row a person, found a second, different one for 1 in line 3"
        );
        assert_eq!(error(b"id\tage\tage\n"), "p.tsv: expected different column names, found \"age\" twice");
        assert_eq!(error(b"\xff\xfe"), "p.tsv: expected UTF-8 text, found other bytes at offset 0");
        assert!(error(b"id\tage\n1\n").contains("found record with 1 fields"), "{}", error(b"id\tage\n1\n"));
    }

    #[test]
    fn merging_keeps_both() {
        let a = Participants::parse("a", b"id\tx\n1\t5\n2\tn/a\n", &[]).unwrap();
        let b = Participants::parse("b", b"id\tx\ty\n2\t6\tq\n3\t7\tr\n", &[]).unwrap();
        assert_eq!(a.merged_with(&b).to_tsv(), "participant_id\tx\ty\n1\t5\tn/a\n2\t6\tq\n3\t7\tr\n");
    }
}
