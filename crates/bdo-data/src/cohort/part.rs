//! One Arrow file of scans, a record batch of one row each, hashed byte by byte on the way to the disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, Float64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::CohortError;
use super::manifest::{IndexEntry, Part};
use crate::durable::{self, FileError, InFile};
use crate::quantile::mean;
use crate::scan::{Scan, ScanId, Source};

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

/// An Arrow file being written under a temporary name, with the entries of its scans.
pub(super) struct PartWriter {
    arrow: FileWriter<HashingFile>,
    path: PathBuf,
    number: usize,
    schema: SchemaRef,
    index: Vec<IndexEntry>,
}

impl PartWriter {
    pub(super) fn create(folder: &Path, number: usize, regions: usize) -> Result<Self, CohortError> {
        let (path, schema) = (folder.join(part_name(number)), schema(regions));
        let temporary = durable::temporary_name(&path);
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
        let arrow = options.map_err(|e| arrow_error(&path, e))?;
        Ok(Self { arrow, path, number, schema, index: vec![] })
    }

    pub(super) fn push(&mut self, scan: &Scan) -> Result<(), CohortError> {
        let batch = encode(scan, &self.schema).map_err(|e| arrow_error(&self.path, e))?;
        let sink = self.arrow.get_mut();
        let offset = sink.written;
        sink.scan.reset();
        sink.inside_scan = true;
        self.arrow.write(&batch).map_err(|e| arrow_error(&self.path, e))?;
        let sink = self.arrow.get_mut();
        sink.inside_scan = false;
        let times = &scan.frame_times_seconds;
        let displacements = scan.framewise_displacement_mm.iter().flatten();
        self.index.push(IndexEntry {
            id: scan.id.clone(),
            site: scan.site.clone(),
            tr_seconds: scan.tr_seconds,
            frames: scan.frames(),
            span_seconds: times.last().unwrap_or(&0.0) - times.first().unwrap_or(&0.0),
            invalid_regions: scan.valid_regions().iter().filter(|v| !**v).count(),
            mean_fd_mm: mean(displacements.filter(|mm| mm.is_finite()).map(|mm| f64::from(*mm))),
            part: self.number,
            offset,
            bytes: sink.written - offset,
            blake3: sink.scan.finalize().to_hex().to_string(),
            source: scan.source.name.clone(),
            source_blake3: scan.source.blake3.clone(),
            series_blake3: scan.series_blake3(),
        });
        Ok(())
    }

    pub(super) fn bytes(&mut self) -> u64 {
        self.arrow.get_mut().written
    }

    pub(super) fn finish(mut self) -> Result<(Part, Vec<IndexEntry>), CohortError> {
        self.arrow.finish().map_err(|e| arrow_error(&self.path, e))?;
        let sink = self.arrow.get_mut();
        sink.flush().and_then(|()| sink.file.get_ref().sync_all()).in_file("write", &self.path)?;
        let hex = |hasher: &blake3::Hasher| hasher.finalize().to_hex().to_string();
        let part = Part {
            file: format!("scans/{}", part_name(self.number)),
            bytes: sink.written,
            blake3: hex(&sink.whole),
            envelope_blake3: hex(&sink.envelope),
        };
        durable::publish_file(&durable::temporary_name(&self.path), &self.path)?;
        Ok((part, self.index))
    }
}

pub(super) fn part_name(number: usize) -> String {
    format!("part-{number:05}.arrow")
}

/// An Arrow write fails because the file does (a full disk): the system's error is what the user needs to see.
fn arrow_error(path: &Path, error: ArrowError) -> CohortError {
    match error {
        ArrowError::IoError(_, source) => FileError::new("write", path, source).into(),
        other => FileError::new("write", path, io::Error::other(other)).into(),
    }
}

