//! Which columns the tables of a cohort have: those most of them agree on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{IngestError, SeriesTable, files, read_series};

/// Files that are looked at; the others are compared with the outcome when they are read.
const LOOKED_AT: usize = 33;

/// The names, or without names the number, of columns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Columns {
    pub(super) count: usize,
    pub(super) names: Option<Vec<String>>,
}

impl Columns {
    fn of(table: &SeriesTable) -> Self {
        // The order of named columns may differ from file to file.
        let mut names = table.names.clone();
        names.iter_mut().for_each(|n| n.sort());
        Self { count: table.columns, names }
    }
}

/// A file with the columns that most files have, and its table. A stray file that sorts first does not decide.
pub(super) fn most_common(source: &Path, scans: &[&PathBuf]) -> Result<(PathBuf, SeriesTable), IngestError> {
    let count = scans.len().min(LOOKED_AT);
    let mut first_error = None;
    let mut kinds: BTreeMap<Columns, (usize, PathBuf, SeriesTable)> = BTreeMap::new();
    for path in (0..count).map(|i| scans[i * scans.len() / count]) {
        match read_series(path) {
            Ok(table) => {
                kinds.entry(Columns::of(&table)).or_insert_with(|| (0, path.clone(), table)).0 += 1;
            }
            Err(e) => {
                first_error.get_or_insert(e);
            }
        }
    }
    let mut ordered: Vec<(usize, PathBuf, SeriesTable)> = kinds.into_values().collect();
    ordered.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut ordered = ordered.into_iter();
    let Some((most, path, table)) = ordered.next() else {
        let nothing = || IngestError::source(source, "a readable series", "none");
        return Err(first_error.map_or_else(nothing, IngestError::from));
    };
    if let Some((_, other, its)) = ordered.next().filter(|(n, ..)| *n == most) {
        let shown =
            |path: &Path, table: &SeriesTable| format!("{} in {}", table.columns, files::relative(source, path));
        let found = format!("columns {} and {}", shown(&path, &table), shown(&other, &its));
        return Err(IngestError::source(source, "files that agree in their columns, or --pattern to choose", found));
    }
    Ok((path, table))
}
