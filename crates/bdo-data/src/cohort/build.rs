//! Making a cohort from items that are produced in parallel and stored in order, so that a kill at any moment costs at most one
//! part and the bytes come out the same.
//!
//! Work goes on in `OUT.partial-xxxxxxxx`, named after the settings: `cohort/` is the folder to be, `work/` holds one checkpoint
//! a finished part. The last step renames `cohort/` to `OUT`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::manifest::{
    Atlas, CHECKSUMS_FILE, COHORT_FILE, Checksums, FORMAT, INDEX_FILE, IndexEntry, Manifest, PARTICIPANTS_FILE,
    PARTICIPANTS_NOTES_FILE, Part, Provenance, REGIONS_FILE,
};
use super::part::{PartWriter, part_name};
use super::{Cohort, CohortError};
use crate::durable::{self, FileError, InFile};
use crate::participants::Participants;
use crate::problem::Problem;
use crate::region::Region;
use crate::scan::Scan;

/// What is to be built: settings and a list of items in canonical order.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Everything that determines the result; a run continues another one only if these are equal.
    pub provenance: Provenance,
    pub atlas_name: String,
    /// The regions, in the order of the series' columns.
    pub regions: Vec<Region>,
    /// Number of items to produce; each becomes a scan or a rejection.
    pub items: usize,
    /// A part is closed once it has this many bytes.
    pub part_bytes: u64,
}

/// Why an item did not become a scan: one row of `rejected.tsv`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The source file, or the scan where there is none.
    pub file: String,
    pub reason: String,
    pub expected: String,
    pub found: String,
}

impl Rejection {
    pub fn of(file: &str, problem: Problem) -> Self {
        Self { file: file.to_owned(), reason: problem.what, expected: problem.expected, found: problem.found }
    }
}

pub type Item = Result<Scan, Rejection>;

