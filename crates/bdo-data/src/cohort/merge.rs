//! Several cohorts of one atlas into one, and corrected labels. Parts are immutable, so they are linked (or copied) as they are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use serde_json::json;

use super::build::{Unpublished, give_name, is_vacant, lock_beside, partial_folder, refuse_link, write_tables};
use super::manifest::{Checksums, FORMAT, IndexEntry, Manifest, Part, Provenance, TABLES};
use super::part::part_name;
use super::{Cohort, CohortError, inside};
use crate::durable::{self, InFile};
use crate::participants::Participants;

/// Files beside the tables and parts: path below the folder and content.
type Extras = BTreeMap<String, Vec<u8>>;

/// Merges cohorts into `out`, which must not exist. The same regions in the same order are required, and no scan twice, by
/// name or by content. `prefixes`, one for each cohort or none at all, go before the IDs of its people (after `sub-`).
pub fn merge(
    cohorts: &[Cohort],
    out: &Path,
    provenance: Vec<Provenance>,
    prefixes: &[String],
) -> Result<Manifest, CohortError> {
    let mut extras = BTreeMap::new();
    for (number, cohort) in cohorts.iter().enumerate() {
        let files = extra_files(cohort)?.into_iter();
        extras.extend(files.map(|(name, bytes)| (format!("merged/{number:03}/{name}"), bytes)));
    }
    Joined::of(cohorts, prefixes, None)?.write(out, false, provenance, extras)
}

/// Adds the scans of a finished, unpublished cohort to the one at `out`, with these files beside the tables.
pub fn append(
    present: Cohort,
    fresh: &Unpublished,
    out: &Path,
    provenance: Vec<Provenance>,
    mut extras: Extras,
) -> Result<Manifest, CohortError> {
    let added = Cohort::open(&fresh.folder())?;
    for (name, bytes) in extra_files(&present)? {
        extras.entry(name).or_insert(bytes);
    }
    Joined::of(&[present, added], &[], None)?.write(out, true, provenance, extras)
}

/// The parts, scans and people of several cohorts.
struct Joined<'a> {
    first: &'a Cohort,
    /// Where each part is now, and what it will be.
    parts: Vec<(std::path::PathBuf, Part)>,
    index: Vec<IndexEntry>,
    participants: Participants,
}

