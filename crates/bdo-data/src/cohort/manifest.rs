//! What a cohort folder says about itself, and the checksums that cover every byte of it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CohortError;
use crate::scan::ScanId;

/// Name and version of the layout; readers refuse any other.
pub(super) const FORMAT: &str = "bdo-cohort/1";
/// Names of the files in a cohort folder.
pub(super) const COHORT_FILE: &str = "cohort.json";
pub(super) const REGIONS_FILE: &str = "regions.json";
/// One entry a scan: where it is stored and its checksum.
pub(super) const INDEX_FILE: &str = "index.json";
pub(super) const PARTICIPANTS_FILE: &str = "participants.tsv";
pub(super) const PARTICIPANTS_NOTES_FILE: &str = "participants.json";
pub(super) const TABLES: [&str; 5] =
    [COHORT_FILE, REGIONS_FILE, INDEX_FILE, PARTICIPANTS_FILE, PARTICIPANTS_NOTES_FILE];
/// BLAKE3 of every other file, one line each, as `b3sum` prints and checks them.
pub(super) const CHECKSUMS_FILE: &str = "checksums.b3";

/// `cohort.json`: what this cohort is and what made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: String,
    pub scans: usize,
    /// Number of people with at least one scan.
    pub subjects: usize,
    pub regions: usize,
    pub atlas: Atlas,
    pub provenance: Vec<Provenance>,
    pub parts: Vec<Part>,
}

/// A parcellation by name and by the hash of its region names in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Atlas {
    pub name: String,
    /// BLAKE3 of the region names joined by line feeds.
    pub names_blake3: String,
}

impl Atlas {
    pub fn of_names<'a>(name: &str, regions: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for region in regions {
            hasher.update(region.as_bytes()).update(b"\n");
        }
        Self { name: name.to_owned(), names_blake3: hasher.finalize().to_hex().to_string() }
    }
}

/// One step that made or changed the cohort (BIDS: `GeneratedBy`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    pub name: String,
    pub version: String,
    pub verb: String,
    pub settings: serde_json::Value,
    pub settings_blake3: String,
}

impl Provenance {
    pub fn of(verb: &str, settings: serde_json::Value) -> Self {
        let settings_blake3 = blake3::hash(settings.to_string().as_bytes()).to_hex().to_string();
        let version = env!("CARGO_PKG_VERSION").into();
        Self { name: "bdo".into(), version, verb: verb.into(), settings, settings_blake3 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Path below the cohort folder.
    pub file: String,
    pub bytes: u64,
    pub blake3: String,
    /// BLAKE3 of what is not in any scan's batch: Arrow's header and footer.
    pub envelope_blake3: String,
}

/// Where a scan is stored; one record batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexEntry {
    #[serde(flatten)]
    pub id: ScanId,
    pub site: Option<String>,
    pub tr_seconds: f64,
    pub frames: usize,
    /// Time of the last frame minus that of the first.
    pub span_seconds: f64,
    /// Regions that are constant or missing in this scan.
    pub invalid_regions: usize,
    /// Mean head motion, where known.
    pub mean_fd_mm: Option<f64>,
    /// Which of the manifest's parts.
    pub part: usize,
    pub offset: u64,
    pub bytes: u64,
    /// BLAKE3 of the batch, as models list the scans they were trained on.
    pub blake3: String,
    /// The file the scan was read from, or how it was made.
    pub source: String,
    /// BLAKE3 of that file; empty for synthetic scans.
    pub source_blake3: String,
    /// BLAKE3 of the series alone, by which a copy is told whatever it is called; empty in cohorts of earlier versions.
    #[serde(default)]
    pub series_blake3: String,
}

impl IndexEntry {
    /// Hashes that a copy of the scan shares with it.
    pub fn content_hashes(&self) -> impl Iterator<Item = &str> {
        [&self.series_blake3, &self.source_blake3].into_iter().map(String::as_str).filter(|hash| !hash.is_empty())
    }
}

/// The lines of `checksums.b3`: path below the folder to lower-case hexadecimal BLAKE3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checksums(pub(super) BTreeMap<String, String>);

impl Checksums {
    pub(super) fn to_text(&self) -> String {
        self.0.iter().fold(String::new(), |text, (path, hash)| text + hash + "  " + path + "\n")
    }

    /// Reads the file strictly: any other byte than the writer's is an error, since nothing else covers this file.
    pub(super) fn read(folder: &Path) -> Result<Self, CohortError> {
        let path = folder.join(CHECKSUMS_FILE);
        let damaged =
            |found: String| CohortError::damaged(&path, "lines of a BLAKE3 and a path, in order", found, vec![]);
        let bytes = super::inside::read(folder, CHECKSUMS_FILE)?;
        let text = String::from_utf8(bytes).map_err(|_| damaged("bytes that are not text".into()))?;
        let mut sums = BTreeMap::new();
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let parsed = line.strip_suffix('\n').and_then(|l| l.split_once("  ")).filter(|(hash, path)| {
                let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
                hash.len() == 64 && hash.as_bytes().iter().all(hex) && !path.is_empty()
            });
            let (hash, file) = parsed.ok_or_else(|| damaged(format!("line {} of another form", number + 1)))?;
            if !is_below(file) {
                return Err(damaged(format!("a path outside the folder in line {}", number + 1)));
            }
            sums.insert(file.to_owned(), hash.to_owned());
        }
        let sums = Self(sums);
        if sums.to_text() == text { Ok(sums) } else { Err(damaged("lines out of order or repeated".into())) }
    }
}

/// Whether a path written in a file of ours stays below the folder: a copied or merged cohort must not write elsewhere.
pub(super) fn is_below(path: &str) -> bool {
    let plain = |c: std::path::Component| matches!(c, std::path::Component::Normal(_));
    !path.is_empty() && Path::new(path).components().all(plain)
}
