//! The folder of a run: what the run is, saved before its first step, and the lock that keeps a second one out.

use crate::error::TrainError;
use crate::settings::Settings;
use bdo_data::durable::{self, InFile};
use bdo_data::record::{Identity, RecordError, RunRecord, is_run};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

const CONFIG_FILE: &str = "config.toml";

/// An open run folder, locked while it lives.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Held by the rank that writes.
    _lock: Option<File>,
}

impl RunFolder {
    /// Creates or opens the folder and locks it. Without `resume` an existing run is refused.
    pub fn open(path: &Path, resume: bool) -> Result<Self, TrainError> {
        let holds_run = is_run(path);
        let refused = |why| TrainError::Folder { path: path.to_path_buf(), why };
        if holds_run && !resume {
            return Err(refused("holds a run; go on with it by --resume, or give another name"));
        }
        let only_ours = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|e| e.file_name() == "lock" || e.file_name().to_string_lossy().starts_with('.'))
        };
        if path.is_dir() && !holds_run && !std::fs::read_dir(path).in_file("read", path)?.all(only_ours) {
            return Err(refused("holds something that is not a run; give another name"));
        }
        durable::create_folder(path)?;
        let file = path.join("lock");
        let lock = OpenOptions::new().create(true).append(true).open(&file).in_file("write", &file)?;
        lock.try_lock().map_err(|_| refused("is being trained by another process; wait for it to end"))?;
        Ok(Self { path: path.to_path_buf(), _lock: Some(lock) })
    }

    /// The folder that the first rank has opened and locked, for another rank, which only reads.
    pub fn beside(path: &Path) -> Self {
        Self { path: path.to_path_buf(), _lock: None }
    }

    /// The record of the run, if it was ever started.
    pub fn record(&self) -> Result<Option<RunRecord>, TrainError> {
        Ok(if is_run(&self.path) { Some(RunRecord::read(&self.path)?) } else { None })
    }

    /// Saves the record, and the configuration as people read it, with the number of epochs once it is known.
    pub fn save(&self, record: &RunRecord) -> Result<(), TrainError> {
        let mut resolved = settings_of(record)?;
        if let Some(plan) = &record.plan {
            resolved.train.epochs = plan.epochs();
        }
        // The record makes the folder a run: killed between the two, it is resumed and the configuration written again.
        record.write(&self.path)?;
        durable::write(&self.path.join(CONFIG_FILE), resolved.to_toml().as_bytes())?;
        Ok(())
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Refuses a record that differs from what is asked for.
    pub fn refuse_other(&self, record: &RunRecord, asked: &Identity) -> Result<(), TrainError> {
        let differences = record.identity.differences(asked);
        if differences.is_empty() {
            return Ok(());
        }
        Err(TrainError::OtherRun { path: self.path.clone(), differences })
    }
}

/// The configuration of a run. Refused where another version wrote keys that this one does not know.
pub fn settings_of(record: &RunRecord) -> Result<Settings, RecordError> {
    let read = serde_json::from_value(record.identity.settings.clone());
    read.map_err(|error| RecordError::Content { path: "run.json".into(), found: error.to_string() })
}