pub trait Observer: Sync {
    fn advance(&self, _done: usize, _rejected: usize) {}
    fn stop_requested(&self) -> bool {
        false
    }
    fn noticed(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    fn take_up(&self, _noticed: serde_json::Value) {}
}

#[derive(Debug, Clone, Default)]
pub struct BuildReport {
    /// The stored scans, in the order they were stored.
    pub index: Vec<IndexEntry>,
    pub rejected: Vec<Rejection>,
}

impl BuildReport {
    pub fn subjects(&self) -> Vec<String> {
        self.index.iter().map(|e| e.id.subject.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

#[derive(Debug, Default)]
pub struct Tables {
    pub participants: Participants,
    /// Further files: path below the folder and content.
    pub extras: BTreeMap<String, Vec<u8>>,
}

/// The state after a finished part.
#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    part: Part,
    index: Vec<IndexEntry>,
    rejected: Vec<Rejection>,
    next_item: usize,
    #[serde(default)]
    noticed: serde_json::Value,
}

/// The table of what was rejected; alone in a folder it says why there is no cohort.
pub const REJECTED_FILE: &str = "rejected.tsv";

/// True for a folder that holds nothing but our own traces: one made for us (a container's mount), or that of a run in which
/// everything was rejected.
pub(super) fn is_vacant(out: &Path) -> bool {
    let ours = |name: &str| name == REJECTED_FILE || name == "lost+found" || name.starts_with(INSIDE_PREFIX);
    let is_link = fs::symlink_metadata(out).is_ok_and(|m| m.is_symlink());
    !is_link
        && fs::read_dir(out)
            .is_ok_and(|mut entries| entries.all(|e| e.is_ok_and(|e| ours(&e.file_name().to_string_lossy()))))
}

/// The cohort at `out`; an error if something else lies there.
pub(crate) fn at(out: &Path) -> Result<Option<Cohort>, CohortError> {
    if !out.exists() || is_vacant(out) {
        return Ok(None);
    }
    match Cohort::open(out) {
        Err(CohortError::NotACohort { .. }) => Err(CohortError::exists(out, "is not a cohort")),
        opened => opened.map(Some),
    }
}

/// The cohort already at `out` if the same settings made it, without what a kill after its end has left beside it; an error if
/// something else lies there.
pub fn existing(out: &Path, provenance: &Provenance) -> Result<Option<Cohort>, CohortError> {
    let Some(cohort) = at(out)? else { return Ok(None) };
    let exists = |reason: String| CohortError::exists(out, reason);
    match cohort.manifest().provenance.last() {
        Some(p) if p.settings_blake3 == provenance.settings_blake3 && p.verb == provenance.verb => {
            tidy_up(out, provenance);
            Ok(Some(cohort))
        }
        Some(p) if p.verb != provenance.verb => Err(exists(format!("is a cohort made by bdo {}", p.verb))),
        Some(p) => Err(exists(format!(
            "is a cohort made with other settings ({})",
            difference(&p.settings, &provenance.settings)
        ))),
        None => Err(exists("is a cohort of unknown origin".into())),
    }
}

/// The unfinished folder a build with these settings would continue, if there is one.
pub fn resumable(out: &Path, provenance: &Provenance) -> Option<PathBuf> {
    let partial = partial_folder(out, provenance);
    partial.join("work").is_dir().then_some(partial)
}

/// Builds the cohort and publishes it as `out`, continuing an interrupted build of the same settings.
///
/// `produce` makes item `i` and is called from several threads; `tables` is called once, when all scans are stored.
pub fn build(
    out: &Path,
    plan: &Plan,
    produce: impl Fn(usize) -> Item + Sync,
    tables: impl FnOnce(&BuildReport) -> Tables,
    observer: &dyn Observer,
) -> Result<BuildReport, CohortError> {
    if out.exists() && !is_vacant(out) {
        return Err(CohortError::exists(out, "would be overwritten"));
    }
    let (fresh, report) = build_beside(out, plan, None, produce, tables, observer)?;
    publish(&fresh, out)?;
    Ok(report)
}

/// A complete cohort that has no name yet. It stays locked against other processes for as long as this lives.
#[derive(Debug)]
pub struct Unpublished {
    partial: PathBuf,
    _lock: File,
}

impl Unpublished {
    pub(super) fn folder(&self) -> PathBuf {
        self.partial.join("cohort")
    }
}

/// Everything but giving it its name: leaves a complete cohort beside `out`. Where contents are known (BLAKE3 of series with the
/// names of their scans), a scan with one of them, or with that of another scan, is rejected; without, copies are stored.
pub fn build_beside(
    out: &Path,
    plan: &Plan,
    known: Option<BTreeMap<String, String>>,
    produce: impl Fn(usize) -> Item + Sync,
    tables: impl FnOnce(&BuildReport) -> Tables,
    observer: &dyn Observer,
) -> Result<(Unpublished, BuildReport), CohortError> {
    let partial = &partial_folder(out, &plan.provenance);
    let (cohort, work) = (partial.join("cohort"), partial.join("work"));
    for folder in [partial, &cohort, &cohort.join("scans"), &work] {
        refuse_link(folder)?;
    }
    durable::create_folder(&cohort.join("scans"))?;
    durable::create_folder(&work)?;
    let lock = lock(&work.join("lock"))?;
    let mut builder = Builder::resume(&cohort, &work, plan, known, observer)?;
    builder.fill(&produce)?;
    let (manifest, report) = builder.into_manifest();
    if report.index.is_empty() {
        // There is nothing to continue; failing to tidy up changes nothing.
        let _ = fs::remove_dir_all(partial);
        return Err(CohortError::Empty { rejected: report.rejected });
    }
    let Tables { participants, extras } = tables(&report);
    write_tables(&cohort, &manifest, &plan.regions, &report.index, &participants, extras)?;
    Ok((Unpublished { partial: partial.clone(), _lock: lock }, report))
}

/// A link planted where the work goes on would send it elsewhere.
pub(super) fn refuse_link(path: &Path) -> Result<(), CohortError> {
    if fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink()) {
        return Err(CohortError::exists(path, "is a link to another place"));
    }
    Ok(())
}

/// Waits for, and holds, the right to give `out` its name: publishing is for one process at a time.
pub fn lock_beside(out: &Path) -> Result<File, CohortError> {
    // Processes that see a folder as their mount point do not see the one it lies in.
    let folder = if is_fixed(out) { out } else { durable::parent(out) };
    durable::create_folder(folder)?;
    let file = File::open(folder).in_file("lock", folder)?;
    file.lock().in_file("lock", folder)?;
    super::inside::finish(out)?;
    Ok(file)
}

pub fn discard(fresh: &Unpublished) -> Result<(), CohortError> {
    fs::remove_dir_all(&fresh.partial).in_file("remove", &fresh.partial)?;
    Ok(())
}

/// Removes what a run that was killed between publishing and tidying up has left, unless a process still works in it.
pub fn tidy_up(out: &Path, provenance: &Provenance) {
    let partial = partial_folder(out, provenance);
    if refuse_link(&partial).is_err() {
        return;
    }
    // Leftovers are only untidy.
    if !partial.join("work").is_dir() {
        let _ = fs::remove_dir(&partial);
    } else if lock(&partial.join("work/lock")).is_ok() {
        let _ = fs::remove_dir_all(&partial);
    }
}

/// Start of the name of a working folder inside a folder that cannot be replaced.
const INSIDE_PREFIX: &str = ".partial-";

/// Where the work for `out` goes on under these settings: beside it, or inside a folder that cannot be replaced by another.
pub(super) fn partial_folder(out: &Path, provenance: &Provenance) -> PathBuf {
    let settings = &provenance.settings_blake3[..8];
    if is_fixed(out) {
        return out.join(format!("{INSIDE_PREFIX}{settings}"));
    }
    let name = out.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    out.with_file_name(format!("{name}.partial-{settings}"))
}

/// Whether a folder cannot change places with another: a mount point, or one in a folder that is not ours to write.
pub(super) fn is_fixed(out: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // Whole paths: `.` and bare names have parents too.
    let Ok(out) = std::path::absolute(out) else { return false };
    let (Some(parent), Ok(own)) = (out.parent(), fs::metadata(&out)) else { return false };
    let other_device = fs::metadata(parent).is_ok_and(|p| p.dev() != own.dev());
    own.is_dir() && (other_device || rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_err())
}

/// Moves what a finished folder holds into one that cannot be replaced. `cohort.json`, without which it is no cohort, comes last.
fn move_into(fresh: &Path, out: &Path) -> Result<(), CohortError> {
    let mut entries = entries(fresh)?;
    entries.sort_by_key(|path| path.file_name().is_some_and(|n| n == COHORT_FILE));
    for path in entries {
        let to = out.join(path.file_name().unwrap_or_default());
        fs::rename(&path, &to).in_file("write", &to)?;
    }
    durable::sync_folder(out)?;
    Ok(())
}

/// Gives the finished cohort its name and removes what is left of the work.
pub fn publish(fresh: &Unpublished, out: &Path) -> Result<(), CohortError> {
    durable::create_folder(durable::parent(out))?;
    give_name(&fresh.folder(), out)?;
    // The cohort is published; leftovers of the work are only untidy.
    let _ = fs::remove_dir_all(&fresh.partial);
    Ok(())
}

/// Gives the finished folder `new` the name `out`, which is free.
pub(super) fn give_name(new: &Path, out: &Path) -> Result<(), CohortError> {
    if is_vacant(out) {
        // Only the table of an earlier run in which nothing was good can lie there.
        let _ = fs::remove_file(out.join(REJECTED_FILE));
    }
    if new.starts_with(out) {
        return move_into(new, out);
    }
    fs::rename(new, out).in_file("write", out)?;
    Ok(durable::sync_folder(durable::parent(out))?)
}

/// What lies in a folder.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let paths = fs::read_dir(folder).in_file("read", folder)?.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<Result<_, _>>().in_file("read", folder)
}

fn lock(path: &Path) -> Result<File, CohortError> {
    let file = File::create(path).in_file("write", path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CohortError::Busy { path: durable::parent(path).to_path_buf() }),
        Err(TryLockError::Error(e)) => Err(e).in_file("lock", path)?,
    }
}

