//! Who the model was trained on, as hashes: enough to detect that a test person was among them, not to name anyone
//! who is not already known.

use bdo_data::cohort::{Cohort, IndexEntry};
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
    /// BLAKE3 of the files the training scans were read from, hexadecimal: a scan that was prepared anew is still known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sources: BTreeSet<String>,
    /// An equal ID is the same person, whatever the scans say.
    #[serde(skip)]
    pub by_id: bool,
}

/// Who of a cohort was trained on. An ID alone says little, since every study has a `sub-01`: IDs count in a cohort that
/// shares a scan with the training, elsewhere only the content of a scan does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownPeople {
    trained: BTreeSet<String>,
    same_study: bool,
    /// People with the ID of a training person who are taken for somebody else.
    pub namesakes: usize,
}

impl KnownPeople {
    /// Whether a person was trained on.
    pub fn is_trained(&self, subject: &str) -> bool {
        self.trained.contains(subject)
    }

    /// Whether IDs of the training mean the same people here.
    pub fn is_same_study(&self) -> bool {
        self.same_study
    }

    /// Whether a person is in a list of hashed IDs of the study the model was trained on.
    pub fn is_listed(&self, list: &BTreeSet<String>, subject: &str) -> bool {
        self.same_study && list.contains(&TrainingPeople::subject_hash(subject))
    }
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

    /// Whether a scan was trained on, by its content or the file it was read from.
    pub fn has_scan(&self, entry: &IndexEntry) -> bool {
        self.scans.contains(&entry.blake3) || self.sources.contains(&entry.source_blake3)
    }

    /// Who of a cohort was trained on.
    pub fn known_in(&self, cohort: &Cohort) -> KnownPeople {
        self.known_among(cohort.index().iter().map(|e| (e.id.subject.as_str(), e.blake3.as_str(), &*e.source_blake3)))
    }

    /// The same of scans given as person, hash of the scan and hash of its source file.
    pub fn known_among<'a>(&self, scans: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> KnownPeople {
        let (mut trained, mut listed) = (BTreeSet::new(), BTreeSet::new());
        for (subject, scan, source) in scans {
            if self.scans.contains(scan) || self.sources.contains(source) {
                trained.insert(subject.to_owned());
            }
            if self.subjects.contains(&Self::subject_hash(subject)) {
                listed.insert(subject.to_owned());
            }
        }
        // Lists without scans are of earlier versions: an ID is all there is.
        let same_study = self.by_id || !trained.is_empty() || self.scans.is_empty();
        if same_study {
            trained.append(&mut listed);
        }
        let namesakes = listed.difference(&trained).count();
        KnownPeople { trained, same_study, namesakes }
    }

    /// Accepts lists of hashes only.
    pub fn check(&self) -> Result<(), PeopleError> {
        for (field, list) in [("subjects", &self.subjects), ("scans", &self.scans), ("sources", &self.sources)] {
            let is_hash = |entry: &&String| entry.len() == 64 && entry.bytes().all(|byte| byte.is_ascii_hexdigit());
            if let Some(found) = list.iter().find(|entry| !is_hash(entry)) {
                return Err(PeopleError { field, found: found.clone() });
            }
        }
        Ok(())
    }
}
