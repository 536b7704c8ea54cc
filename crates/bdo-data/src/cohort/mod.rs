//! The cohort: our data at rest. A folder that is complete and immutable once it has its name.
//!
//! Scans lie in `scans/part-*.arrow`, one record batch each, memory-mapped when read. `index.json` says where each scan is and
//! what its bytes hash to; a scan is hashed whenever it is read, so a flipped bit never reaches a model.

mod build;
mod inside;
mod manifest;
mod merge;
mod part;
mod recipe;
mod verify;

pub(crate) use build::at;
pub use build::{
    BuildReport, Item, Observer, Plan, REJECTED_FILE, Rejection, Tables, Unpublished, build, build_beside, discard,
    existing, lock_beside, publish, resumable, tidy_up,
};
pub use manifest::{Atlas, IndexEntry, Manifest, Part, Provenance};
pub use merge::{LabelReport, append, label, merge, table_blake3};
pub use recipe::{Recipe, differing_recipes, recipe_of};
pub use verify::{Damage, verify};

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::Block;
use arrow_ipc::reader::FileDecoder;
use serde::de::DeserializeOwned;

use crate::durable::{FileError, InFile};
use crate::participants::{Participants, ParticipantsError};
use crate::problem::Problem;
use crate::region::Region;
use crate::scan::Scan;
use manifest::{
    CHECKSUMS_FILE, COHORT_FILE, Checksums, FORMAT, INDEX_FILE, PARTICIPANTS_FILE, PARTICIPANTS_NOTES_FILE,
    REGIONS_FILE,
};

/// Why a cohort cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum CohortError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not a cohort: expected a folder with {COHORT_FILE}, found {found}", .path.display())]
    NotACohort { path: PathBuf, found: String },
    #[error("{} is damaged: expected {expected}, found {found}{}", .path.display(), concerning(.scans))]
    Damaged { path: PathBuf, expected: String, found: String, scans: Vec<String> },
    #[error(transparent)]
    Participants(#[from] ParticipantsError),
    #[error("scan {scan}: {source}")]
    Scan { scan: String, source: Problem },
    #[error("{} exists and {reason}; give another name, or remove it", .path.display())]
    Exists { path: PathBuf, reason: String },
    #[error("{} is being written by another process; wait for it to end", .path.display())]
    Busy { path: PathBuf },
    #[error("{}: expected {expected}, found {found}", .path.display())]
    Mismatch { path: PathBuf, expected: String, found: String },
    #[error("expected at least one scan, found none: {}", first_rejection(.rejected))]
    Empty { rejected: Vec<Rejection> },
    #[error("interrupted after {done} of {total}; run the same command again to go on")]
    Interrupted { done: usize, total: usize },
}

impl CohortError {
    fn exists(path: &Path, reason: impl Into<String>) -> Self {
        Self::Exists { path: path.to_path_buf(), reason: reason.into() }
    }

    fn mismatch(path: &Path, expected: impl ToString, found: impl ToString) -> Self {
        Self::Mismatch { path: path.to_path_buf(), expected: expected.to_string(), found: found.to_string() }
    }

    fn damaged(path: &Path, expected: impl ToString, found: impl ToString, scans: Vec<String>) -> Self {
        Self::Damaged { path: path.to_path_buf(), expected: expected.to_string(), found: found.to_string(), scans }
    }
}

fn first_rejection(rejected: &[Rejection]) -> String {
    match rejected {
        [] => "there was nothing to read".into(),
        [first, rest @ ..] => {
            let more =
                if rest.is_empty() { String::new() } else { format!(" (and {} more were rejected)", rest.len()) };
            format!("{}: {}: expected {}, found {}{more}", first.file, first.reason, first.expected, first.found)
        }
    }
}

fn concerning(scans: &[String]) -> String {
    match scans {
        [] => String::new(),
        [one] => format!(" (scan {one})"),
        [first, .., last] => format!(" ({} scans, {first} to {last})", scans.len()),
    }
}

