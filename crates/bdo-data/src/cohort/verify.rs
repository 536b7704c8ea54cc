//! Checking every byte of a cohort against its checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::build::entries;
use super::manifest::{CHECKSUMS_FILE, COHORT_FILE, Checksums, Part};
use super::{Cohort, CohortError, checked};

/// One thing found wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub path: PathBuf,
    /// The scans concerned; empty for a table.
    pub scans: Vec<String>,
    pub message: String,
}

/// Hashes every file of the cohort and reports all that differs. A folder that cannot even be opened is an error.
pub fn verify(folder: &Path) -> Result<Vec<Damage>, CohortError> {
    let cohort = Cohort::open(folder)?;
    let sums = Checksums::read(folder)?;
    let parts: BTreeMap<&str, &Part> = cohort.manifest().parts.iter().map(|p| (p.file.as_str(), p)).collect();
    let present = files_below(folder, folder)?;
    let wrong = |name: &str, problem: String| damage(folder, name, vec![], &problem);
    let mut damages = vec![];
    for name in present.iter().filter(|name| *name != CHECKSUMS_FILE && !sums.0.contains_key(*name)) {
        damages.push(wrong(name, format!("expected no such file, found one that {CHECKSUMS_FILE} does not list")));
    }
    for (name, sum) in &sums.0 {
        match parts.get(name.as_str()) {
            _ if !present.contains(name) => damages.push(wrong(name, "expected this file, found none".into())),
            None => damages.extend(checked(folder, name, &sums).err().map(|e| unreadable(folder, name, vec![], &e))),
            Some(part) if part.blake3 != *sum => {
                let problem = format!("expected one checksum, found two: {CHECKSUMS_FILE} and {COHORT_FILE} differ");
                damages.push(wrong(name, problem));
            }
            Some(_) => {}
        }
    }
    for name in parts.keys().filter(|name| !sums.0.contains_key(**name)) {
        damages.push(wrong(name, format!("expected a line in {CHECKSUMS_FILE}, found none")));
    }
    damages.par_extend(cohort.index().par_iter().enumerate().filter_map(|(i, entry)| {
        let error = cohort.scan(i).err()?;
        Some(unreadable(folder, &cohort.manifest().parts[entry.part].file, vec![entry.id.to_string()], &error))
    }));
    for (number, part) in cohort.manifest().parts.iter().enumerate() {
        let map = super::map(&folder.join(&part.file), 0, part.bytes)?;
        let mut ranges: Vec<_> =
            cohort.index().iter().filter(|e| e.part == number).map(|e| (e.offset, e.offset + e.bytes)).collect();
        ranges.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        let mut position = 0;
        for (from, to) in ranges.into_iter().chain([(map.len() as u64, map.len() as u64)]) {
            hasher.update(map.get(position as usize..from as usize).unwrap_or_default());
            position = to;
        }
        let found = hasher.finalize().to_hex();
        if found.as_str() != part.envelope_blake3 {
            let scans = cohort.index().iter().filter(|e| e.part == number).map(|e| e.id.to_string()).collect();
            let message = format!("expected header and footer of BLAKE3 {}, found {found}", part.envelope_blake3);
            damages.push(damage(folder, &part.file, scans, &message));
        }
    }
    damages.sort_by(|a, b| (&a.path, &a.scans).cmp(&(&b.path, &b.scans)));
    Ok(damages)
}

fn damage(folder: &Path, name: &str, scans: Vec<String>, problem: &str) -> Damage {
    let path = folder.join(name);
    let message = format!("{}: {problem}{}", path.display(), super::concerning(&scans));
    Damage { path, scans, message }
}

fn unreadable(folder: &Path, name: &str, scans: Vec<String>, error: &CohortError) -> Damage {
    Damage { path: folder.join(name), scans, message: error.to_string() }
}

/// Paths of all files below `folder`, relative to `root`, with forward slashes.
fn files_below(root: &Path, folder: &Path) -> Result<BTreeSet<String>, CohortError> {
    let mut found = BTreeSet::new();
    for path in entries(folder)? {
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_below(root, &path)?);
        } else if let Ok(below) = path.strip_prefix(root) {
            found.insert(super::inside::name_of(&below.to_string_lossy().replace('\\', "/")).to_owned());
        }
    }
    Ok(found)
}