struct Builder<'a> {
    plan: &'a Plan,
    observer: &'a dyn Observer,
    scans: PathBuf,
    work: PathBuf,
    parts: Vec<Part>,
    /// The part that is being written.
    open: Option<PartWriter>,
    report: BuildReport,
    seen: BTreeSet<crate::scan::ScanId>,
    contents: Option<BTreeMap<String, String>>,
    next_item: usize,
}

impl<'a> Builder<'a> {
    /// Takes up the finished parts; anything later is thrown away and done again.
    fn resume(
        cohort: &Path,
        work: &Path,
        plan: &'a Plan,
        contents: Option<BTreeMap<String, String>>,
        observer: &'a dyn Observer,
    ) -> Result<Self, CohortError> {
        let (scans, work) = (cohort.join("scans"), work.to_path_buf());
        let (report, seen) = (BuildReport::default(), BTreeSet::new());
        let mut builder =
            Self { plan, observer, scans, work, parts: vec![], open: None, report, seen, contents, next_item: 0 };
        while let Some(checkpoint) = builder.checkpoint() {
            for entry in &checkpoint.index {
                builder.seen.insert(entry.id.clone());
                if let Some(contents) = &mut builder.contents {
                    contents.insert(entry.series_blake3.clone(), format!("{} ({})", entry.id, entry.source));
                }
            }
            builder.parts.push(checkpoint.part);
            builder.report.index.extend(checkpoint.index);
            builder.report.rejected = checkpoint.rejected;
            observer.take_up(checkpoint.noticed);
            builder.next_item = checkpoint.next_item.min(plan.items);
        }
        let kept: BTreeSet<String> = (0..builder.parts.len()).map(part_name).collect();
        for path in entries(&builder.scans)? {
            if !path.file_name().is_some_and(|n| kept.contains(&*n.to_string_lossy())) {
                fs::remove_file(&path).in_file("remove", &path)?;
            }
        }
        Ok(builder)
    }

