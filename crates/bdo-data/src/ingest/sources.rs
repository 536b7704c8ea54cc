//! The files a plan is made of: found below a folder, or named by a manifest (path, subject, session, task, run, tr, site).

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::files::{self, Found};
use super::plan::SourceFile;
use super::preference::{self, Chosen};
use super::repetition::{self, RepetitionTime, plausible};
use super::{IngestError, IngestOptions, identity};
use crate::bids::{self, Companions, Kind};
use crate::cohort::Rejection;
use crate::durable;
use crate::pattern::Pattern;
use crate::problem::{InContent, Problem, ensure, utf8};
use crate::scan::ScanId;

#[derive(Debug)]
pub(super) struct Sources {
    pub(super) root: PathBuf,
    pub(super) found: Found,
    listed: Option<BTreeMap<PathBuf, Listed>>,
    pattern: Option<Pattern>,
}

impl Sources {
    /// Looks through the source folder, or takes the files of the manifest.
    pub(super) fn of(root: &Path, options: &IngestOptions) -> Result<Self, IngestError> {
        let (found, listed) = match &options.manifest {
            Some(manifest) => {
                let Listing { files, rejected, .. } = Listing::read(manifest, root)?;
                (Found { files: files.keys().cloned().collect(), rejected, notes: vec![] }, Some(files))
            }
            None => (files::below(root)?, None),
        };
        Ok(Self { root: root.to_path_buf(), found, listed, pattern: options.selection.pattern.clone() })
    }

    /// True where a manifest says what each file is.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.is_some()
    }

    pub(super) fn listed(&self, path: &Path) -> Option<&Listed> {
        self.listed.as_ref()?.get(path)
    }

    /// [`Sources::scans`] without files that were given for something else.
    pub(super) fn scans_but(&self, is_scan: impl Fn(&Path) -> bool, given: &[&Option<PathBuf>]) -> Vec<&PathBuf> {
        let given = || given.iter().copied().flatten();
        let is_given = |f: &Path| given().any(|g| g.canonicalize().ok() == f.canonicalize().ok());
        self.scans(|f| is_scan(f) && !is_given(f))
    }

    /// The files that can be scans; with a manifest, all it names.
    pub(super) fn scans(&self, is_scan: impl Fn(&Path) -> bool) -> Vec<&PathBuf> {
        let meant = |f: &Path| self.pattern.as_ref().is_none_or(|p| p.means(&files::relative(&self.root, f)));
        let series = |f: &Path| preference::is_series(f) && !identity::is_inside_feat(&self.root, f);
        let is_one = |f: &&PathBuf| meant(f) && (self.is_listed() || (is_scan(f) && series(f)));
        self.found.files.iter().filter(is_one).collect()
    }

    /// One file for each scan, with the manifest's or its own name and the time that its sidecar states.
    pub(super) fn planned(
        &self,
        paths: &[&PathBuf],
        kind: Kind,
        own: impl Fn(&Path) -> ScanId,
        options: &IngestOptions,
        notes: &mut Vec<String>,
    ) -> Vec<SourceFile> {
        let listed = |path: &&PathBuf| {
            let id = self.listed(path).map_or_else(|| own(path), |l| l.id.clone());
            Chosen { path: (*path).clone(), id, problem: None }
        };
        let chosen = if self.is_listed() {
            paths.iter().map(listed).collect()
        } else {
            preference::one_per_scan(&self.root, paths, &own, notes)
        };
        let file = |Chosen { path, id, problem }| {
            let name = files::relative(&self.root, &path);
            let time = problem.map_or_else(|| stated_time(&path, options.tr_seconds), Err);
            let tr_seconds = time.map_err(|problem| Rejection::of(&name, problem));
            let beside = Companions::default();
            SourceFile { path, name, id, site: None, tr_seconds, kind, beside, space: None, dropped_before: 0 }
        };
        chosen.into_iter().map(file).collect()
    }
}

/// What the JSON beside the file and `--tr` say.
fn stated_time(path: &Path, given: Option<f64>) -> Result<RepetitionTime, Problem> {
    let problem = |expected: &str, found: String| Err(Problem::new("repetition time", expected, found));
    let sidecar = match durable::read(&path.with_file_name(files::stem_of_table(path) + ".json")) {
        Ok(bytes) => match bids::parse_sidecar(&bytes) {
            Err(e) if given.is_none() => return problem("a sidecar of JSON", e.to_string()),
            parsed => parsed.unwrap_or_default(),
        },
        Err(e) if e.system.kind() == std::io::ErrorKind::NotFound => bids::Metadata::new(),
        Err(e) => return problem("a sidecar that can be read", e.to_string()),
    };
    Ok(RepetitionTime { stated: repetition::in_sidecar(&sidecar, given)?, given, assumed: None })
}

/// The columns; the first two must be there.
const COLUMNS: [&str; 7] = ["path", "subject", "session", "task", "run", "tr", "site"];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listed {
    pub(super) id: ScanId,
    pub(super) tr_seconds: Option<f64>,
    pub(super) site: Option<String>,
}

#[derive(Default)]
struct Listing {
    files: BTreeMap<PathBuf, Listed>,
    rejected: Vec<Rejection>,
    of_scan: HashMap<ScanId, PathBuf>,
}

impl Listing {
    /// Reads the table. Paths are below `source` unless they are absolute; a row that cannot be used is a rejection.
    fn read(manifest: &Path, source: &Path) -> Result<Self, IngestError> {
        let bytes = durable::read(manifest)?;
        let text = utf8("text", &bytes).in_content(manifest)?;
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
                let expected = "a path and a subject in every row";
                return Err(IngestError::source(manifest, expected, format!("none in line {line}")));
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
            plausible("the manifest", seconds)
        };
        let tr_seconds = tr.as_ref().map(number).transpose()?;
        if !path.is_file() {
            let absent = || Problem::new("file", "a file that the manifest names", "none of that name");
            return Err(files::unfetched(&path).unwrap_or_else(absent));
        }
        ensure(!self.files.contains_key(&path), "manifest", "one row a file", "a second row")?;
        if let Some(other) = self.of_scan.get(&id) {
            let found = format!("{id}, as {} is", files::relative(source, other));
            return Err(Problem::new("duplicate scan", "one file a scan", found));
        }
        self.of_scan.insert(id.clone(), path.clone());
        self.files.insert(path, Listed { id, tr_seconds, site });
        Ok(())
    }
}
