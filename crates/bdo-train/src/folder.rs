//! The folder of a run: what the run is, saved before its first step, and the lock that keeps a second one out.

use crate::schedule::Plan;
use crate::settings::Settings;
use bdo_data::durable::{self, FileError, InFile};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

const RUN_FILE: &str = "run.json";
const CONFIG_FILE: &str = "config.toml";

/// What makes a run this run and no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Version of the software.
    pub version: String,
    /// Hash of all the cohort holds.
    pub cohort_blake3: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Hash of the division of people, where it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_blake3: Option<String>,
    /// Instruction set of the kernels: results differ between them in the last bits.
    pub instruction_set: String,
    /// The configuration as asked for.
    pub settings: Settings,
    /// Its BLAKE3.
    pub settings_blake3: String,
}

impl Identity {
    /// BLAKE3 over everything.
    pub fn blake3(&self) -> String {
        let json = serde_json::to_vec(self).expect("an identity holds only words and numbers");
        blake3::hash(&json).to_hex().to_string()
    }

    /// What differs from another one, one sentence each.
    pub fn differences(&self, asked: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |name: &str, here: &str, there: &str| {
            if here != there {
                found.push(format!("{name}: the run has {here}, asked for {there}"));
            }
        };
        compare("version", &self.version, &asked.version);
        compare("cohort", &self.cohort_blake3, &asked.cohort_blake3);
        compare("seed", &self.seed.to_string(), &asked.seed.to_string());
        let people = |split: &Option<String>| split.clone().unwrap_or_else(|| "that of the configuration".to_owned());
        compare("division of people", &people(&self.split_blake3), &people(&asked.split_blake3));
        compare("instruction set", &self.instruction_set, &asked.instruction_set);
        let (here, there) = (self.settings.flat(), asked.settings.flat());
        let value = |list: &[(String, String)], key: &String| {
            list.iter().find(|(k, _)| k == key).map_or_else(|| "no value".to_owned(), |(_, v)| v.clone())
        };
        let mut keys: Vec<&String> = here.iter().chain(&there).map(|(key, _)| key).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            compare(key, &value(&here, key), &value(&there, key));
        }
        found
    }
}

/// `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// What the run is.
    pub identity: Identity,
    /// Where the cohort was.
    pub cohort: PathBuf,
    /// How long it is, once that is known.
    pub plan: Option<Plan>,
}

/// A run cannot be started or taken up again.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is a run already.
    #[error("{} holds a run; go on with it by --resume, or give another name", .path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds something else.
    #[error("{} holds something that is not a run; give another name", .path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// Another process is at it.
    #[error("{} is being trained by another process; wait for it to end", .path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// The record of the run cannot be understood.
    #[error("{}: expected the record of a run, found {found}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// Another run was asked for than the one that is there.
    #[error("{} is another run and cannot be resumed so: {}", .path.display(), .differences.join("; "))]
    Different {
        /// The folder.
        path: PathBuf,
        /// What differs.
        differences: Vec<String>,
    },
}

/// An open run folder, locked while it lives.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    _lock: File,
}

impl RunFolder {
    /// Creates or opens the folder and locks it. Without `resume` an existing run is refused.
    pub fn open(path: &Path, resume: bool) -> Result<Self, FolderError> {
        let holds_run = path.join(RUN_FILE).is_file();
        if holds_run && !resume {
            return Err(FolderError::Exists { path: path.to_path_buf() });
        }
        let only_ours = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|e| e.file_name() == "lock" || e.file_name().to_string_lossy().starts_with('.'))
        };
        if path.is_dir() && !holds_run && !std::fs::read_dir(path).in_file("read", path)?.all(only_ours) {
            return Err(FolderError::Foreign { path: path.to_path_buf() });
        }
        durable::create_folder(path)?;
        let file = path.join("lock");
        let lock = OpenOptions::new().create(true).append(true).open(&file).in_file("write", &file)?;
        lock.try_lock().map_err(|_| FolderError::Busy { path: path.to_path_buf() })?;
        Ok(Self { path: path.to_path_buf(), _lock: lock })
    }

    /// The record of the run, if it was ever started.
    pub fn record(&self) -> Result<Option<RunRecord>, FolderError> {
        if self.path.join(RUN_FILE).is_file() { read_record(&self.path).map(Some) } else { Ok(None) }
    }

    /// Saves the record, and the configuration as people read it, with the number of epochs once it is known.
    pub fn save(&self, record: &RunRecord) -> Result<(), FolderError> {
        let mut resolved = record.identity.settings.clone();
        if let Some(plan) = &record.plan {
            resolved.train.epochs = plan.total_steps as f64 / plan.steps_per_epoch as f64;
        }
        durable::write(&self.path.join(CONFIG_FILE), resolved.to_toml().as_bytes())?;
        let text = serde_json::to_string_pretty(record).expect("a record holds only words and numbers") + "\n";
        durable::write(&self.path.join(RUN_FILE), text.as_bytes())?;
        Ok(())
    }

    /// A path below the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Refuses a record that differs from what is asked for.
    pub fn refuse_other(&self, record: &RunRecord, asked: &Identity) -> Result<(), FolderError> {
        let differences = record.identity.differences(asked);
        if differences.is_empty() {
            return Ok(());
        }
        Err(FolderError::Different { path: self.path.clone(), differences })
    }
}

/// Whether a folder is a run.
pub fn is_run(path: &Path) -> bool {
    path.join(RUN_FILE).is_file()
}

/// Reads the record of a run without touching it.
pub fn read_record(path: &Path) -> Result<RunRecord, FolderError> {
    let file = path.join(RUN_FILE);
    let bytes = durable::read(&file)?;
    serde_json::from_slice(&bytes).map_err(|error| FolderError::Record { path: file, found: error.to_string() })
}
