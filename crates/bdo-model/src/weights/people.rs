//! Who the model was trained on, as hashes: enough to detect that a test person was among them, not to name anyone
//! who is not already known.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Contents of `training_people.json`, sorted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingPeople {
    /// BLAKE3 of each training subject id, hexadecimal.
    pub subjects: BTreeSet<String>,
    /// BLAKE3 of each training scan, hexadecimal.
    pub scans: BTreeSet<String>,
}

/// An entry that is not a hash.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("`{field}` must hold BLAKE3 hashes of 64 hexadecimal digits, found `{found}`")]
pub struct PeopleError {
    /// The list.
    pub field: &'static str,
    /// The entry.
    pub found: String,
}

impl TrainingPeople {
    /// The hash a subject id is stored as.
    pub fn subject_hash(id: &str) -> String {
        blake3::hash(id.as_bytes()).to_hex().to_string()
    }

    /// Which of these subject ids the model was trained on.
    pub fn overlap<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        ids.into_iter().filter(|id| self.subjects.contains(&Self::subject_hash(id))).collect()
    }

    /// Accepts lists of hashes only.
    pub fn check(&self) -> Result<(), PeopleError> {
        for (field, list) in [("subjects", &self.subjects), ("scans", &self.scans)] {
            let is_hash = |entry: &&String| entry.len() == 64 && entry.bytes().all(|byte| byte.is_ascii_hexdigit());
            if let Some(found) = list.iter().find(|entry| !is_hash(entry)) {
                return Err(PeopleError { field, found: found.clone() });
            }
        }
        Ok(())
    }
}
