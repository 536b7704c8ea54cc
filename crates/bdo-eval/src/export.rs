//! Feature tables as files other tools open: Parquet, TSV or `NumPy`, by extension; written, read back, and joined of parts.

use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow, TableOrigin};
use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bdo_data::durable::{self, InFile};
use bdo_data::shard::Shard;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// One file; `feature` is a fixed-size list, the origin is key-value metadata.
    Parquet,
    /// Tab-separated `f0`, `f1`, ...; the origin is a JSON file beside it.
    Tsv,
    /// A matrix of f32; ids in `NAME.ids.tsv`, the origin in `NAME.json`.
    Npy,
}

impl TableFormat {
    pub fn of(path: &Path) -> Result<Self, EvalError> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("parquet") => Ok(Self::Parquet),
            Some("tsv") => Ok(Self::Tsv),
            Some("npy") => Ok(Self::Npy),
            _ => Err(EvalError::refused(path, "a name ending in .parquet, .tsv or .npy", "another ending")),
        }
    }
}

impl FeatureTable {
    /// Writes the table; every file appears whole or not at all, what lies beside the table first.
    pub fn write(&self, path: &Path) -> Result<(), EvalError> {
        let format = TableFormat::of(path)?;
        if let Some(origin) = self.origin.as_ref().filter(|_| format != TableFormat::Parquet) {
            durable::write_json(&path.with_extension("json"), origin)?;
        }
        let bytes = match format {
            TableFormat::Parquet => self.parquet(path)?,
            TableFormat::Tsv => self.tsv().into_bytes(),
            TableFormat::Npy => {
                let ids = self.lines("", |_| String::new());
                durable::write(&path.with_extension("ids.tsv"), ids.as_bytes())?;
                self.npy()
            }
        };
        Ok(durable::write(path, &bytes)?)
    }