    /// The checkpoint of the next part, if it is there and its part is whole.
    fn checkpoint(&self) -> Option<Checkpoint> {
        let number = self.parts.len();
        let checkpoint: Checkpoint =
            serde_json::from_slice(&fs::read(self.work.join(checkpoint_name(number))).ok()?).ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(self.scans.join(part_name(number))).ok()?).ok()?;
        (hasher.finalize().to_hex().as_str() == checkpoint.part.blake3).then_some(checkpoint)
    }

    /// Produces and stores what is missing. While one batch is written the next is produced.
    fn fill(&mut self, produce: &(impl Fn(usize) -> Item + Sync)) -> Result<(), CohortError> {
        let (items, observer) = (self.plan.items, self.observer);
        let batch_items = 4 * rayon::current_num_threads();
        let make = |from: usize| -> Vec<Item> {
            let to = (from + batch_items).min(items);
            if observer.stop_requested() { vec![] } else { (from..to).into_par_iter().map(produce).collect() }
        };
        let mut at = self.next_item;
        let mut ready = make(at);
        while at < items {
            if observer.stop_requested() || ready.is_empty() {
                return Err(CohortError::Interrupted { done: self.next_item, total: items });
            }
            let following = at + ready.len();
            let store = || {
                for (i, item) in (at..).zip(ready) {
                    self.store(i, item)?;
                    observer.advance(i + 1, self.report.rejected.len());
                }
                Ok::<(), CohortError>(())
            };
            let (stored, next) = rayon::join(store, || make(following));
            stored?;
            (ready, at) = (next, following);
        }
        self.close_part(items)
    }

    fn store(&mut self, item: usize, scan: Item) -> Result<(), CohortError> {
        let scan = match scan.and_then(|scan| self.admit(scan)) {
            Ok(scan) => scan,
            Err(rejection) => {
                self.report.rejected.push(rejection);
                return Ok(());
            }
        };
        let number = self.parts.len();
        let part = match &mut self.open {
            Some(part) => part,
            none => none.insert(PartWriter::create(&self.scans, number, self.plan.regions.len())?),
        };
        part.push(&scan)?;
        if part.bytes() >= self.plan.part_bytes { self.close_part(item + 1) } else { Ok(()) }
    }

    /// A scan that breaks the rules, or repeats another one, is a rejection like any other.
    fn admit(&mut self, scan: Scan) -> Item {
        let file = if scan.source.name.is_empty() { scan.id.to_string() } else { scan.source.name.clone() };
        scan.validate(self.plan.regions.len()).map_err(|problem| Rejection::of(&file, problem))?;
        if !self.seen.insert(scan.id.clone()) {
            let found = format!("a second {}", scan.id);
            return Err(Rejection::of(&file, Problem::new("duplicate scan", "one file a scan", found)));
        }
        if let Some(contents) = &mut self.contents {
            let content = scan.series_blake3();
            if let Some(other) = contents.get(&content) {
                self.seen.remove(&scan.id);
                let found = format!("the series of {other}");
                return Err(Rejection::of(&file, Problem::new("copy of another scan", "a series of its own", found)));
            }
            contents.insert(content, format!("{} ({})", scan.id, scan.source.name));
        }
        Ok(scan)
    }

    fn close_part(&mut self, next_item: usize) -> Result<(), CohortError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let (part, index) = open.finish()?;
        let rejected = self.report.rejected.clone();
        let checkpoint = Checkpoint { part, index, rejected, next_item, noticed: self.observer.noticed() };
        let json = serde_json::to_vec(&checkpoint).expect("a checkpoint holds only strings and finite numbers");
        durable::write(&self.work.join(checkpoint_name(self.parts.len())), &json)?;
        self.parts.push(checkpoint.part);
        self.report.index.extend(checkpoint.index);
        self.next_item = next_item;
        Ok(())
    }

    fn into_manifest(mut self) -> (Manifest, BuildReport) {
        let plan = self.plan;
        self.report.index.sort_by(|a, b| a.id.cmp(&b.id));
        let manifest = Manifest {
            format: FORMAT.into(),
            scans: self.report.index.len(),
            subjects: self.report.subjects().len(),
            regions: plan.regions.len(),
            atlas: Atlas::of_names(&plan.atlas_name, plan.regions.iter().map(|r| r.name.as_str())),
            provenance: vec![plan.provenance.clone()],
            parts: self.parts,
        };
        (manifest, self.report)
    }
}

