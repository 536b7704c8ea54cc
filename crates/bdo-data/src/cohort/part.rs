//! Writing one Arrow file of scans, hashing every byte on the way to the disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::SchemaRef;

use super::manifest::{IndexEntry, Part};
use super::{CohortError, batch};
use crate::durable::{self, FileError, InFile};
use crate::scan::Scan;

/// Alignment of Arrow buffers: one cache line, so that a memory map can be used by vector code as it is.
const ALIGNMENT: usize = 64;

/// Passes bytes on while hashing them three ways: the whole file, the current scan, and what belongs to no scan.
struct HashingFile {
    file: BufWriter<File>,
    written: u64,
    whole: blake3::Hasher,
    scan: blake3::Hasher,
    envelope: blake3::Hasher,
    inside_scan: bool,
}

impl Write for HashingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.whole.update(bytes);
        if self.inside_scan { &mut self.scan } else { &mut self.envelope }.update(bytes);
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// An Arrow file being written under a temporary name.
pub(super) struct PartWriter {
    arrow: FileWriter<HashingFile>,
    path: PathBuf,
    schema: SchemaRef,
}

impl PartWriter {
    /// Opens the temporary file; `path` is the final name.
    pub(super) fn create(path: &Path, schema: SchemaRef) -> Result<Self, CohortError> {
        let temporary = durable::temporary_name(path);
        let file = File::create(&temporary).in_file("write", &temporary)?;
        let hasher = blake3::Hasher::new;
        let file = HashingFile {
            file: BufWriter::with_capacity(1 << 20, file),
            written: 0,
            whole: hasher(),
            scan: hasher(),
            envelope: hasher(),
            inside_scan: false,
        };
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, arrow_ipc::MetadataVersion::V5)
            .and_then(|options| FileWriter::try_new_with_options(file, &schema, options));
        let arrow = options.map_err(|e| arrow_error(path, e))?;
        Ok(Self { arrow, path: path.to_path_buf(), schema })
    }

    /// Writes one scan; `part` is the number of this file in the manifest.
    pub(super) fn push(&mut self, scan: &Scan, part: usize) -> Result<IndexEntry, CohortError> {
        let path = self.path.clone();
        let batch = batch::encode(scan, &self.schema).map_err(|e| arrow_error(&path, e))?;
        let sink = self.arrow.get_mut();
        let offset = sink.written;
        sink.scan.reset();
        sink.inside_scan = true;
        self.arrow.write(&batch).map_err(|e| arrow_error(&path, e))?;
        let sink = self.arrow.get_mut();
        sink.inside_scan = false;
        let times = &scan.frame_times_seconds;
        Ok(IndexEntry {
            id: scan.id.clone(),
            site: scan.site.clone(),
            tr_seconds: scan.tr_seconds,
            frames: scan.frames(),
            span_seconds: times.last().unwrap_or(&0.0) - times.first().unwrap_or(&0.0),
            invalid_regions: scan.valid_regions().iter().filter(|v| !**v).count(),
            mean_fd_mm: scan.framewise_displacement_mm.as_ref().and_then(|fd| finite_mean(fd)),
            part,
            offset,
            bytes: sink.written - offset,
            blake3: sink.scan.finalize().to_hex().to_string(),
            source: scan.source.name.clone(),
            source_blake3: scan.source.blake3.clone(),
            series_blake3: scan.series_blake3(),
        })
    }

    pub(super) fn bytes(&mut self) -> u64 {
        self.arrow.get_mut().written
    }

    /// Completes the file, flushes it and gives it its final name.
    pub(super) fn finish(mut self, name: String) -> Result<Part, CohortError> {
        self.arrow.finish().map_err(|e| arrow_error(&self.path, e))?;
        let sink = self.arrow.get_mut();
        sink.flush().and_then(|()| sink.file.get_ref().sync_all()).in_file("write", &self.path)?;
        let hex = |hasher: &blake3::Hasher| hasher.finalize().to_hex().to_string();
        let part =
            Part { file: name, bytes: sink.written, blake3: hex(&sink.whole), envelope_blake3: hex(&sink.envelope) };
        durable::publish_file(&durable::temporary_name(&self.path), &self.path)?;
        Ok(part)
    }
}

fn finite_mean(values: &[f32]) -> Option<f64> {
    let (sum, n) = values.iter().filter(|x| x.is_finite()).fold((0.0, 0u32), |(s, n), x| (s + f64::from(*x), n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

/// An Arrow write fails because the file does (a full disk): the system's error is what the user needs to see.
fn arrow_error(path: &Path, error: arrow_schema::ArrowError) -> CohortError {
    match error {
        arrow_schema::ArrowError::IoError(_, source) => FileError::new("write", path, source).into(),
        other => FileError::new("write", path, io::Error::other(other)).into(),
    }
}
