//! Finding files.

use std::path::{Path, PathBuf};

use super::IngestError;
use crate::durable::InFile;

/// How deep a source folder is searched, and how many files it may hold: far beyond any real dataset, short of an endless one.
const DEEPEST: usize = 12;
const MOST_FILES: usize = 5_000_000;

/// All files below a folder (or the file itself), sorted. Links are followed for files, not for folders, so the walk ends.
pub(super) fn below(source: &Path) -> Result<Vec<PathBuf>, IngestError> {
    let mut found = vec![];
    if std::fs::metadata(source).in_file("read", source)?.is_file() {
        return Ok(vec![source.to_path_buf()]);
    }
    walk(source, 0, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), IngestError> {
    for entry in std::fs::read_dir(folder).in_file("read", folder)? {
        let entry = entry.in_file("read", folder)?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().in_file("read", &path)?;
        if kind.is_dir() && depth < DEEPEST {
            walk(&path, depth + 1, found)?;
        } else if kind.is_file() || (kind.is_symlink() && path.is_file()) {
            found.push(path);
        }
        if found.len() > MOST_FILES {
            return Err(IngestError::source(folder, format!("at most {MOST_FILES} files"), "more"));
        }
    }
    Ok(())
}

/// The file name as text.
pub(super) fn name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The part of the file name before its first ending.
pub(super) fn stem(path: &Path) -> String {
    let name = name(path);
    name.rsplit_once('.').map_or(name.clone(), |(stem, _)| stem.to_owned())
}

/// The lower-case ending of the file name.
pub(super) fn ending(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// A table beside the scans: in the source folder, or next to it (the scans are often one folder further down).
pub(super) fn beside(source: &Path, names: &[&str]) -> Option<PathBuf> {
    let folder = if source.is_dir() { source } else { crate::durable::parent(source) };
    let absolute = std::path::absolute(folder).ok()?;
    let folders = [Some(absolute.as_path()), absolute.parent()];
    folders.into_iter().flatten().flat_map(|f| names.iter().map(|n| f.join(n))).find(|p| p.is_file())
}