impl<'a> Joined<'a> {
    fn of(cohorts: &'a [Cohort], prefixes: &[String], participants: Option<Participants>) -> Result<Self, CohortError> {
        let Some(first) = cohorts.first() else {
            return Err(CohortError::mismatch(Path::new("merge"), "at least one cohort to merge", "none"));
        };
        let (mut parts, mut index) = (vec![], vec![]);
        let mut people = Participants::default();
        let mut owner: HashMap<String, &Path> = HashMap::new();
        for (number, cohort) in cohorts.iter().enumerate() {
            let prefix = prefixes.get(number).map_or("", String::as_str);
            same_regions(first, cohort)?;
            let first_part = parts.len();
            for part in &cohort.manifest().parts {
                let file = format!("scans/{}", part_name(parts.len()));
                parts.push((cohort.folder().join(&part.file), Part { file, ..part.clone() }));
            }
            for entry in cohort.index() {
                let mut entry = entry.clone();
                entry.id.subject = prefixed(&entry.id.subject, prefix);
                let contents = [entry.id.to_string(), entry.series_blake3.clone()];
                for (what, key) in ["", "a copy of "].iter().zip(contents).filter(|(_, key)| !key.is_empty()) {
                    if let Some(other) = owner.insert(key, cohort.folder()).filter(|o| *o != cohort.folder()) {
                        let expected = format_args!("no scan that {} has too", other.display());
                        let hint = "IDs of different studies get a prefix each: --prefix a,b";
                        let found = format_args!("{what}{} in both; hint: {hint}", entry.id);
                        return Err(CohortError::mismatch(cohort.folder(), expected, found));
                    }
                }
                entry.part += first_part;
                index.push(entry);
            }
            people = people.merged_with(&cohort.participants().renamed(|id| prefixed(id, prefix)));
        }
        if let Some(table) = participants {
            for entry in &mut index {
                entry.site = table.site_of(&entry.id.subject).map(str::to_owned).or(entry.site.take());
            }
            people = table;
        }
        index.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Self { first, parts, index, participants: people })
    }

    /// Writes the joined cohort beside `out`, or inside where `out` cannot be replaced, and gives it its name; whatever fails,
    /// nothing is left.
    fn write(
        self,
        out: &Path,
        replace: bool,
        provenance: Vec<Provenance>,
        extras: Extras,
    ) -> Result<Manifest, CohortError> {
        if out.exists() && !replace && !is_vacant(out) {
            return Err(CohortError::exists(out, "would be overwritten"));
        }
        let identity = Provenance::of("merge", serde_json::to_value(&provenance).unwrap_or_default());
        let partial = partial_folder(out, &identity);
        // A leftover of an interrupted merge holds only links: starting over costs nothing.
        refuse_link(&partial)?;
        if partial.exists() {
            fs::remove_dir_all(&partial).in_file("remove", &partial)?;
        }
        let subjects: BTreeSet<&str> = self.index.iter().map(|e| e.id.subject.as_str()).collect();
        let manifest = Manifest {
            format: FORMAT.into(),
            scans: self.index.len(),
            subjects: subjects.len(),
            provenance,
            parts: self.parts.iter().map(|(_, part)| part.clone()).collect(),
            ..self.first.manifest().clone()
        };
        let written = self.fill(&partial.join("cohort"), out, replace, &manifest, extras);
        let _ = fs::remove_dir_all(&partial);
        written.map(|()| manifest)
    }

    fn fill(
        &self,
        new: &Path,
        out: &Path,
        replace: bool,
        manifest: &Manifest,
        extras: Extras,
    ) -> Result<(), CohortError> {
        durable::create_folder(&new.join("scans"))?;
        for (from, part) in &self.parts {
            let to = new.join(&part.file);
            if fs::hard_link(from, &to).is_err() {
                fs::copy(from, &to).in_file("copy", from)?;
                fs::File::open(&to).and_then(|f| f.sync_all()).in_file("write", &to)?;
            }
        }
        write_tables(new, manifest, self.first.regions(), &self.index, &self.participants, extras)?;
        durable::sync_folder(&new.join("scans"))?;
        match (replace, new.starts_with(out)) {
            (false, _) => give_name(new, out),
            (true, true) => inside::replace(new, out, &self.parts),
            (true, false) => exchange(new, out),
        }
    }
}

/// An ID with a prefix, which goes after `sub-` so that the name stays one of BIDS.
fn prefixed(id: &str, prefix: &str) -> String {
    match id.strip_prefix("sub-") {
        Some(bare) => format!("sub-{prefix}{bare}"),
        None => format!("{prefix}{id}"),
    }
}

/// Files that belong to neither the tables nor the parts (truth, rejected scans); a merged cohort keeps them side by side.
fn extra_files(cohort: &Cohort) -> Result<Extras, CohortError> {
    let sums = Checksums::read(cohort.folder())?;
    let names = sums.0.keys().filter(|n| !TABLES.contains(&n.as_str()) && !n.starts_with("scans/"));
    names.map(|n| Ok((n.clone(), super::checked(cohort.folder(), n, &sums)?))).collect()
}

fn same_regions(first: &Cohort, other: &Cohort) -> Result<(), CohortError> {
    let (a, b) = (first.regions(), other.regions());
    if a.len() != b.len() {
        let expected = format_args!("{} regions as in {}", a.len(), first.folder().display());
        return Err(CohortError::mismatch(other.folder(), expected, b.len()));
    }
    match a.iter().zip(b).position(|(x, y)| x.name != y.name) {
        None => Ok(()),
        Some(i) => {
            let expected = format_args!("region {} to be {}", i + 1, a[i].name);
            Err(CohortError::mismatch(other.folder(), expected, &b[i].name))
        }
    }
}

/// Swaps two folders in one step of the file system, so that readers see the old cohort or the new one.
fn exchange(new: &Path, old: &Path) -> Result<(), CohortError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).map_err(std::io::Error::from).in_file("replace", old)?;
    Ok(durable::sync_folder(durable::parent(old))?)
}

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
        return Err(CohortError::mismatch(folder, expected, found));
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
    let mut extras = extra_files(&cohort)?;
    extras.insert(kept, before.to_tsv().into_bytes());
    Joined::of(std::slice::from_ref(&cohort), &[], Some(after))?.write(folder, true, provenance, extras)?;
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
