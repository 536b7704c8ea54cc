//! Labels of a cohort's people, corrected without reading a scan again.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::build::lock_beside;
use super::merge::relabel;
use super::{Cohort, CohortError, Provenance};
use crate::participants::Participants;

/// Folder of the tables that were there before.
const HISTORY_FOLDER: &str = "labels";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelReport {
    /// People with another value in some column.
    pub people: usize,
    /// Columns that are new, or in which somebody has another value.
    pub columns: Vec<String>,
}

/// BLAKE3 of a table of people, by which a corrected one is told.
pub fn table_blake3(table: &Participants) -> String {
    blake3::hash(table.to_tsv().as_bytes()).to_hex().to_string()
}

/// Takes the labels of a table: where it has a person and a column, its value counts. The table before stays in the folder
/// `labels`, and the provenance says when which table was taken; `by` is the verb that brings it.
pub fn label(folder: &Path, table: &Participants, by: &str) -> Result<LabelReport, CohortError> {
    let _lock = lock_beside(folder)?;
    let cohort = Cohort::open(folder)?;
    let before = cohort.participants();
    if !before.subjects().any(|s| table.row_of(s).is_some()) {
        let row = table.subjects().next().unwrap_or("nobody");
        let expected = format!("rows of its people, such as {:?}", before.subjects().next().unwrap_or_default());
        let found = format!("none of them in the table, but {row:?} and others");
        return Err(CohortError::Mismatch { path: folder.to_path_buf(), expected, found });
    }
    let after = before.corrected_by(table);
    let report = changes(before, &after);
    if report == LabelReport::default() && before.to_json() == after.to_json() {
        return Ok(report);
    }
    let steps = &cohort.manifest().provenance;
    let number = steps.iter().filter(|p| p.verb == "label").count();
    let kept = format!("{HISTORY_FOLDER}/{number:03}_participants.tsv");
    let settings = json!({
        "by": by,
        "table_blake3": table_blake3(table),
        "people_changed": report.people,
        "columns_changed": report.columns,
        "before": kept,
        "before_blake3": table_blake3(before),
    });
    let mut provenance = steps.clone();
    provenance.push(Provenance::of("label", settings));
    let history = BTreeMap::from([(kept, before.to_tsv().into_bytes())]);
    relabel(&cohort, after, provenance, history)?;
    Ok(report)
}

fn changes(before: &Participants, after: &Participants) -> LabelReport {
    let value = |table: &Participants, subject: &str, column: &str| {
        table.row_of(subject).and_then(|row| table.get(row, column)).map(str::to_owned)
    };
    let differs = |subject: &str, column: &String| value(before, subject, column) != value(after, subject, column);
    let is_new = |column: &&String| !before.columns().contains(column);
    let columns = after.columns().iter().filter(|c| is_new(c) || after.subjects().any(|s| differs(s, c)));
    let people = after.subjects().filter(|s| after.columns().iter().any(|c| differs(s, c))).count();
    LabelReport { people, columns: columns.cloned().collect() }
}