/// Writes everything but the parts, the checksums last.
pub(super) fn write_tables(
    cohort: &Path,
    manifest: &Manifest,
    regions: &[Region],
    index: &[IndexEntry],
    participants: &Participants,
    mut files: BTreeMap<String, Vec<u8>>,
) -> Result<(), CohortError> {
    files.insert(COHORT_FILE.into(), durable::pretty_json(manifest));
    files.insert(REGIONS_FILE.into(), durable::pretty_json(&regions));
    files.insert(INDEX_FILE.into(), durable::pretty_json(&index));
    files.insert(PARTICIPANTS_FILE.into(), participants.to_tsv().into_bytes());
    files.insert(PARTICIPANTS_NOTES_FILE.into(), participants.to_json().into_bytes());
    let mut sums = Checksums::default();
    for (name, bytes) in &files {
        let path = cohort.join(name);
        durable::create_folder(durable::parent(&path))?;
        durable::write(&path, bytes)?;
        sums.0.insert(name.clone(), blake3::hash(bytes).to_hex().to_string());
    }
    sums.0.extend(manifest.parts.iter().map(|p| (p.file.clone(), p.blake3.clone())));
    durable::write(&cohort.join(CHECKSUMS_FILE), sums.to_text().as_bytes())?;
    Ok(())
}

fn checkpoint_name(number: usize) -> String {
    format!("part-{number:05}.json")
}

/// The first setting in which two runs differ, for a message.
fn difference(made_with: &serde_json::Value, asked_for: &serde_json::Value) -> String {
    let (Some(a), Some(b)) = (made_with.as_object(), asked_for.as_object()) else {
        return format!("made with {made_with}, asked for {asked_for}");
    };
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differing = keys.into_iter().find(|k| a.get(*k) != b.get(*k));
    let show = |v: Option<&serde_json::Value>| v.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    differing.map_or_else(
        || "no difference".to_owned(),
        |k| match (a.get(k), b.get(k)) {
            (Some(x), Some(y)) if x.is_object() && y.is_object() => format!("{k}: {}", difference(x, y)),
            (x, y) => format!("{k}: made with {}, asked for {}", show(x), show(y)),
        },
    )
}
