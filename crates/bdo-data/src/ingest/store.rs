//! Scans of a plan into a cohort: a new one, or one that is there already, also by several processes at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use serde_json::json;

use super::remarks::{FreedomLeft, Remarks};
use super::repetition::agree;
use super::{IngestError, IngestPlan, SourceFile};
use crate::cohort::{
    self, Cohort, CohortError, Observer, Plan, Provenance, REJECTED_FILE, Rejection, Tables, table_blake3,
};
use crate::durable;
use crate::problem::Problem;
use crate::scan::ScanId;

/// A part is closed at this size: small enough that a kill costs seconds of reading.
const PART_BYTES: u64 = 16 << 20;
/// What an ingest leaves beside the scans and the table of rejected files.
const DESCRIPTION_FILE: &str = "dataset_description.json";

#[derive(Debug, Clone, Default)]
pub struct IngestReport {
    /// Scans in the cohort now.
    pub scans: usize,
    /// Of these, new in this run.
    pub added: usize,
    pub skipped: usize,
    /// Files that became no scan, and what could not be looked at.
    pub rejected: Vec<Rejection>,
    /// People of the cohort whose labels a corrected table has changed.
    pub relabelled: usize,
    /// What was assumed or odd, a sentence each.
    pub notes: Vec<String>,
    /// Degrees of freedom that are left, where anything was regressed or filtered.
    pub degrees_of_freedom: Option<FreedomLeft>,
}

/// Reads every scan of the plan into the cohort `out`. A cohort already there is continued: its scans are skipped, new ones are added.
pub fn ingest(plan: &IngestPlan, out: &Path, observer: &dyn Observer) -> Result<IngestReport, IngestError> {
    loop {
        // Where another process has published some of the same scans meanwhile, what is left is worked out again.
        let Some(mut report) = attempt(plan, out, observer)? else { continue };
        report.relabelled = take_corrected_labels(plan, out)?;
        report.notes = plan.remarks.sentences();
        report.degrees_of_freedom = plan.remarks.freedom();
        if let Some(left) = report.degrees_of_freedom {
            let FreedomLeft { least, most } = left;
            report.notes.push(format!("regression and filter leave {least} to {most} degrees of freedom"));
        }
        return Ok(report);
    }
}

/// Keeps remarks beside finished parts, so that a run that goes on later repeats them.
struct Noting<'a> {
    watcher: &'a dyn Observer,
    remarks: &'a Remarks,
}

impl Observer for Noting<'_> {
    fn advance(&self, done: usize, rejected: usize) {
        self.watcher.advance(done, rejected);
    }

    fn stop_requested(&self) -> bool {
        self.watcher.stop_requested()
    }

    fn noticed(&self) -> serde_json::Value {
        self.remarks.kept_so_far()
    }

    fn take_up(&self, noticed: serde_json::Value) {
        self.remarks.take_up(noticed);
    }
}

/// Labels of a participants table that has changed since the last ingest; scans are not read for it.
fn take_corrected_labels(plan: &IngestPlan, out: &Path) -> Result<usize, IngestError> {
    if plan.participants.is_empty() {
        return Ok(0);
    }
    let cohort = Cohort::open(out)?;
    let of_ingest = |p: &&Provenance| p.verb == "ingest" || p.settings["by"] == "ingest";
    let last = cohort.manifest().provenance.iter().rev().find(of_ingest);
    // A table that was taken already is not taken again: labels corrected by hand since then stay.
    if last.is_some_and(|p| p.settings["table_blake3"] == table_blake3(&plan.participants)) {
        return Ok(0);
    }
    if !cohort.participants().subjects().any(|s| plan.participants.row_of(s).is_some()) {
        return Ok(0);
    }
    Ok(cohort::label(out, &plan.participants, "ingest")?.people)
}