    fn parquet(&self, path: &Path) -> Result<Vec<u8>, EvalError> {
        let width = self.features.width();
        let mut fields = scan_fields();
        fields.push(list_field("feature", width));
        fields.extend(self.trust.as_ref().map(|_| Field::new("trust", DataType::Utf8, false)));
        let schema = Arc::new(Schema::new(fields));
        let values = self.features.values().iter().map(|x| *x as f32);
        let origin = self.origin.iter().flat_map(|origin| {
            let shard = origin.shard.map(|shard| ("bdo.shard", shard.to_string()));
            let facts = [
                ("bdo.version", origin.version.clone()),
                ("bdo.model_blake3", origin.model_blake3.clone()),
                ("bdo.cohort_blake3", origin.cohort_blake3.clone()),
                ("bdo.pooling", origin.pooling.name().to_owned()),
            ];
            facts.into_iter().chain(shard)
        });
        let metadata = origin.map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect();
        let properties = WriterProperties::builder().set_key_value_metadata(Some(metadata)).build();
        let lay_out = || -> Result<Vec<u8>, ParquetError> {
            let mut columns = scan_columns(&self.rows);
            columns.push(list_array(width, values)?);
            columns.extend(self.trust.as_ref().map(|names| Arc::new(StringArray::from_iter_values(names)) as ArrayRef));
            let batch = RecordBatch::try_new(schema.clone(), columns)?;
            let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties))?;
            writer.write(&batch)?;
            writer.into_inner()
        };
        lay_out().map_err(EvalError::parquet(path))
    }

    fn tsv(&self) -> String {
        let names: String = (0..self.features.width()).fold(String::new(), |text, i| text + "\tf" + &i.to_string());
        // The shortest decimal that reads back as the same f32.
        self.lines(&names, |row| self.feature(row).iter().fold(String::new(), |text, x| text + "\t" + &x.to_string()))
    }

    /// The scans as lines of text, with further cells before that of trust.
    fn lines(&self, names: &str, cells: impl Fn(usize) -> String) -> String {
        let trust = |row: usize| self.trust.as_ref().map_or_else(String::new, |names| format!("\t{}", names[row]));
        let head = format!("scan\tsubject\tsession{names}{}\n", if self.trust.is_some() { "\ttrust" } else { "" });
        let line = |(row, id): (usize, &ScanRow)| {
            let session = id.session.as_deref().unwrap_or("n/a");
            format!("{}\t{}\t{session}{}{}\n", id.scan, id.subject, cells(row), trust(row))
        };
        std::iter::once(head).chain(self.rows.iter().enumerate().map(line)).collect()
    }

    fn npy(&self) -> Vec<u8> {
        let header = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
            self.rows.len(),
            self.features.width()
        );
        // Magic, version and length take ten bytes; the data start at a multiple of 64.
        let padding = 64 - (10 + header.len() + 1) % 64;
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend(((header.len() + padding + 1) as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(std::iter::repeat_n(b' ', padding));
        out.push(b'\n');
        out.extend(self.features.values().iter().flat_map(|x| (*x as f32).to_le_bytes()));
        out
    }

    pub fn read(path: &Path) -> Result<Self, EvalError> {
        match TableFormat::of(path)? {
            TableFormat::Parquet => of_parquet(path),
            TableFormat::Tsv => of_tsv(path),
            TableFormat::Npy => of_npy(path),
        }
    }

    /// Joins the parts of one table: the bytes it then has are those of a table that was made at once.
    pub fn join(paths: &[PathBuf]) -> Result<Self, EvalError> {
        let mut parts = Vec::new();
        let mut expected: Option<(&PathBuf, (TableOrigin, usize, bool))> = None;
        for path in paths {
            let mut part = Self::read(path)?;
            let missing = || EvalError::refused(path, "a part made with --shard", "a whole table");
            let origin = part.origin.as_mut().ok_or_else(missing)?;
            let shard = origin.shard.take().ok_or_else(missing)?;
            let key = (origin.clone(), part.features.width(), part.trust.is_some());
            let (first, table) = expected.get_or_insert_with(|| (path, key.clone()));
            if *table != key {
                let expected = format!("a part of the same table as {}", first.display());
                return Err(EvalError::refused(path, expected, "one of another model, cohort, pooling or version"));
            }
            parts.push((path.clone(), shard, part));
        }
        let (mut rows, mut values, mut trust) = (Vec::new(), Vec::new(), Vec::new());
        for part in in_order(parts)? {
            rows.extend(part.rows);
            values.extend_from_slice(part.features.values());
            trust.extend(part.trust.unwrap_or_default());
        }
        let (_, (origin, width, with_trust)) =
            expected.unwrap_or_else(|| unreachable!("a merge has at least one part"));
        Ok(Self { trust: with_trust.then_some(trust), ..Self::of_model(rows, width, values, origin)? })
    }
}

fn of_parquet(path: &Path) -> Result<FeatureTable, EvalError> {
    let (builder, facts) = open_parquet(path)?;
    let fact = |name: &str| facts.iter().find(|pair| pair.key == name).and_then(|pair| pair.value.clone());
    let origin = || {
        Some(TableOrigin {
            version: fact("bdo.version")?,
            model_blake3: fact("bdo.model_blake3")?,
            readout_blake3: None,
            cohort_blake3: fact("bdo.cohort_blake3")?,
            pooling: serde_json::from_value(fact("bdo.pooling")?.into()).ok()?,
            shard: fact("bdo.shard").and_then(|text| text.parse().ok()),
        })
    };
    // The schema says what a table without rows is like.
    let column = |name: &str| builder.schema().field_with_name(name).ok().map(|field| field.data_type().clone());
    let width = match column("feature") {
        Some(DataType::FixedSizeList(_, width)) => usize::try_from(width).unwrap_or(0),
        _ => 0,
    };
    let trust = column("trust").map(|_| Vec::new());
    let mut read = StoredRows { width, trust, ..StoredRows::default() };
    for batch in builder.build().map_err(EvalError::parquet(path))? {
        let batch = batch.map_err(|error| EvalError::refused(path, "a feature table", error))?;
        read.add(&batch).ok_or_else(|| EvalError::refused(path, "the columns of a feature table", batch.schema()))?;
    }
    read.table(path, origin())
}

