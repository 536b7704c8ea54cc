//! What was assumed or odd while scans were read, for the user to know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Remarks of all threads; each is said once, with the scans it is about.
#[derive(Debug, Clone, Default)]
pub struct Remarks(Arc<Mutex<Kept>>);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    of_scans: BTreeMap<String, BTreeSet<String>>,
    freedom: BTreeMap<String, usize>,
}

/// Degrees of freedom that regression and filter have left, over all scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreedomLeft {
    pub least: usize,
    pub most: usize,
}

impl Remarks {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, remark: String, scan: &str) {
        self.kept().of_scans.entry(remark).or_default().insert(scan.to_owned());
    }

    pub(super) fn add_freedom(&self, left: usize, scan: &str) {
        self.kept().freedom.insert(scan.to_owned(), left);
    }

    pub(super) fn kept_so_far(&self) -> serde_json::Value {
        serde_json::to_value(&*self.kept()).unwrap_or_default()
    }

    pub(super) fn take_up(&self, before: serde_json::Value) {
        let Ok(before) = serde_json::from_value::<Kept>(before) else { return };
        let mut kept = self.kept();
        for (remark, scans) in before.of_scans {
            kept.of_scans.entry(remark).or_default().extend(scans);
        }
        kept.freedom.extend(before.freedom);
    }

    pub(super) fn freedom(&self) -> Option<FreedomLeft> {
        let kept = self.kept();
        let least = kept.freedom.values().min().copied()?;
        Some(FreedomLeft { least, most: kept.freedom.values().max().copied()? })
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        let kept = self.kept();
        let sentence = |(remark, scans): (&String, &BTreeSet<String>)| {
            let first = scans.first().map(String::as_str).unwrap_or_default();
            let which =
                if scans.len() == 1 { first.to_owned() } else { format!("{} scans, first {first}", scans.len()) };
            format!("{which}: {remark}")
        };
        kept.of_scans.iter().map(sentence).collect()
    }
}
