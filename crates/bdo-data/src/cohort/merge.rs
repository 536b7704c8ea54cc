//! Several cohorts of one atlas into one. Parts are immutable, so they are linked (or copied) as they are.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use super::build::{Unpublished, part_name, partial_folder, refuse_link, write_folder_tables};
use super::manifest::{FORMAT, Manifest, Provenance};
use super::{Cohort, CohortError};
use crate::durable::{self, InFile};
use crate::participants::Participants;

/// Merges cohorts into `out`, which must not exist unless it is to be `replaced`. The same regions in the same order are required, and no scan twice.
pub fn merge(
    cohorts: &[Cohort],
    out: &Path,
    provenance: Vec<Provenance>,
    replace: bool,
) -> Result<Manifest, CohortError> {
    let mut extras = BTreeMap::new();
    for (number, cohort) in cohorts.iter().enumerate() {
        extras.extend(
            extra_files(cohort)?.into_iter().map(|(name, bytes)| (format!("merged/{number:03}/{name}"), bytes)),
        );
    }
    merge_with(cohorts, out, provenance, replace, extras)
}

/// Adds the scans of a finished, unpublished cohort to the one at `out`, with these files beside the tables.
pub fn append(
    present: Cohort,
    fresh: &Unpublished,
    out: &Path,
    provenance: Vec<Provenance>,
    mut extras: BTreeMap<String, Vec<u8>>,
) -> Result<Manifest, CohortError> {
    let added = Cohort::open(&fresh.folder())?;
    for (name, bytes) in extra_files(&present)? {
        extras.entry(name).or_insert(bytes);
    }
    merge_with(&[present, added], out, provenance, true, extras)
}

fn merge_with(
    cohorts: &[Cohort],
    out: &Path,
    provenance: Vec<Provenance>,
    replace: bool,
    extras: BTreeMap<String, Vec<u8>>,
) -> Result<Manifest, CohortError> {
    if out.exists() && !replace {
        return Err(CohortError::Exists { path: out.to_path_buf(), reason: "would be overwritten".into() });
    }
    let [first, others @ ..] = cohorts else {
        let path = out.to_path_buf();
        return Err(CohortError::Mismatch {
            path,
            expected: "at least one cohort to merge".into(),
            found: "none".into(),
        });
    };
    for other in others {
        same_regions(first, other)?;
    }
    let identity = Provenance::of("merge", serde_json::to_value(&provenance).unwrap_or_default());
    let partial = partial_folder(out, &identity);
    // A leftover of an interrupted merge holds only links: starting over costs nothing.
    refuse_link(&partial)?;
    if partial.exists() {
        fs::remove_dir_all(&partial).in_file("remove", &partial)?;
    }
    let folder = partial.join("cohort");
    durable::create_folder(&folder.join("scans"))?;
    let (mut parts, mut index) = (vec![], vec![]);
    let mut participants = Participants::default();
    let mut owner: HashMap<_, &Path> = HashMap::new();
    for cohort in cohorts {
        let first_part = parts.len();
        for part in &cohort.manifest().parts {
            let mut part = part.clone();
            let from = cohort.folder().join(&part.file);
            part.file = format!("scans/{}", part_name(parts.len()));
            let to = folder.join(&part.file);
            if fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to).in_file("copy", &from)?;
                fs::File::open(&to).and_then(|f| f.sync_all()).in_file("write", &to)?;
            }
            parts.push(part);
        }
        for entry in cohort.index() {
            if let Some(other) = owner.insert(entry.id.clone(), cohort.folder()) {
                let expected = format!("no scan that {} has too", other.display());
                let path = cohort.folder().to_path_buf();
                return Err(CohortError::Mismatch { path, expected, found: format!("{} in both", entry.id) });
            }
            let mut entry = entry.clone();
            entry.part += first_part;
            index.push(entry);
        }
        participants = participants.merged_with(cohort.participants());
    }
    index.sort_by(|a, b| a.id.cmp(&b.id));
    let subjects: std::collections::BTreeSet<&str> = index.iter().map(|e| e.id.subject.as_str()).collect();
    let manifest = Manifest {
        format: FORMAT.into(),
        scans: index.len(),
        subjects: subjects.len(),
        provenance,
        parts,
        ..first.manifest().clone()
    };
    write_folder_tables(&folder, &manifest, first.regions(), &index, &participants, extras)?;
    durable::sync_folder(&folder.join("scans"))?;
    if replace {
        exchange(&folder, out)?;
    } else {
        fs::rename(&folder, out).in_file("write", out)?;
    }
    durable::sync_folder(durable::parent(out))?;
    let _ = fs::remove_dir_all(&partial);
    Ok(manifest)
}

/// Files that belong to neither the tables nor the parts (truth, rejected scans); a merged cohort keeps them side by side.
fn extra_files(cohort: &Cohort) -> Result<BTreeMap<String, Vec<u8>>, CohortError> {
    let sums = super::manifest::Checksums::read(cohort.folder())?;
    let known = |name: &str| {
        use super::manifest::{COHORT_FILE, INDEX_FILE, PARTICIPANTS_FILE, PARTICIPANTS_NOTES_FILE, REGIONS_FILE};
        [COHORT_FILE, INDEX_FILE, PARTICIPANTS_FILE, PARTICIPANTS_NOTES_FILE, REGIONS_FILE].contains(&name)
            || name.starts_with("scans/")
    };
    let names = sums.0.keys().filter(|n| !known(n));
    names.map(|n| Ok((n.clone(), super::checked(cohort.folder(), n, &sums)?))).collect()
}

fn same_regions(first: &Cohort, other: &Cohort) -> Result<(), CohortError> {
    let (a, b) = (first.regions(), other.regions());
    let mismatch =
        |expected: String, found: String| CohortError::Mismatch { path: other.folder().to_path_buf(), expected, found };
    if a.len() != b.len() {
        return Err(mismatch(format!("{} regions as in {}", a.len(), first.folder().display()), b.len().to_string()));
    }
    match a.iter().zip(b).position(|(x, y)| x.name != y.name) {
        None => Ok(()),
        Some(i) => Err(mismatch(format!("region {} to be {}", i + 1, a[i].name), b[i].name.clone())),
    }
}

/// Swaps two folders in one step of the file system, so that readers see the old cohort or the new one.
fn exchange(new: &Path, old: &Path) -> Result<(), CohortError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).map_err(std::io::Error::from).in_file("replace", old)?;
    Ok(())
}