/// One pass; `None` if another process was quicker with some of the scans.
fn attempt(plan: &IngestPlan, out: &Path, observer: &dyn Observer) -> Result<Option<IngestReport>, IngestError> {
    let settings = plan.settings();
    let present = existing(out, &settings)?;
    let mut report = IngestReport { rejected: plan.rejected.clone(), ..IngestReport::default() };
    let todo = outstanding(plan, present.as_ref(), &mut report);
    if let Some(cohort) = &present {
        cohort::tidy_up(out, &identity(plan, &settings, &plan.files.iter().collect::<Vec<_>>()));
        if todo.is_empty() {
            report.scans = cohort.len();
            return Ok(Some(report));
        }
    }
    let provenance = identity(plan, &settings, &todo);
    let build_plan = Plan {
        provenance: provenance.clone(),
        atlas_name: plan.atlas_name.clone(),
        regions: plan.regions.clone(),
        items: todo.len(),
        part_bytes: PART_BYTES,
    };
    let extras = |built: &cohort::BuildReport, before: Vec<u8>| {
        let rejected = joined_rejects(before, &[&plan.rejected[..], &built.rejected].concat());
        let named = [(REJECTED_FILE, rejected), (DESCRIPTION_FILE, description(plan, &provenance))];
        BTreeMap::from(named.map(|(name, bytes)| (name.to_owned(), bytes)))
    };
    let tables = |built: &cohort::BuildReport| Tables {
        participants: plan.participants.restricted_to(&built.subjects()),
        extras: extras(built, vec![]),
    };
    let known = contents(present.as_ref())?;
    let observer = Noting { watcher: observer, remarks: &plan.remarks };
    let built = cohort::build_beside(out, &build_plan, Some(known), |i| plan.read(todo[i]), tables, &observer);
    let (fresh, built) = match (built, &present) {
        (Ok(done), _) => done,
        // Nothing new was good, but the cohort is there: that is a run with rejects, not a failure.
        (Err(CohortError::Empty { rejected }), Some(cohort)) => {
            report.scans = cohort.len();
            report.rejected.extend(rejected);
            return Ok(Some(report));
        }
        (Err(CohortError::Empty { rejected }), None) => return Err(nothing_good(plan, out, rejected)?.into()),
        (Err(e), _) => return Err(e.into()),
    };
    report.added = built.index.len();
    report.rejected.extend(built.rejected.clone());
    let _lock = cohort::lock_beside(out)?;
    let Some(present) = existing(out, &settings)? else {
        cohort::publish(&fresh, out)?;
        report.scans = report.added;
        return Ok(Some(report));
    };
    let stored: HashSet<&ScanId> = present.index().iter().map(|e| &e.id).collect();
    let contents: HashSet<&str> = present.index().iter().map(|e| e.series_blake3.as_str()).collect();
    if built.index.iter().any(|e| stored.contains(&e.id) || contents.contains(e.series_blake3.as_str())) {
        cohort::discard(&fresh)?;
        return Ok(None);
    }
    let mut steps = present.manifest().provenance.clone();
    steps.push(provenance.clone());
    let extras = extras(&built, present.extra(REJECTED_FILE)?.unwrap_or_default());
    report.scans = cohort::append(present, &fresh, out, steps, extras)?.scans;
    cohort::discard(&fresh)?;
    Ok(Some(report))
}

/// The files that are not in the cohort yet; those that are, but have changed, are rejected: nothing is repaired silently.
fn outstanding<'a>(plan: &'a IngestPlan, present: Option<&Cohort>, report: &mut IngestReport) -> Vec<&'a SourceFile> {
    let Some(cohort) = present else { return plan.files.iter().collect() };
    let stored: HashMap<&ScanId, &cohort::IndexEntry> = cohort.index().iter().map(|e| (&e.id, e)).collect();
    let mut todo = vec![];
    for file in &plan.files {
        match stored.get(&file.id).map(|entry| changed(file, entry)) {
            None => todo.push(file),
            Some(None) => report.skipped += 1,
            Some(Some(rejection)) => report.rejected.push(rejection),
        }
    }
    todo
}

/// What is not as it was when the scan was ingested.
fn changed(file: &SourceFile, entry: &cohort::IndexEntry) -> Option<Rejection> {
    let what = "changed since it was ingested";
    let rejected =
        |expected: String, found: String| Some(Rejection::of(&file.name, Problem::new(what, expected, found)));
    let time = match &file.tr_seconds {
        Ok(time) => time.given.or(time.stated),
        Err(rejection) => return Some(rejection.clone()),
    };
    if let Some(seconds) = time.filter(|s| !agree(entry.tr_seconds, *s)) {
        return rejected(format!("a repetition time of {} s", entry.tr_seconds), format!("{seconds} s"));
    }
    match file.blake3() {
        Ok(found) if found == entry.source_blake3 => None,
        Ok(found) => rejected(format!("BLAKE3 {}", entry.source_blake3), found),
        Err(e) => Some(Rejection::of(&file.name, Problem::new("file", "to be readable", e))),
    }
}

