//! Feature tables as files other tools open: Parquet, TSV or `NumPy`, by extension.

use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bdo_data::durable;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::path::Path;
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
        match TableFormat::of(path)? {
            TableFormat::Parquet => durable::write(path, &self.parquet(path)?)?,
            TableFormat::Tsv => {
                self.write_origin(path)?;
                durable::write(path, self.tsv().as_bytes())?;
            }
            TableFormat::Npy => {
                self.write_origin(path)?;
                durable::write(&path.with_extension("ids.tsv"), self.ids().as_bytes())?;
                durable::write(path, &self.npy())?;
            }
        }
        Ok(())
    }

    fn write_origin(&self, path: &Path) -> Result<(), EvalError> {
        let Some(origin) = &self.origin else { return Ok(()) };
        Ok(durable::write_json(&path.with_extension("json"), origin)?)
    }

    fn parquet(&self, path: &Path) -> Result<Vec<u8>, EvalError> {
        let width = self.features.width();
        let mut fields = scan_fields();
        fields.push(list_field("feature", width));
        fields.extend(self.trust.as_ref().map(|_| Field::new("trust", DataType::Utf8, false)));
        let schema = Arc::new(Schema::new(fields));
        let text = |pick: fn(&ScanRow) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(self.rows.iter().map(pick)))
        };
        let sessions: StringArray = self.rows.iter().map(|row| row.session.as_deref()).collect();
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
            let mut columns: Vec<ArrayRef> =
                vec![text(|r| &r.scan), text(|r| &r.subject), Arc::new(sessions), list_array(width, values)?];
            columns.extend(self.trust.as_ref().map(|names| Arc::new(StringArray::from_iter_values(names)) as ArrayRef));
            let batch = RecordBatch::try_new(schema.clone(), columns)?;
            let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties))?;
            writer.write(&batch)?;
            writer.into_inner()
        };
        lay_out().map_err(|source| EvalError::Parquet { path: path.to_path_buf(), source })
    }

    fn tsv(&self) -> String {
        let names: String = (0..self.features.width()).fold(String::new(), |text, i| text + "\tf" + &i.to_string());
        // The shortest decimal that reads back as the same f32.
        self.lines(&names, |row| self.feature(row).iter().fold(String::new(), |text, x| text + "\t" + &x.to_string()))
    }

    fn ids(&self) -> String {
        self.lines("", |_| String::new())
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
}

/// The columns that say which scan a row is of.
pub(crate) fn scan_fields() -> Vec<Field> {
    [("scan", false), ("subject", false), ("session", true)]
        .map(|(name, null)| Field::new(name, DataType::Utf8, null))
        .into()
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
