//! A source worked out into scans to read, and the reading of them into a cohort.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Format, IngestError, SeriesTable, read_series};
use crate::cohort::{self, Cohort, CohortError, Item, Observer, Plan, Provenance, Rejection, Tables};
use crate::durable::InFile;
use crate::participants::Participants;
use crate::region::Region;
use crate::scan::{Scan, ScanId, Source};

/// A part is closed at this size: small enough that a kill costs seconds of reading.
const PART_BYTES: u64 = 16 << 20;

/// One file that becomes a scan.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// The file.
    pub path: PathBuf,
    /// Its path below the source, for messages and provenance.
    pub name: String,
    /// Whose scan it is.
    pub id: ScanId,
    /// Where it was acquired.
    pub site: Option<String>,
    /// Repetition time, or why there is none.
    pub tr_seconds: Result<f64, Rejection>,
}

/// All that is known before the first series is read.
#[derive(Debug, Clone)]
pub struct IngestPlan {
    /// Layout of the source.
    pub format: Format,
    /// What the parcellation is called.
    pub atlas_name: String,
    /// The regions a scan must have.
    pub regions: Vec<Region>,
    /// The scans, in canonical order.
    pub files: Vec<SourceFile>,
    /// The people's table, as found.
    pub participants: Participants,
    /// Volumes to drop.
    pub drop_volumes: usize,
    /// What the user should know but need not act on.
    pub warnings: Vec<String>,
}

/// What came of an ingest.
#[derive(Debug, Clone, Default)]
pub struct IngestReport {
    /// Scans in the cohort now.
    pub scans: usize,
    /// Of these, new in this run.
    pub added: usize,
    /// Scans that were there already, from the same files.
    pub skipped: usize,
    /// Files that became no scan.
    pub rejected: Vec<Rejection>,
}

impl IngestPlan {
    /// Keeps part `i` of `n`.
    pub(super) fn keep_shard(&mut self, shard: Option<(usize, usize)>) {
        if let Some((i, n)) = shard {
            let mut number = 0;
            self.files.retain(|_| {
                number += 1;
                (number - 1) % n.max(1) == i.saturating_sub(1)
            });
        }
    }

    /// What decides every scan's content, whatever the list of files.
    fn settings(&self) -> serde_json::Value {
        json!({
            "format": self.format.name(),
            "atlas": self.atlas_name,
            "regions_blake3": cohort::Atlas::of_names("", self.regions.iter().map(|r| r.name.as_str())).names_blake3,
            "drop_volumes": self.drop_volumes,
        })
    }

    /// Reads one scan; everything wrong with it becomes a rejection.
    fn read(&self, file: &SourceFile) -> Item {
        let reject = |reason: &str, expected: String, found: String| Rejection {
            file: file.name.clone(),
            reason: reason.into(),
            expected,
            found,
        };
        let tr_seconds = file.tr_seconds.clone()?;
        let table = read_series(&file.path).map_err(|e| match e {
            super::SeriesFileError::Content { what, expected, found, .. } => reject(&what, expected, found),
            super::SeriesFileError::File(e) => reject("file", "to be readable".into(), e.source.to_string()),
        })?;
        let order = self.column_order(&table).map_err(|(expected, found)| reject("regions", expected, found))?;
        let kept = table.frames.saturating_sub(self.drop_volumes);
        if kept < 2 {
            let expected = format!("at least {} volumes ({} are dropped)", self.drop_volumes + 2, self.drop_volumes);
            return Err(reject("length", expected, table.frames.to_string()));
        }
        let rows = table.values.chunks_exact(table.columns).skip(self.drop_volumes);
        Ok(Scan {
            id: file.id.clone(),
            site: file.site.clone(),
            tr_seconds,
            frame_times_seconds: (self.drop_volumes..table.frames).map(|i| i as f64 * tr_seconds).collect(),
            series: rows.flat_map(|row| order.iter().map(|i| row[*i])).collect(),
            framewise_displacement_mm: None,
            coverage: None,
            source: Source {
                name: file.name.clone(),
                blake3: table.blake3.clone(),
                dropped_volumes: self.drop_volumes as u32,
            },
        })
    }

    /// Which column of the table holds each region: by name where the table has names, else the count must fit.
    fn column_order(&self, table: &SeriesTable) -> Result<Vec<usize>, (String, String)> {
        let Some(names) = table.names.as_ref().filter(|n| self.names_match_kind(n)) else {
            if table.columns == self.regions.len() {
                return Ok((0..table.columns).collect());
            }
            let hint = if table.frames == self.regions.len() {
                " (it looks transposed: frames must go down, regions across)"
            } else {
                ""
            };
            return Err((format!("{} columns", self.regions.len()), format!("{}{hint}", table.columns)));
        };
        let position: HashMap<&str, usize> = names.iter().enumerate().map(|(i, n)| (n.as_str(), i)).collect();
        let missing: Vec<&str> =
            self.regions.iter().map(|r| self.bare_name(r)).filter(|n| !position.contains_key(n)).collect();
        if !missing.is_empty() || position.len() != names.len() || names.len() != self.regions.len() {
            let missing = if missing.is_empty() {
                String::new()
            } else {
                format!(" without {}", missing[..missing.len().min(5)].join(", "))
            };
            return Err((
                format!("the {} regions of the cohort", self.regions.len()),
                format!("{} named columns{missing}", names.len()),
            ));
        }
        Ok(self.regions.iter().map(|r| position[self.bare_name(r)]).collect())
    }

