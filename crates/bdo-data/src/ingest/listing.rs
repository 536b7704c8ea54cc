//! A table that names the scans of any layout: path, subject, session, task, run, tr, site.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::repetition::implausible;
use super::{IngestError, files};
use crate::cohort::Rejection;
use crate::durable;
use crate::problem::{Problem, ensure};
use crate::scan::ScanId;

/// The columns; the first two must be there.
const COLUMNS: [&str; 7] = ["path", "subject", "session", "task", "run", "tr", "site"];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listed {
    pub(super) id: ScanId,
    pub(super) tr_seconds: Option<f64>,
    pub(super) site: Option<String>,
}

/// A manifest: the files it names, in place of those that would be found.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: BTreeMap<PathBuf, Listed>,
    pub(super) rejected: Vec<Rejection>,
    of_scan: HashMap<ScanId, PathBuf>,
}

impl Listing {
    /// Reads the table. Paths are below `source` unless they are absolute; a row that cannot be used is a rejection.
    pub(super) fn read(manifest: &Path, source: &Path) -> Result<Self, IngestError> {
        let bytes = durable::read(manifest)?;
        let text = String::from_utf8(bytes).map_err(|_| IngestError::source(manifest, "UTF-8 text", "other bytes"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let header = text.lines().next().unwrap_or_default();
        let delimiter = if header.contains('\t') || !header.contains(',') { b'\t' } else { b',' };
        let mut reader =
            csv::ReaderBuilder::new().delimiter(delimiter).quoting(delimiter == b',').from_reader(text.as_bytes());
        let malformed = |e: csv::Error| IngestError::source(manifest, "a table", e.to_string());
        let names: Vec<String> = reader.headers().map_err(malformed)?.iter().map(|h| h.trim().to_lowercase()).collect();
        let column: HashMap<&str, usize> =
            COLUMNS.iter().filter_map(|c| Some((*c, names.iter().position(|n| n == c)?))).collect();
        let known = format!("columns path and subject, and any of {}", COLUMNS[2..].join(", "));
        let other = names.iter().find(|n| !COLUMNS.contains(&n.as_str()));
        if !column.contains_key("path") || !column.contains_key("subject") || other.is_some() {
            let found = other.map_or_else(|| names.join(", "), |n| format!("{n:?}"));
            return Err(IngestError::source(manifest, known, found));
        }
        let mut listing = Self::default();
        for record in reader.records() {
            let record = record.map_err(malformed)?;
            let cell = |name: &str| {
                let value = record.get(*column.get(name)?)?.trim();
                (!["", "n/a", "NA", "NaN", "nan"].contains(&value)).then(|| value.to_owned())
            };
            let line = record.position().map_or(0, csv::Position::line);
            let (Some(path), Some(subject)) = (cell("path"), cell("subject")) else {
                return Err(IngestError::source(
                    manifest,
                    "a path and a subject in every row",
                    format!("none in line {line}"),
                ));
            };
            let id = ScanId { subject, session: cell("session"), task: cell("task"), run: cell("run") };
            if let Err(problem) = listing.add(source, &path, id, cell("tr"), cell("site")) {
                listing.rejected.push(Rejection::of(&path, problem));
            }
        }
        if listing.files.is_empty() && listing.rejected.is_empty() {
            return Err(IngestError::source(manifest, "at least one row", "none"));
        }
        Ok(listing)
    }

    fn add(
        &mut self,
        source: &Path,
        name: &str,
        id: ScanId,
        tr: Option<String>,
        site: Option<String>,
    ) -> Result<(), Problem> {
        let path = source.join(name);
        let number = |text: &String| {
            let seconds: f64 =
                text.parse().map_err(|_| Problem::new("tr", "seconds in the manifest", format!("{text:?}")))?;
            implausible("the manifest", seconds).map_or(Ok(seconds), Err)
        };
        let tr_seconds = tr.as_ref().map(number).transpose()?;
        if !path.is_file() {
            let problem = files::unfetched(&path);
            return Err(
                problem.unwrap_or_else(|| Problem::new("file", "a file that the manifest names", "none of that name"))
            );
        }
        ensure(!self.files.contains_key(&path), "manifest", "one row a file", "a second row")?;
        if let Some(other) = self.of_scan.get(&id) {
            return Err(Problem::new(
                "duplicate scan",
                "one file a scan",
                format!("{id}, as {} is", files::relative(source, other)),
            ));
        }
        self.of_scan.insert(id.clone(), path.clone());
        self.files.insert(path, Listed { id, tr_seconds, site });
        Ok(())
    }
}