/// An opened cohort. Cheap to open: scans stay on the disk until they are asked for.
#[derive(Debug)]
pub struct Cohort {
    folder: PathBuf,
    manifest: Manifest,
    regions: Vec<Region>,
    index: Vec<IndexEntry>,
    participants: Participants,
}

impl Cohort {
    /// Opens a cohort folder, checking all of its tables but not yet its scans.
    pub fn open(folder: &Path) -> Result<Self, CohortError> {
        let not_a_cohort =
            |found: &str| CohortError::NotACohort { path: folder.to_path_buf(), found: found.to_owned() };
        if !folder.is_dir() {
            return Err(not_a_cohort(if folder.exists() { "a file" } else { "nothing of that name" }));
        }
        if !folder.join(COHORT_FILE).is_file() {
            return Err(not_a_cohort("a folder without it"));
        }
        loop {
            let sums = Checksums::read(folder)?;
            let opened = Self::open_with(folder, &sums);
            // Where another process has changed the tables meanwhile, they are read once more.
            if opened.is_ok() || Checksums::read(folder)? == sums {
                return opened;
            }
        }
    }

    fn open_with(folder: &Path, sums: &Checksums) -> Result<Self, CohortError> {
        let manifest: Manifest = checked_json(folder, COHORT_FILE, sums)?;
        if manifest.format != FORMAT {
            return Err(CohortError::mismatch(folder, format_args!("format {FORMAT}"), manifest.format));
        }
        let regions: Vec<Region> = checked_json(folder, REGIONS_FILE, sums)?;
        let mut index: Vec<IndexEntry> = checked_json(folder, INDEX_FILE, sums)?;
        // It has grown by doubling, and stays.
        index.shrink_to_fit();
        let table = checked(folder, PARTICIPANTS_FILE, sums)?;
        checked(folder, PARTICIPANTS_NOTES_FILE, sums)?;
        let participants = Participants::parse(PARTICIPANTS_FILE, &table, &[])?;
        for (number, part) in manifest.parts.iter().enumerate() {
            let path = folder.join(&part.file);
            if !manifest::is_below(&part.file) {
                let path = folder.join(COHORT_FILE);
                return Err(CohortError::damaged(&path, "parts below the folder", &part.file, vec![]));
            }
            let found = std::fs::metadata(&path).in_file("read", &path)?.len();
            if found != part.bytes {
                let scans = index.iter().filter(|e| e.part == number).map(|e| e.id.to_string()).collect();
                let (expected, found) = (format_args!("{} bytes", part.bytes), format_args!("{found} bytes"));
                return Err(CohortError::damaged(&path, expected, found, scans));
            }
        }
        Ok(Self { folder: folder.to_path_buf(), manifest, regions, index, participants })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Every scan, in canonical order: person, session, task, run.
    pub fn index(&self) -> &[IndexEntry] {
        &self.index
    }

    pub fn participants(&self) -> &Participants {
        &self.participants
    }

    /// A file beside the tables and parts (rejected scans, truth), where the cohort has it.
    pub fn extra(&self, name: &str) -> Result<Option<Vec<u8>>, CohortError> {
        let sums = Checksums::read(&self.folder)?;
        sums.0.contains_key(name).then(|| checked(&self.folder, name, &sums)).transpose()
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// A hash of all that the cohort holds: its checksums file covers every byte.
    pub fn content_blake3(&self) -> Result<String, CohortError> {
        Ok(blake3::hash(&inside::read(&self.folder, CHECKSUMS_FILE)?).to_hex().to_string())
    }

    /// Reads scan number `i` of the index, verifying its checksum first.
    pub fn scan(&self, i: usize) -> Result<Scan, CohortError> {
        let entry = &self.index[i];
        let path = self.folder.join(&self.manifest.parts[entry.part].file);
        let bytes = map(&path, entry.offset, entry.bytes)?;
        let found = blake3::hash(&bytes).to_hex();
        if found.as_str() != entry.blake3 {
            let expected = format_args!("BLAKE3 {}", entry.blake3);
            return Err(CohortError::damaged(&path, expected, found, vec![entry.id.to_string()]));
        }
        let refused =
            |found: &str| CohortError::damaged(&path, "an Arrow record batch", found, vec![entry.id.to_string()]);
        // An encapsulated message starts with a continuation marker and the size of its metadata.
        let size: [u8; 4] = bytes.get(4..8).and_then(|b| b.try_into().ok()).ok_or_else(|| refused("too few bytes"))?;
        let metadata_bytes = i32::from_le_bytes(size) + 8;
        let block = Block::new(0, metadata_bytes, entry.bytes as i64 - i64::from(metadata_bytes));
        let decoder = FileDecoder::new(part::schema(self.regions.len()), arrow_ipc::MetadataVersion::V5);
        let batch = decoder.read_record_batch(&block, &bytes);
        let batch = batch.map_err(|e| refused(&e.to_string()))?.ok_or_else(|| refused("another message"))?;
        // The index has the last word on site and person: labels can be corrected, and people of a merged cohort may have got a
        // prefix; scans are never written again.
        Ok(Scan { id: entry.id.clone(), site: entry.site.clone(), ..part::decode(&batch) })
    }
}

/// The memory map of a stretch of a part; of none of it where the file is too short. Maps of parts that stay would count every
/// page that was ever read as memory in use.
fn map(path: &Path, offset: u64, bytes: u64) -> Result<Buffer, CohortError> {
    let file = File::open(path).in_file("read", path)?;
    let end = offset.checked_add(bytes);
    if end.is_none_or(|end| file.metadata().is_ok_and(|found| found.len() < end)) {
        return Ok(Buffer::from(Vec::<u8>::new()));
    }
    #[allow(unsafe_code)]
    // SAFETY: a published cohort is immutable: nothing of ours changes a part after its folder got its name, and each scan's
    // bytes are hashed before they are interpreted. Another program truncating the file while it is mapped would raise
    // SIGBUS, as with any memory map.
    let map = unsafe { memmap2::MmapOptions::new().offset(offset).len(bytes as usize).map(&file) };
    Ok(bytes_of(map.in_file("map", path)?))
}

/// Hands the map to Arrow without copying.
fn bytes_of(map: memmap2::Mmap) -> Buffer {
    let owner = Arc::new(map);
    let (pointer, length) = (owner.as_ptr(), owner.len());
    std::ptr::NonNull::new(pointer.cast_mut()).map_or_else(
        || Buffer::from(Vec::<u8>::new()),
        |pointer| {
            #[allow(unsafe_code)]
            // SAFETY: pointer and length are those of the map, which the buffer keeps alive as its owner.
            unsafe {
                Buffer::from_custom_allocation(pointer, length, owner)
            }
        },
    )
}

fn checked(folder: &Path, name: &str, sums: &Checksums) -> Result<Vec<u8>, CohortError> {
    let path = folder.join(name);
    let bytes = inside::read(folder, name)?;
    let found = blake3::hash(&bytes).to_hex().to_string();
    match sums.0.get(name) {
        Some(expected) if *expected == found => Ok(bytes),
        expected => {
            let expected = expected.map_or_else(|| format!("a line in {CHECKSUMS_FILE}"), |e| format!("BLAKE3 {e}"));
            Err(CohortError::damaged(&path, expected, found, vec![]))
        }
    }
}

fn checked_json<T: DeserializeOwned>(folder: &Path, name: &str, sums: &Checksums) -> Result<T, CohortError> {
    let bytes = checked(folder, name, sums)?;
    let expected = format_args!("the JSON of {FORMAT}");
    serde_json::from_slice(&bytes).map_err(|e| CohortError::damaged(&folder.join(name), expected, e, vec![]))
}
