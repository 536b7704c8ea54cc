//! Finding files.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::IngestError;
use crate::cohort::Rejection;
use crate::durable::{InFile, describe};
use crate::problem::Problem;

/// How deep a source folder is searched, and how many files it may hold: far beyond any real dataset, short of an endless one.
const DEEPEST: usize = 12;
const MOST_FILES: usize = 5_000_000;
/// A pointer to a file that was not fetched is shorter than this.
const LONGEST_POINTER: u64 = 1024;

#[derive(Debug, Default)]
pub(super) struct Found {
    /// All files, sorted, also links that lead nowhere: they are named when they are asked for.
    pub(super) files: Vec<PathBuf>,
    /// Folders that could not be read or followed.
    pub(super) rejected: Vec<Rejection>,
    /// Links that were not followed since they lead to folders that are read anyway.
    pub(super) notes: Vec<String>,
}

/// All files below a folder (or the file itself). Links are followed, to folders only once each, so the walk ends.
pub(super) fn below(source: &Path) -> Result<Found, IngestError> {
    let mut found = Found::default();
    let metadata = std::fs::metadata(source).in_file("read", source)?;
    if metadata.is_file() {
        found.files.push(source.to_path_buf());
        return Ok(found);
    }
    // The source itself must be readable; anything below is a row in the table of rejects.
    std::fs::read_dir(source).in_file("read", source)?;
    let mut walk = Walk { source, found, seen: HashSet::from([(metadata.dev(), metadata.ino())]), links: vec![] };
    walk.folder(source, 0)?;
    // Real folders first: a link to one of them is then known to lead to something that is read already.
    while !walk.links.is_empty() {
        let mut links = std::mem::take(&mut walk.links);
        links.sort();
        for (link, depth) in links {
            walk.link(&link, depth)?;
        }
    }
    walk.found.files.sort();
    Ok(walk.found)
}

struct Walk<'a> {
    source: &'a Path,
    found: Found,
    seen: HashSet<(u64, u64)>,
    links: Vec<(PathBuf, usize)>,
}

impl Walk<'_> {
    fn reject(&mut self, path: &Path, problem: Problem) {
        self.found.rejected.push(Rejection::of(&relative(self.source, path), problem));
    }

    fn unreadable(&mut self, path: &Path, e: &std::io::Error) {
        self.reject(path, Problem::new("folder", "to be readable", describe("read", path, e)));
    }

    fn folder(&mut self, folder: &Path, depth: usize) -> Result<(), IngestError> {
        if depth > DEEPEST {
            self.reject(folder, Problem::new("folder", format!("at most {DEEPEST} folders deep"), "a deeper one"));
            return Ok(());
        }
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) => {
                self.unreadable(folder, &e);
                return Ok(());
            }
        };
        for entry in entries {
            let (path, kind) = match entry.and_then(|e| Ok((e.path(), e.file_type()?))) {
                Ok(read) => read,
                Err(e) => {
                    self.unreadable(folder, &e);
                    continue;
                }
            };
            if name(&path).starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                if let Ok(m) = std::fs::metadata(&path) {
                    self.seen.insert((m.dev(), m.ino()));
                }
                self.folder(&path, depth + 1)?;
            } else if kind.is_symlink() && path.is_dir() {
                self.links.push((path, depth + 1));
            } else if kind.is_symlink() && !path.exists() && !name(&path).contains('.') {
                let problem = unfetched(&path).unwrap_or_else(|| Problem::new("link", "a file or folder", "neither"));
                self.reject(&path, problem);
            } else if kind.is_file() || (kind.is_symlink() && (path.is_file() || !path.exists())) {
                self.found.files.push(path);
            }
            if self.found.files.len() > MOST_FILES {
                return Err(IngestError::source(folder, format!("at most {MOST_FILES} files"), "more"));
            }
        }
        Ok(())
    }

    fn link(&mut self, link: &Path, depth: usize) -> Result<(), IngestError> {
        let Ok(metadata) = std::fs::metadata(link) else { return Ok(()) };
        if self.seen.insert((metadata.dev(), metadata.ino())) {
            return self.folder(link, depth);
        }
        let target = std::fs::read_link(link).unwrap_or_default();
        let shown = relative(self.source, link);
        self.found.notes.push(format!("{shown} is a link to {}, which is read already", target.display()));
        Ok(())
    }
}

/// Why a file is not there although it has a name: `DataLad` and git-annex leave a link or a pointer until it is fetched.
pub(super) fn unfetched(path: &Path) -> Option<Problem> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    let fetch = |by: &str| format!("run `{by} {}`", name(path));
    if metadata.is_symlink() && !path.exists() {
        let target = std::fs::read_link(path).ok()?.to_string_lossy().into_owned();
        let annexed = target.contains("annex/objects") || target.contains(".git/annex");
        let found = if annexed {
            format!("a link whose content was not fetched; {} in its folder", fetch("datalad get"))
        } else {
            format!("a link to {target}, which is not there")
        };
        return Some(Problem::new("not fetched", "the file itself", found));
    }
    if !metadata.is_file() || metadata.len() > LONGEST_POINTER {
        return None;
    }
    let start = std::fs::read(path).ok()?;
    let pointers =
        [("/annex/objects/", "datalad get"), ("version https://git-lfs.github.com/", "git lfs pull --include")];
    let (_, by) = pointers.into_iter().find(|(text, _)| start.starts_with(text.as_bytes()))?;
    let found = format!("a pointer whose content was not fetched; {} in its folder", fetch(by));
    Some(Problem::new("not fetched", "the file itself", found))
}

pub(super) fn relative(source: &Path, path: &Path) -> String {
    let below = path.strip_prefix(source).unwrap_or(path);
    if below.as_os_str().is_empty() { name(path) } else { below.to_string_lossy().into_owned() }
}

pub(super) fn name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The file name without its last ending.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
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
    // A link that leads nowhere is found too, so that reading it says what is wrong.
    let is_there = |p: &PathBuf| p.is_file() || p.is_symlink();
    folders.into_iter().flatten().flat_map(|f| names.iter().map(|n| f.join(n))).find(is_there)
}

/// The name of an image without `.nii`, `.nii.gz`, `.dtseries.nii` and the like.
pub(super) fn stem_of_image(path: &Path) -> String {
    let name = name(path);
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.strip_suffix(".nii").unwrap_or(stem);
    let kinds = [".dtseries", ".ptseries", ".dlabel"];
    kinds.iter().find_map(|k| stem.strip_suffix(k)).unwrap_or(stem).to_owned()
}

pub(super) fn stem_of_table(path: &Path) -> String {
    let image = stem_of_image(path);
    if image.len() + 4 <= name(path).len() && name(path).contains(".nii") {
        return image;
    }
    // `.gz` is gone already; what is left to take off is the ending of the table.
    stem(Path::new(&image))
}
