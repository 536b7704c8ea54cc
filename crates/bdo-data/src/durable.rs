//! Files that are either whole or absent.
//!
//! Every artefact is written under a temporary name, flushed to the disk and renamed; the folder is flushed too, so that a
//! crash at any moment leaves the old file, or the new one, never a half.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

#[derive(Debug, thiserror::Error)]
#[error("{}", describe(.action, .path, .system))]
pub struct FileError {
    /// What was being done, as a verb phrase ("write", "read").
    pub action: &'static str,
    pub path: PathBuf,
    /// What the system said. The message describes it, so it is no source of its own.
    pub system: io::Error,
}

impl FileError {
    pub fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self { action, path: path.to_path_buf(), system: source }
    }
}

/// The message of a [`FileError`].
pub fn describe(action: &str, path: &Path, source: &io::Error) -> String {
    let (file, path) = (path, path.display());
    match source.kind() {
        io::ErrorKind::NotFound if action == "write" && !parent(file).is_dir() => {
            format!("cannot {action} {path}: there is no folder {}; make it first", parent(file).display())
        }
        io::ErrorKind::NotFound => format!("cannot {action} {path}: it does not exist"),
        io::ErrorKind::PermissionDenied => format!("cannot {action} {path}: permission denied"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!(
                "cannot {action} {path}: the disk is full; free some room and run the command again (pretrain: with --resume)"
            )
        }
        _ => format!("cannot {action} {path}: {source}"),
    }
}

pub trait InFile<T> {
    fn in_file(self, action: &'static str, path: &Path) -> Result<T, FileError>;
}

impl<T> InFile<T> for io::Result<T> {
    fn in_file(self, action: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| FileError::new(action, path, source))
    }
}

pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).in_file("read", path)
}

pub fn create_folder(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).in_file("create", path)
}

/// Writes `bytes` to `path`: temporary name, flush, rename, flush of the folder.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = temporary_name(path);
    let result = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()
    })();
    if let Err(source) = result {
        // The half-written temporary file is of no use to anyone; failing to remove it changes nothing.
        let _ = fs::remove_file(&temporary);
        return Err(FileError::new("write", path, source));
    }
    publish_file(&temporary, path)
}

pub fn write_json(path: &Path, record: &impl Serialize) -> Result<(), FileError> {
    write(path, &pretty_json(record))
}

/// A record of words and numbers as indented JSON that ends in a newline.
pub fn pretty_json(record: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(record).expect("a record has text as keys");
    text.push(b'\n');
    text
}

pub fn publish_file(temporary: &Path, path: &Path) -> Result<(), FileError> {
    fs::rename(temporary, path).in_file("write", path)?;
    sync_folder(parent(path))
}

/// The name a file has while it is being written; starts with a dot so that listings pass it over.
pub fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.tmp"))
}

pub fn sync_folder(path: &Path) -> Result<(), FileError> {
    File::open(path).and_then(|f| f.sync_all()).in_file("flush", path)
}

/// The folder a path lives in; `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_has_its_bytes_and_leaves_no_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn errors_name_the_file() {
        let error = read(Path::new("no/such/file.json")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read no/such/file.json: it does not exist");
        let error = write(Path::new("no/such/file.json"), b"").unwrap_err();
        assert_eq!(error.to_string(), "cannot write no/such/file.json: there is no folder no/such; make it first");
    }
}
