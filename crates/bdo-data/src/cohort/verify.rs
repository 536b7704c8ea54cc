//! Checking every byte of a cohort against its checksums.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::manifest::{CHECKSUMS_FILE, Checksums};
use super::{Cohort, CohortError, checked};
use crate::durable::InFile;

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
    let parts: BTreeSet<&str> = cohort.manifest().parts.iter().map(|p| p.file.as_str()).collect();
    let listed: BTreeSet<&str> = sums.0.keys().map(String::as_str).chain([CHECKSUMS_FILE]).collect();
    let present = files_below(folder, folder)?;
    let mut damages: Vec<Damage> = (present.iter().filter(|f| !listed.contains(f.as_str())))
        .map(|f| {
            damage(folder, f, vec![], format!("expected no such file, found one that {CHECKSUMS_FILE} does not list"))
        })
        .collect();
    for (name, sum) in &sums.0 {
        if !present.contains(name) {
            damages.push(damage(folder, name, vec![], "expected this file, found none".into()));
        } else if !parts.contains(name.as_str()) {
            damages.extend(checked(folder, name, &sums).err().map(|e| from_error(folder, name, &e)));
        } else if cohort.manifest().parts.iter().any(|p| p.file == *name && p.blake3 != *sum) {
            damages.push(damage(
                folder,
                name,
                vec![],
                format!("expected one checksum, found two: {CHECKSUMS_FILE} and cohort.json differ"),
            ));
        }
    }
    damages.extend(
        parts
            .iter()
            .filter(|p| !listed.contains(*p))
            .map(|p| damage(folder, p, vec![], format!("expected a line in {CHECKSUMS_FILE}, found none"))),
    );
    damages.par_extend((0..cohort.len()).into_par_iter().filter_map(|i| {
        let entry = &cohort.index()[i];
        let mut found =
            cohort.scan(i).err().map(|e| from_error(folder, &cohort.manifest().parts[entry.part].file, &e))?;
        found.scans = vec![entry.id.to_string()];
        Some(found)
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
            damages.push(damage(folder, &part.file, scans, message));
        }
    }
    damages.sort_by(|a, b| (&a.path, &a.scans).cmp(&(&b.path, &b.scans)));
    Ok(damages)
}

fn damage(folder: &Path, name: &str, scans: Vec<String>, problem: String) -> Damage {
    let path = folder.join(name);
    let message = format!("{}: {problem}{}", path.display(), super::concerning(&scans));
    Damage { path, scans, message }
}

fn from_error(folder: &Path, name: &str, error: &CohortError) -> Damage {
    Damage { path: folder.join(name), scans: vec![], message: error.to_string() }
}

/// Paths of all files below `folder`, relative to `root`, with forward slashes.
fn files_below(root: &Path, folder: &Path) -> Result<BTreeSet<String>, CohortError> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).in_file("read", folder)? {
        let path = entry.in_file("read", folder)?.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_below(root, &path)?);
        } else if let Ok(below) = path.strip_prefix(root) {
            found.insert(super::inside::name_of(&below.to_string_lossy().replace('\\', "/")).to_owned());
        }
    }
    Ok(found)
}