/// Rows of a table while it is read.
#[derive(Default)]
struct StoredRows {
    rows: Vec<ScanRow>,
    width: usize,
    values: Vec<f64>,
    trust: Option<Vec<String>>,
}

impl StoredRows {
    /// The rows of a batch; none if it is not one of a feature table.
    fn add(&mut self, batch: &RecordBatch) -> Option<()> {
        let lists = batch.column_by_name("feature")?.as_fixed_size_list_opt()?;
        (usize::try_from(lists.value_length()).ok()? == self.width).then_some(())?;
        self.values.extend(lists.values().as_primitive_opt::<Float32Type>()?.values().iter().map(|x| f64::from(*x)));
        self.rows.extend(scan_rows(batch)?);
        if let Some(names) = batch.column_by_name("trust").and_then(|names| names.as_string_opt::<i32>()) {
            self.trust.as_mut()?.extend((0..names.len()).map(|i| names.value(i).to_owned()));
        }
        Some(())
    }

    fn table(self, path: &Path, origin: Option<TableOrigin>) -> Result<FeatureTable, EvalError> {
        let Self { rows, width, values, trust } = self;
        let scans = rows.len();
        let table = match origin {
            Some(origin) => FeatureTable::of_model(rows, width, values, origin)?,
            None => FeatureTable::new(rows, width, values)?,
        };
        if trust.as_ref().is_some_and(|names| names.len() != scans) {
            return Err(EvalError::refused(path, "one value of trust per row", "another number"));
        }
        Ok(FeatureTable { trust, ..table })
    }
}

fn origin_beside(path: &Path) -> Result<Option<TableOrigin>, EvalError> {
    let beside = path.with_extension("json");
    if !beside.is_file() {
        return Ok(None);
    }
    let read = serde_json::from_slice(&durable::read(&beside)?);
    read.map(Some).map_err(|error| EvalError::refused(&beside, "the origin of a feature table", error))
}

/// The lines of a file of text: the cells of its header, then those of each row, as many as the header has.
fn cells(path: &Path) -> Result<(Vec<String>, Vec<Vec<String>>), EvalError> {
    let text = String::from_utf8_lossy(&durable::read(path)?).into_owned();
    let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let rows: Vec<Vec<String>> = lines.collect();
    match rows.iter().find(|row| row.len() != header.len()) {
        Some(row) => Err(EvalError::refused(path, format!("{} cells per line", header.len()), row.len())),
        None => Ok((header, rows)),
    }
}

fn scan_row(cells: &[String]) -> Option<ScanRow> {
    let [scan, subject, session, ..] = cells else { return None };
    let session = (session != "n/a").then(|| session.clone());
    Some(ScanRow { scan: scan.clone(), subject: subject.clone(), session })
}

fn of_tsv(path: &Path) -> Result<FeatureTable, EvalError> {
    let origin = origin_beside(path)?;
    let (header, lines) = cells(path)?;
    let trust = header.last().is_some_and(|name| name == "trust");
    let width = header.len().saturating_sub(3 + usize::from(trust));
    let mut read = StoredRows { width, trust: trust.then(Vec::new), ..StoredRows::default() };
    for line in lines {
        let bad = || EvalError::refused(path, "scan, subject, session and numbers", line.join(" "));
        read.rows.push(scan_row(&line).ok_or_else(bad)?);
        for cell in line.iter().skip(3).take(width) {
            read.values.push(f64::from(cell.parse::<f32>().map_err(|_| bad())?));
        }
        read.trust.iter_mut().for_each(|names| names.extend(line.last().cloned()));
    }
    read.table(path, origin)
}

