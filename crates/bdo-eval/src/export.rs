//! Feature tables as files other tools open: Parquet, TSV or `NumPy`, by extension.

use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bdo_data::durable;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Formats of a feature table.
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
    /// The format a file name asks for.
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
        self.write_with(path, None)
    }

    /// The same with a last column `trust`: whether each scan is like those the model knows.
    pub fn write_with(&self, path: &Path, trust: Option<&[&str]>) -> Result<(), EvalError> {
        match TableFormat::of(path)? {
            TableFormat::Parquet => durable::write(path, &self.parquet(path, trust)?)?,
            TableFormat::Tsv => {
                self.write_origin(path)?;
                durable::write(path, self.tsv(trust).as_bytes())?;
            }
            TableFormat::Npy => {
                self.write_origin(path)?;
                durable::write(&path.with_extension("ids.tsv"), self.ids(trust).as_bytes())?;
                durable::write(path, &self.npy())?;
            }
        }
        Ok(())
    }

    /// The files besides the table itself.
    pub fn sidecars(path: &Path) -> Vec<PathBuf> {
        match TableFormat::of(path) {
            Ok(TableFormat::Tsv) => vec![path.with_extension("json")],
            Ok(TableFormat::Npy) => vec![path.with_extension("json"), path.with_extension("ids.tsv")],
            _ => Vec::new(),
        }
    }

    fn write_origin(&self, path: &Path) -> Result<(), EvalError> {
        let Some(origin) = &self.origin else { return Ok(()) };
        Ok(durable::write_json(&path.with_extension("json"), origin)?)
    }

    fn parquet(&self, path: &Path, trust: Option<&[&str]>) -> Result<Vec<u8>, EvalError> {
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let width = self.features.width() as i32;
        let list = DataType::FixedSizeList(item.clone(), width);
        let mut fields = vec![
            Field::new("scan", DataType::Utf8, false),
            Field::new("subject", DataType::Utf8, false),
            Field::new("session", DataType::Utf8, true),
            Field::new("feature", list, false),
        ];
        fields.extend(trust.map(|_| Field::new("trust", DataType::Utf8, false)));
        let schema = Arc::new(Schema::new(fields));
        let text = |pick: fn(&ScanRow) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(self.rows.iter().map(pick)))
        };
        let sessions: StringArray = self.rows.iter().map(|row| row.session.as_deref()).collect();
        let values = Arc::new(Float32Array::from_iter_values(self.features.values().iter().map(|x| *x as f32)));
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
        let lay_out = || -> Result<Vec<u8>, parquet::errors::ParquetError> {
            let features = FixedSizeListArray::try_new(item, width, values, None)?;
            let mut columns: Vec<ArrayRef> =
                vec![text(|r| &r.scan), text(|r| &r.subject), Arc::new(sessions), Arc::new(features)];
            columns.extend(trust.map(|names| Arc::new(StringArray::from_iter_values(names)) as ArrayRef));
            let batch = RecordBatch::try_new(schema.clone(), columns)?;
            let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties))?;
            writer.write(&batch)?;
            writer.into_inner()
        };
        lay_out().map_err(|source| EvalError::Parquet { path: path.to_path_buf(), source })
    }

    fn tsv(&self, trust: Option<&[&str]>) -> String {
        let mut out = String::from("scan\tsubject\tsession");
        (0..self.features.width()).for_each(|i| out.push_str(&format!("\tf{i}")));
        out.push_str(if trust.is_some() { "\ttrust\n" } else { "\n" });
        for (row, id) in self.rows.iter().enumerate() {
            out.push_str(&id_cells(id));
            // The shortest decimal that reads back as the same f32.
            self.feature(row).iter().for_each(|x| out.push_str(&format!("\t{x}")));
            trust.iter().for_each(|names| out.push_str(&format!("\t{}", names[row])));
            out.push('\n');
        }
        out
    }

    fn ids(&self, trust: Option<&[&str]>) -> String {
        let cell = |row: usize| trust.map_or_else(String::new, |names| format!("\t{}", names[row]));
        let lines = self.rows.iter().enumerate().map(|(row, id)| id_cells(id) + &cell(row) + "\n");
        let head = if trust.is_some() { "scan\tsubject\tsession\ttrust\n" } else { "scan\tsubject\tsession\n" };
        std::iter::once(head.to_owned()).chain(lines).collect()
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
}

fn id_cells(row: &ScanRow) -> String {
    format!("{}\t{}\t{}", row.scan, row.subject, row.session.as_deref().unwrap_or("n/a"))
}