/// The series of a cohort by their content, each with the name of its scan.
fn contents(present: Option<&Cohort>) -> Result<BTreeMap<String, String>, IngestError> {
    let Some(cohort) = present else { return Ok(BTreeMap::new()) };
    let mut contents = BTreeMap::new();
    for (i, entry) in cohort.index().iter().enumerate() {
        let known = entry.series_blake3.clone();
        let content = if known.is_empty() { cohort.scan(i)?.series_blake3() } else { known };
        contents.insert(content, format!("{} ({})", entry.id, entry.source));
    }
    Ok(contents)
}

/// Everything was rejected: every reason is left in a table where the cohort would be.
fn nothing_good(plan: &IngestPlan, out: &Path, rejected: Vec<Rejection>) -> Result<CohortError, IngestError> {
    let rejected = [plan.rejected.clone(), rejected].concat();
    durable::create_folder(out)?;
    durable::write(&out.join(REJECTED_FILE), rejected_tsv(&rejected).as_bytes())?;
    Ok(CohortError::Empty { rejected })
}

/// Everything that decides the result of reading these files.
fn identity(plan: &IngestPlan, settings: &serde_json::Value, files: &[&SourceFile]) -> Provenance {
    // Names, not places: the same files in another folder make the same cohort.
    let line = |f: &&SourceFile| {
        let beside: Vec<_> = f.companions().iter().map(|c| c.file_name().unwrap_or_default().to_owned()).collect();
        format!("{}\t{}\t{:?}\t{beside:?}\n", f.id, f.name, f.tr_seconds)
    };
    let names = files.iter().fold(String::new(), |names, f| names + &line(f));
    let mut identity = settings.clone();
    identity["table_blake3"] = table_blake3(&plan.participants).into();
    identity["files_blake3"] = blake3::hash(names.as_bytes()).to_hex().to_string().into();
    Provenance::of("ingest", identity)
}

/// The cohort at `out`, if there is one and an ingest under the same settings made it.
fn existing(out: &Path, settings: &serde_json::Value) -> Result<Option<Cohort>, IngestError> {
    let Some(cohort) = cohort::at(out)? else { return Ok(None) };
    let exists = |reason: String| CohortError::Exists { path: out.to_path_buf(), reason };
    // Labels may have been corrected since.
    let last = cohort.manifest().provenance.iter().rev().find(|p| p.verb != "label").filter(|p| p.verb == "ingest");
    let made_with =
        last.map(|p| p.settings.clone()).ok_or_else(|| exists("is a cohort that bdo ingest did not make".into()))?;
    for (key, value) in settings.as_object().into_iter().flatten() {
        let before = made_with.get(key).unwrap_or(&serde_json::Value::Null);
        // Cohorts of earlier versions know nothing of the least share of regions.
        if before != value && !(key == "least_regions" && before.is_null()) {
            let before = made_with.get(key).map_or_else(|| "nothing".to_owned(), ToString::to_string);
            return Err(exists(format!("was ingested with {key} {before}, not {value}")).into());
        }
    }
    Ok(Some(cohort))
}

fn rejected_tsv(rejected: &[Rejection]) -> String {
    let flat = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let row = |r: &Rejection| [&r.file, &r.reason, &r.expected, &r.found].map(|t| flat(t)).join("\t") + "\n";
    rejected.iter().fold("file\treason\texpected\tfound\n".to_owned(), |text, r| text + &row(r))
}

/// The table of rejects that was there, if any, and the new ones, without repetition.
fn joined_rejects(before: Vec<u8>, rejected: &[Rejection]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(&before).into_owned();
    let known: HashSet<String> = text.lines().map(str::to_owned).collect();
    let after = rejected_tsv(rejected);
    after
        .split_inclusive('\n')
        .filter(|line| !known.contains(line.trim_end_matches('\n')))
        .for_each(|line| text += line);
    text.into_bytes()
}

/// What BIDS wants a derivative to say about its origin.
fn description(plan: &IngestPlan, provenance: &Provenance) -> Vec<u8> {
    let mut description = json!({
        "Name": "Region series ingested by bdo",
        "BIDSVersion": "1.9.0",
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": provenance.name, "Version": provenance.version, "Description": plan.settings().to_string()}],
    });
    if let Some(source) = &plan.source_dataset {
        let known = ["Name", "DatasetDOI", "URL", "GeneratedBy"];
        let kept: serde_json::Map<_, _> =
            known.iter().filter_map(|k| Some(((*k).to_owned(), source.get(*k)?.clone()))).collect();
        description["SourceDatasets"] = json!([kept]);
    }
    durable::pretty_json(&description)
}
