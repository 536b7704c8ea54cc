//! Which regions the columns of a cohort are: those that most tables agree on, or the names of a label file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{IngestError, SeriesTable, files, read_series};
use crate::atlas::{colour_pairs, lines_of};
use crate::durable;
use crate::problem::{InContent, ReadError, utf8};
use crate::region::repeated_name;
use crate::row::{cells, delimiter_of};

/// Files that are looked at; the others are compared with the outcome when they are read.
const LOOKED_AT: usize = 33;

/// How many columns there are, and their names where they have some.
type Columns = (usize, Vec<String>);

/// The file and table of [`most_common`] columns among tables.
pub(super) fn most_common_table(source: &Path, scans: &[&PathBuf]) -> Result<(PathBuf, SeriesTable), IngestError> {
    most_common(source, scans, |path| {
        let table = read_series(path)?;
        Ok(((table.columns, table.names.clone().unwrap_or_default()), table))
    })
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
            Ok(((count, mut names), content)) => {
                // Their order may differ from file to file.
                names.sort();
                kinds.entry((count, names)).or_insert_with(|| (0, path.clone(), content)).0 += 1;
            }
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
        let shown = |path: &Path, columns: &Columns| format!("{} in {}", columns.0, files::relative(source, path));
        let found = format!("columns {} and {}", shown(&path, &columns), shown(&other, &its));
        return Err(IngestError::source(source, "files that agree in their columns, or --pattern to choose", found));
    }
    Ok((path, content))
}

/// Reads region names: one name a line; a table with a `name` or `label` column; or FSL-style pairs of a name line and an
/// `id r g b a` line.
pub fn read_region_names(path: &Path) -> Result<Vec<String>, IngestError> {
    let bytes = durable::read(path)?;
    let lines = lines_of(utf8("text", &bytes).in_content(path)?);
    let names = table_column(&lines)
        .or_else(|| Some(colour_pairs(&lines)?.into_iter().map(|(_, region)| region.name).collect()))
        .unwrap_or_else(|| lines.iter().map(|l| l.trim().to_owned()).collect());
    if names.is_empty() {
        return Err(IngestError::source(path, "region names", "an empty file"));
    }
    if let Some(twice) = repeated_name(names.iter().map(String::as_str)) {
        return Err(IngestError::source(path, "different region names", format!("{twice:?} twice")));
    }
    Ok(names)
}

fn table_column(lines: &[&str]) -> Option<Vec<String>> {
    let (header, rows) = lines.split_first()?;
    let delimiter = Some(delimiter_of(header)?);
    let cell = |line: &str, i: usize| cells(line, delimiter).nth(i).map(str::to_owned);
    let is_name = |h: &str| ["name", "label", "region", "roi_name"].contains(&h.to_lowercase().as_str());
    let column = cells(header, delimiter).position(is_name)?;
    rows.iter().map(|row| cell(row, column)).collect()
}

#[cfg(test)]
mod labels_tests {
    use super::*;

    #[test]
    fn three_kinds_of_label_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("labels");
        for text in ["a\nb c\n", "index\tname\n1\ta\n2\tb c\n", "a\n1 10 20 30 255\nb c\n2 10 20 30 255\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_region_names(&path).unwrap(), ["a", "b c"], "{text:?}");
        }
        std::fs::write(&path, "index,name\n1,\"Gyrus, pars opercularis\"\n2,b\n").unwrap();
        assert_eq!(read_region_names(&path).unwrap(), ["Gyrus, pars opercularis", "b"]);
        std::fs::write(&path, "a\na\n").unwrap();
        let message = read_region_names(&path).unwrap_err().to_string();
        assert!(message.ends_with("expected different region names, found \"a\" twice"), "{message}");
    }
}