fn of_npy(path: &Path) -> Result<FeatureTable, EvalError> {
    let origin = origin_beside(path)?;
    let ids = path.with_extension("ids.tsv");
    let (header, lines) = cells(&ids)?;
    let rows: Option<Vec<ScanRow>> = lines.iter().map(|line| scan_row(line)).collect();
    let rows = rows.ok_or_else(|| EvalError::refused(&ids, "scan, subject and session", header.join(" ")))?;
    let last = |line: &Vec<String>| line.last().cloned().unwrap_or_default();
    let trust = header.last().is_some_and(|name| name == "trust").then(|| lines.iter().map(last).collect());
    let bytes = durable::read(path)?;
    let bad = || EvalError::refused(path, "a matrix of f32 as bdo embed writes it", "something else");
    let length = bytes.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]]))).ok_or_else(bad)?;
    let head = bytes.get(10..10 + length).map(String::from_utf8_lossy).ok_or_else(bad)?;
    let shape = head.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')')).map(|(shape, _)| shape);
    let width = shape.and_then(|shape| shape.split(',').nth(1)?.trim().parse().ok()).ok_or_else(bad)?;
    let (numbers, _) = bytes[10 + length..].as_chunks::<4>();
    let values = numbers.iter().map(|four| f64::from(f32::from_le_bytes(*four))).collect();
    StoredRows { rows, width, values, trust }.table(path, origin)
}

/// The columns that say which scan a row is of.
pub(crate) fn scan_fields() -> Vec<Field> {
    [("scan", false), ("subject", false), ("session", true)]
        .map(|(name, null)| Field::new(name, DataType::Utf8, null))
        .into()
}

pub(crate) fn scan_columns(rows: &[ScanRow]) -> Vec<ArrayRef> {
    let text =
        |pick: fn(&ScanRow) -> &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(rows.iter().map(pick))) };
    let sessions: StringArray = rows.iter().map(|row| row.session.as_deref()).collect();
    vec![text(|row| &row.scan), text(|row| &row.subject), Arc::new(sessions)]
}

/// What those columns of a batch say; none if one of them is missing.
pub(crate) fn scan_rows(batch: &RecordBatch) -> Option<Vec<ScanRow>> {
    let text = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
    let (scan, subject, session) = (text("scan")?, text("subject")?, text("session")?);
    let row = |i: usize| {
        let session = (!session.is_null(i)).then(|| session.value(i).to_owned());
        ScanRow { scan: scan.value(i).into(), subject: subject.value(i).into(), session }
    };
    Some((0..batch.num_rows()).map(row).collect())
}

/// A column of `width` numbers per row.
pub(crate) fn list_field(name: &str, width: usize) -> Field {
    Field::new(name, DataType::FixedSizeList(list_item(), width as i32), false)
}

pub(crate) fn list_array(width: usize, values: impl Iterator<Item = f32>) -> Result<ArrayRef, ParquetError> {
    let values = Arc::new(Float32Array::from_iter_values(values));
    Ok(Arc::new(FixedSizeListArray::try_new(list_item(), width as i32, values, None)?))
}

fn list_item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Float32, false))
}

/// A Parquet file with the facts of ours that it carries.
pub(crate) fn open_parquet(path: &Path) -> Result<(ParquetRecordBatchReaderBuilder<File>, Vec<KeyValue>), EvalError> {
    let file = File::open(path).in_file("read", path)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(EvalError::parquet(path))?;
    let all = builder.metadata().file_metadata().key_value_metadata();
    let facts = all.into_iter().flatten().filter(|pair| pair.key.starts_with("bdo.")).cloned().collect();
    Ok((builder, facts))
}

/// Parts of one whole, found by different processes, in their order. Every part must be there once.
pub fn in_order<T>(parts: Vec<(PathBuf, Shard, T)>) -> Result<Vec<T>, EvalError> {
    let of = parts.first().map_or(0, |(_, shard, _)| shard.of);
    let mut found: BTreeMap<usize, (PathBuf, T)> = BTreeMap::new();
    let last = parts.last().map(|(path, ..)| path.clone()).unwrap_or_default();
    for (path, shard, part) in parts {
        if shard.of != of {
            return Err(EvalError::refused(&path, format!("a part of {of}"), format!("part {shard}")));
        }
        if let Some((other, _)) = found.get(&shard.part) {
            return Err(EvalError::refused(&path, "another part", format!("part {shard}, as {}", other.display())));
        }
        found.insert(shard.part, (path, part));
    }
    let missing = |part| EvalError::refused(&last, format!("all {of} parts beside it"), format!("no part {part}/{of}"));
    (1..=of).map(|part| found.remove(&part).map(|(_, part)| part).ok_or_else(|| missing(part))).collect()
}
