//! Scans by their content, so that a copy under another name is recognised.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::cohort::{Cohort, CohortError};

/// A scan by its content, whatever it is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanContent {
    /// The person.
    pub subject: String,
    /// The scan.
    pub scan: String,
    /// BLAKE3 of the series alone: names and times are left out, so that a renamed copy is still a copy.
    pub series_blake3: String,
    /// BLAKE3 of the source file; empty where there was none.
    pub source_blake3: String,
    /// BLAKE3 of the stored batch, as models list the scans they were trained on.
    pub batch_blake3: String,
}

impl ScanContent {
    /// The contents of all scans of a cohort, which reads each of them once.
    pub fn of_cohort(cohort: &Cohort) -> Result<Vec<Self>, CohortError> {
        (0..cohort.len())
            .into_par_iter()
            .map(|i| {
                let entry = &cohort.index()[i];
                Ok(Self {
                    subject: entry.id.subject.clone(),
                    scan: entry.id.to_string(),
                    // Read, and so verified, also where the index has the hash.
                    series_blake3: cohort.scan(i)?.series_blake3(),
                    source_blake3: entry.source_blake3.clone(),
                    batch_blake3: entry.blake3.clone(),
                })
            })
            .collect()
    }

    /// Hashes that a copy shares with its original.
    pub fn hashes(&self) -> impl Iterator<Item = &str> {
        [&self.series_blake3, &self.source_blake3].into_iter().map(String::as_str).filter(|hash| !hash.is_empty())
    }
}

/// Pairs of scans of different people with the same content, the original first.
pub(super) fn copies(contents: &[ScanContent]) -> Vec<(&ScanContent, &ScanContent)> {
    let mut first: BTreeMap<&str, &ScanContent> = BTreeMap::new();
    let mut copies = vec![];
    for content in contents {
        for hash in content.hashes() {
            let original = *first.entry(hash).or_insert(content);
            // Both hashes may tell the same.
            if original.subject != content.subject && copies.last() != Some(&(original, content)) {
                copies.push((original, content));
            }
        }
    }
    copies
}