/// The columns of a part; `series` is a list of frames, each a fixed-size list of `regions` numbers.
pub(super) fn schema(regions: usize) -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let frame = DataType::FixedSizeList(item(DataType::Float32), regions as i32);
    let floats = DataType::List(item(DataType::Float32));
    Arc::new(Schema::new(vec![
        text("subject", false),
        text("session", true),
        text("task", true),
        text("run", true),
        text("site", true),
        Field::new("tr_seconds", DataType::Float64, false),
        Field::new("n_frames", DataType::UInt32, false),
        Field::new("frame_times_seconds", DataType::List(item(DataType::Float64)), false),
        Field::new("series", DataType::List(item(frame)), false),
        Field::new("framewise_displacement_mm", floats.clone(), true),
        Field::new("coverage", floats, true),
        text("source", false),
        text("source_blake3", false),
        Field::new("dropped_volumes", DataType::UInt32, false),
    ]))
}

fn encode(scan: &Scan, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let regions = scan.series.len() / scan.frames().max(1);
    let text = |value: Option<&str>| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let mut times = ListBuilder::new(Float64Builder::with_capacity(scan.frames()));
    times.values().append_slice(&scan.frame_times_seconds);
    times.append(true);
    let frames = FixedSizeListBuilder::new(Float32Builder::with_capacity(scan.series.len()), regions as i32);
    let mut series = ListBuilder::new(frames);
    series.values().values().append_slice(&scan.series);
    for _ in 0..scan.frames() {
        series.values().append(true);
    }
    series.append(true);
    let columns: Vec<ArrayRef> = vec![
        text(Some(&scan.id.subject)),
        text(scan.id.session.as_deref()),
        text(scan.id.task.as_deref()),
        text(scan.id.run.as_deref()),
        text(scan.site.as_deref()),
        Arc::new(Float64Array::from(vec![scan.tr_seconds])),
        Arc::new(UInt32Array::from(vec![scan.frames() as u32])),
        Arc::new(times.finish()),
        Arc::new(series.finish()),
        floats(scan.framewise_displacement_mm.as_deref()),
        floats(scan.coverage.as_deref()),
        text(Some(&scan.source.name)),
        text(Some(&scan.source.blake3)),
        Arc::new(UInt32Array::from(vec![scan.source.dropped_volumes])),
    ];
    RecordBatch::try_new(schema.clone(), columns)
}

fn floats(values: Option<&[f32]>) -> ArrayRef {
    let mut builder = ListBuilder::new(Float32Builder::new());
    if let Some(values) = values {
        builder.values().append_slice(values);
    }
    builder.append(values.is_some());
    Arc::new(builder.finish())
}

/// Unpacks a batch made by [`encode`]. The checksum was verified before, so the shapes are the writer's.
pub(super) fn decode(batch: &RecordBatch) -> Scan {
    let text = |i: usize| {
        let column = batch.column(i).as_string::<i32>();
        column.is_valid(0).then(|| column.value(0).to_owned())
    };
    let floats = |i: usize| {
        let column = batch.column(i).as_list::<i32>();
        column.is_valid(0).then(|| column.value(0).as_primitive::<Float32Type>().values().to_vec())
    };
    let times = batch.column(7).as_list::<i32>().value(0);
    let frames = batch.column(8).as_list::<i32>().value(0);
    Scan {
        id: ScanId { subject: text(0).unwrap_or_default(), session: text(1), task: text(2), run: text(3) },
        site: text(4),
        tr_seconds: batch.column(5).as_primitive::<Float64Type>().value(0),
        frame_times_seconds: times.as_primitive::<Float64Type>().values().to_vec(),
        series: frames.as_fixed_size_list().values().as_primitive::<Float32Type>().values().to_vec(),
        framewise_displacement_mm: floats(9),
        coverage: floats(10),
        source: Source {
            name: text(11).unwrap_or_default(),
            blake3: text(12).unwrap_or_default(),
            dropped_volumes: batch.column(13).as_primitive::<UInt32Type>().value(0),
        },
    }
}
