//! Which process works on what, where several share a comparison: a locked file per task. The system unlocks it when its
//! process ends, however it ends, so that another takes the task over.

use super::result::ResultStore;
use bdo_data::durable::{self, FileError, InFile};
use std::fs::{File, OpenOptions, TryLockError};

/// A task that nobody else works on while this lives.
#[derive(Debug)]
pub struct Lease {
    _file: File,
}

impl ResultStore {
    /// Takes a task; `None` while another process has it.
    pub fn lease(&self, task: &str) -> Result<Option<Lease>, FileError> {
        let folder = self.folder().join(".leases");
        durable::create_folder(&folder)?;
        let path = folder.join(&blake3::hash(task.as_bytes()).to_hex()[..32]);
        let file = OpenOptions::new().create(true).append(true).open(&path).in_file("write", &path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lease { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).in_file("lock", &path),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_task_is_taken_once_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = ResultStore::open(dir.path()).unwrap();
        let taken = store.lease("a").unwrap();
        assert!(taken.is_some() && store.lease("a").unwrap().is_none() && store.lease("b").unwrap().is_some());
        drop(taken);
        assert!(store.lease("a").unwrap().is_some());
    }
}