    /// A header of plain numbers over named regions is a count, not names.
    fn names_match_kind(&self, names: &[String]) -> bool {
        let counted = names.iter().all(|n| n.parse::<u32>().is_ok());
        !counted || self.regions.iter().all(|r| self.bare_name(r).parse::<u32>().is_ok())
    }

    /// The name as a source file spells it: without the atlas' own prefix.
    fn bare_name<'a>(&self, region: &'a Region) -> &'a str {
        region.name.strip_prefix(&format!("{}-", self.atlas_name)).unwrap_or(&region.name)
    }
}

/// Reads every scan of the plan into the cohort `out`. A cohort already there is continued: its scans are skipped, new ones are added.
pub fn ingest(plan: &IngestPlan, out: &Path, observer: &dyn Observer) -> Result<IngestReport, IngestError> {
    let settings = plan.settings();
    let present = if out.exists() { Some(existing(out, &settings)?) } else { None };
    let mut report = IngestReport::default();
    let mut todo: Vec<&SourceFile> = vec![];
    match &present {
        None => todo.extend(&plan.files),
        Some(cohort) => {
            let stored: HashMap<&ScanId, &str> =
                cohort.index().iter().map(|e| (&e.id, e.source_blake3.as_str())).collect();
            for file in &plan.files {
                match stored.get(&file.id) {
                    None => todo.push(file),
                    Some(hash) if **hash == hash_file(&file.path)? => report.skipped += 1,
                    Some(hash) => report.rejected.push(Rejection {
                        file: file.name.clone(),
                        reason: "changed since it was ingested".into(),
                        expected: format!("BLAKE3 {hash}"),
                        found: hash_file(&file.path)?,
                    }),
                }
            }
        }
    }
    if let Some(cohort) = &present
        && todo.is_empty()
    {
        report.scans = cohort.len();
        return Ok(report);
    }
    let names: String = todo.iter().map(|f| format!("{}\t{}\t{:?}\n", f.id, f.name, f.tr_seconds)).collect();
    let mut identity = settings.clone();
    identity["files_blake3"] = blake3::hash(names.as_bytes()).to_hex().to_string().into();
    let build_plan = Plan {
        provenance: Provenance::of("ingest", identity),
        atlas_name: plan.atlas_name.clone(),
        regions: plan.regions.clone(),
        items: todo.len(),
        part_bytes: PART_BYTES,
    };
    let fresh = if present.is_some() { sibling(out, &build_plan.provenance) } else { out.to_path_buf() };
    let tables = |built: &cohort::BuildReport| Tables {
        participants: plan.participants.restricted_to(&built.subjects()),
        extras: BTreeMap::from([("rejected.tsv".to_owned(), rejected_tsv(&built.rejected).into_bytes())]),
    };
    let built = cohort::build(&fresh, &build_plan, |i| plan.read(todo[i]), tables, observer)?;
    report.added = built.index.len();
    report.rejected.extend(built.rejected);
    report.scans = report.added;
    if let Some(cohort) = present {
        let fresh_cohort = Cohort::open(&fresh)?;
        let mut provenance = cohort.manifest().provenance.clone();
        provenance.push(build_plan.provenance);
        report.scans = cohort::merge(&[cohort, fresh_cohort], out, provenance, true)?.scans;
        std::fs::remove_dir_all(&fresh).in_file("remove", &fresh)?;
    }
    Ok(report)
}

/// The cohort at `out`, if an ingest under the same settings made it.
fn existing(out: &Path, settings: &serde_json::Value) -> Result<Cohort, IngestError> {
    let exists = |reason: String| CohortError::Exists { path: out.to_path_buf(), reason };
    let cohort = Cohort::open(out).map_err(|e| match e {
        CohortError::NotACohort { .. } => exists("is not a cohort".into()),
        other => other,
    })?;
    let last = cohort.manifest().provenance.last().filter(|p| p.verb == "ingest");
    let made_with =
        last.map(|p| p.settings.clone()).ok_or_else(|| exists("is a cohort that bdo ingest did not make".into()))?;
    for (key, value) in settings.as_object().into_iter().flatten() {
        if made_with.get(key) != Some(value) {
            let before = made_with.get(key).map_or_else(|| "nothing".to_owned(), ToString::to_string);
            return Err(exists(format!("was ingested with {key} {before}, not {value}")).into());
        }
    }
    Ok(cohort)
}

/// A name beside `out` for scans that are to be added to it.
fn sibling(out: &Path, provenance: &Provenance) -> PathBuf {
    let name = out.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    out.with_file_name(format!("{name}.added-{}", &provenance.settings_blake3[..8]))
}

fn hash_file(path: &Path) -> Result<String, IngestError> {
    let mut hasher = blake3::Hasher::new();
    std::fs::File::open(path).and_then(|f| hasher.update_reader(f).map(|_| ())).in_file("read", path)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The table of rejected files.
fn rejected_tsv(rejected: &[Rejection]) -> String {
    let flat = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let row = |r: &Rejection| [&r.file, &r.reason, &r.expected, &r.found].map(|t| flat(t)).join("\t") + "\n";
    rejected.iter().fold("file\treason\texpected\tfound\n".to_owned(), |text, r| text + &row(r))
}
