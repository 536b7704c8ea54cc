//! Replacing a cohort whose folder cannot change places with another, such as the mount point of a container.
//!
//! What is new lies finished in a folder inside, which gets its name in one step. From then on its files count, and they are moved
//! to their places one by one. A process that is killed meanwhile leaves files in it, which readers find and the next writer moves.

use std::fs;
use std::path::{Path, PathBuf};

use super::CohortError;
use super::build::entries;
use super::manifest::Part;
use crate::durable::{self, FileError, InFile};

/// Holds files that count more than those of the same names outside.
const READY_FOLDER: &str = ".ready";

pub(super) fn read(folder: &Path, name: &str) -> Result<Vec<u8>, FileError> {
    match fs::read(folder.join(READY_FOLDER).join(name)) {
        Ok(bytes) => Ok(bytes),
        Err(_) => durable::read(&folder.join(name)),
    }
}

pub(super) fn name_of(below: &str) -> &str {
    below.strip_prefix(READY_FOLDER).and_then(|b| b.strip_prefix('/')).unwrap_or(below)
}

/// Puts the finished cohort `new`, which lies inside `out`, in the place of the one in `out`. `parts` are the files of scans and
/// where they were taken from: those of `out` itself stay.
pub(super) fn replace(new: &Path, out: &Path, parts: &[(PathBuf, Part)]) -> Result<(), CohortError> {
    for (from, part) in parts {
        let to = out.join(&part.file);
        if *from != to {
            fs::rename(new.join(&part.file), &to).in_file("write", &to)?;
        }
    }
    let (scans, ready) = (new.join("scans"), out.join(READY_FOLDER));
    durable::sync_folder(&out.join("scans"))?;
    fs::remove_dir_all(&scans).in_file("remove", &scans)?;
    fs::rename(new, &ready).in_file("write", &ready)?;
    durable::sync_folder(out)?;
    finish(out)
}

/// Moves what a process, perhaps one that was killed, has left ready.
pub(super) fn finish(out: &Path) -> Result<(), CohortError> {
    let ready = out.join(READY_FOLDER);
    if !ready.is_dir() {
        return Ok(());
    }
    move_files(&ready, out)?;
    durable::sync_folder(out)?;
    fs::remove_dir_all(&ready).in_file("remove", &ready)?;
    Ok(())
}

fn move_files(from: &Path, to: &Path) -> Result<(), CohortError> {
    for path in entries(from)? {
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            durable::create_folder(&place)?;
            move_files(&path, &place)?;
            durable::sync_folder(&place)?;
        } else {
            fs::rename(&path, &place).in_file("write", &place)?;
        }
    }
    Ok(())
}
