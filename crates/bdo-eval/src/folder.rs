//! The folder of a probe or a fine-tuning: what was asked for, saved before work begins, and the lock that keeps a
//! second process out. Running the same command again goes on; another request is refused.

use crate::error::EvalError;
use bdo_data::durable::{self, InFile};
use bdo_model::familiarity::FAMILIARITY_FILE;
use bdo_model::readout::{READOUT_FILE, READOUT_NUMBERS_FILE};
use bdo_model::weights::{CONFIG_FILE, PEOPLE_FILE, PREPROCESSOR_FILE, README_FILE, TRAINING_FILE, WEIGHTS_FILE};
use bdo_train::ranks::Ranks;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

const REQUEST_FILE: &str = "request.json";

/// An open folder, locked while it lives.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    /// Held by the rank that writes.
    _lock: Option<File>,
}

impl WorkFolder {
    /// Creates or opens the folder for a request.
    pub fn open(path: &Path, request: &serde_json::Value) -> Result<Self, EvalError> {
        let file = path.join(REQUEST_FILE);
        if file.is_file() {
            let found: serde_json::Value = serde_json::from_slice(&durable::read(&file)?)
                .map_err(|error| EvalError::refused(&file, "the record of a request", error))?;
            if found != *request && !take_over(path)? {
                let other = format!("another request ({})", differences(&found, request));
                return Err(EvalError::refused(path, "a new name, or the same request as before", other));
            }
        } else if path.is_dir() && fs::read_dir(path).in_file("read", path)?.any(|entry| entry.is_ok_and(foreign)) {
            return Err(EvalError::refused(path, "a new name or an empty folder", "something else"));
        }
        durable::create_folder(path)?;
        let lock_file = path.join("lock");
        let lock = OpenOptions::new().create(true).append(true).open(&lock_file).in_file("write", &lock_file)?;
        lock.try_lock()
            .map_err(|_| EvalError::refused(path, "a folder nobody works in", "another process at work in it"))?;
        if !file.is_file() {
            durable::write_json(&file, request)?;
        }
        Ok(Self { path: path.to_path_buf(), _lock: Some(lock) })
    }

    /// The same for several processes: the first opens it, the others read what it writes.
    pub fn open_with(path: &Path, request: &serde_json::Value, ranks: &dyn Ranks) -> Result<Self, EvalError> {
        let opened = ranks.is_first().then(|| Self::open(path, request)).transpose()?;
        ranks.meet()?;
        Ok(opened.unwrap_or_else(|| Self { path: path.to_path_buf(), _lock: None }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn write_json(&self, name: &str, value: &impl serde::Serialize) -> Result<(), EvalError> {
        Ok(durable::write_json(&self.join(name), value)?)
    }

    /// Puts a copy of a model beside the head, so that the folder can be moved and shared as it is. Files of a model
    /// are replaced, never changed in place, so a link is as good as a copy and takes no room.
    pub fn adopt_model(&self, model: &Path, name: &str) -> Result<(), EvalError> {
        let folder = self.join(name);
        durable::create_folder(&folder)?;
        // The configuration last, because a reader starts with it.
        let optional = [FAMILIARITY_FILE, READOUT_NUMBERS_FILE, READOUT_FILE, TRAINING_FILE, README_FILE];
        for file in [WEIGHTS_FILE, PREPROCESSOR_FILE, PEOPLE_FILE].into_iter().chain(optional).chain([CONFIG_FILE]) {
            let (from, to) = (model.join(file), folder.join(file));
            if to.is_file() || (optional.contains(&file) && !from.is_file()) {
                continue;
            }
            if fs::hard_link(&from, &to).is_err() {
                durable::write(&to, &durable::read(&from)?)?;
            }
        }
        Ok(durable::sync_folder(&folder)?)
    }
}

/// Makes room for another request where the one before left nothing: it was refused, or failed before its first result.
/// Features stay, since they are found by what made them.
fn take_over(path: &Path) -> Result<bool, EvalError> {
    const LEFT_BY_A_REFUSAL: [&str; 4] = [REQUEST_FILE, "splits.json", "calibration.json", "cohort"];
    let mut left = Vec::new();
    for entry in fs::read_dir(path).in_file("read", path)? {
        let entry = entry.in_file("read", path)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "lock" || name == "features" || name.starts_with('.') {
            continue;
        }
        if !LEFT_BY_A_REFUSAL.contains(&name.as_str()) {
            return Ok(false);
        }
        left.push(entry.path());
    }
    for path in left {
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.in_file("remove", &path)?;
    }
    Ok(true)
}

fn foreign(entry: fs::DirEntry) -> bool {
    let name = entry.file_name();
    name != "lock" && !name.to_string_lossy().starts_with('.')
}

/// The keys that differ, those inside tables too, with both values.
fn differences(found: &serde_json::Value, asked: &serde_json::Value) -> String {
    let mut differ = vec![];
    differing("", Some(found), Some(asked), &mut differ);
    differ.join("; ")
}

fn differing(name: &str, found: Option<&serde_json::Value>, asked: Option<&serde_json::Value>, out: &mut Vec<String>) {
    match (found, asked) {
        _ if found == asked => {}
        (Some(serde_json::Value::Object(here)), Some(serde_json::Value::Object(there))) => {
            let keys: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
            for key in keys {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                differing(&name, here.get(key), there.get(key), out);
            }
        }
        _ => {
            let text = |value: Option<&serde_json::Value>| value.map_or("nothing".to_owned(), ToString::to_string);
            out.push(format!("{name}: made with {}, asked for {}", text(found), text(asked)));
        }
    }
}
