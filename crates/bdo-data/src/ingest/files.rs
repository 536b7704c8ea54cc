//! Finding files.

use std::path::{Path, PathBuf};

use super::IngestError;
use crate::bids::BidsName;
use crate::durable::InFile;
use crate::scan::ScanId;

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

/// The name of an image without `.nii`, `.nii.gz`, `.dtseries.nii` and the like.
pub(super) fn stem_of_image(path: &Path) -> String {
    let name = name(path);
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.strip_suffix(".nii").unwrap_or(stem);
    let kinds = [".dtseries", ".ptseries", ".dlabel"];
    kinds.iter().find_map(|k| stem.strip_suffix(k)).unwrap_or(stem).to_owned()
}

/// Whose scan an image is: by BIDS entities, by the folders of the Human Connectome Project, else by the whole name.
pub(super) fn image_id(path: &Path) -> ScanId {
    let bids = BidsName::parse(&name(path));
    if let Some((name, subject)) = bids.as_ref().and_then(|n| Some((n, n.get("sub")?))) {
        let get = |key: &str| name.get(key).map(str::to_owned);
        return ScanId { subject: format!("sub-{subject}"), session: get("ses"), task: get("task"), run: get("run") };
    }
    let parts: Vec<String> = path.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    let stem = stem_of_image(path);
    if let Some(i) = parts.iter().position(|p| p == "MNINonLinear").filter(|i| *i > 0) {
        // 100307/MNINonLinear/Results/rfMRI_REST1_LR/rfMRI_REST1_LR_Atlas_MSMAll_hp2000_clean.dtseries.nii
        let mut words = stem.split('_').skip(1).map(str::to_owned);
        return ScanId { subject: parts[i - 1].clone(), session: None, task: words.next(), run: words.next() };
    }
    ScanId::of_subject(stem)
}

/// The name of a table or image without its endings.
pub(super) fn stem_of_table(path: &Path) -> String {
    let image = stem_of_image(path);
    if image.len() + 4 <= name(path).len() && name(path).contains(".nii") {
        return image;
    }
    // `.gz` is gone already; what is left to take off is the ending of the table.
    image.rsplit_once('.').map_or(image.as_str(), |(stem, _)| stem).to_owned()
}
