//! Which columns the tables of a cohort have: those most of them agree on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{IngestError, SeriesTable, files, read_series};
use crate::problem::ReadError;

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
        match &table.names {
            Some(names) => Self::named(names.iter().cloned()),
            None => Self { count: table.columns, names: None },
        }
    }

    /// Columns of these names. Their order may differ from file to file.
    pub(super) fn named(names: impl Iterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.collect();
        names.sort();
        Self { count: names.len(), names: Some(names) }
    }
}

/// The file and table of [`most_common`] columns among tables.
pub(super) fn most_common_table(source: &Path, scans: &[&PathBuf]) -> Result<(PathBuf, SeriesTable), IngestError> {
    most_common(source, scans, |path| read_series(path).map(|table| (Columns::of(&table), table)))
}

/// A file with the columns that most files have, and what `read` makes of it. A stray file that sorts first does not decide.
pub(super) fn most_common<T>(
    source: &Path,
    scans: &[&PathBuf],
    read: impl Fn(&Path) -> Result<(Columns, T), ReadError>,
) -> Result<(PathBuf, T), IngestError> {
    let count = scans.len().min(LOOKED_AT);
    let mut first_error = None;
    let mut kinds: BTreeMap<Columns, (usize, PathBuf, T)> = BTreeMap::new();
    for path in (0..count).map(|i| scans[i * scans.len() / count]) {
        match read(path) {
            Ok((columns, content)) => kinds.entry(columns).or_insert_with(|| (0, path.clone(), content)).0 += 1,
            Err(e) => {
                first_error.get_or_insert(e);
            }
        }
    }
    let mut ordered: Vec<(Columns, (usize, PathBuf, T))> = kinds.into_iter().collect();
    ordered.sort_by(|(_, a), (_, b)| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut ordered = ordered.into_iter();
    let Some((columns, (most, path, content))) = ordered.next() else {
        let nothing = || IngestError::source(source, "a readable series", "none");
        return Err(first_error.map_or_else(nothing, IngestError::from));
    };
    if let Some((its, (_, other, _))) = ordered.next().filter(|(_, (n, ..))| *n == most) {
        let shown = |path: &Path, columns: &Columns| format!("{} in {}", columns.count, files::relative(source, path));
        let found = format!("columns {} and {}", shown(&path, &columns), shown(&other, &its));
        return Err(IngestError::source(source, "files that agree in their columns, or --pattern to choose", found));
    }
    Ok((path, content))
}
