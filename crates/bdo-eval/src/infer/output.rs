//! Answers as files: one Parquet table for programs, and BIDS-like tables a scan for people and pipelines.

use crate::error::EvalError;
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bdo_data::durable::{self, InFile};
use bdo_data::scan::ScanId;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of one scan, ready to be written.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Since the first frame.
    pub times_seconds: Vec<f64>,
    /// What each row is.
    pub kinds: Vec<&'static str>,
    /// For each list column, row-major values.
    pub lists: Vec<Vec<f32>>,
}

/// A table that grows block by block and has its name only when it is complete.
#[derive(Debug)]
pub struct TableWriter {
    path: PathBuf,
    temporary: PathBuf,
    writer: ArrowWriter<File>,
    schema: Arc<Schema>,
    widths: Vec<usize>,
}

impl TableWriter {
    /// `lists` names the list columns and says how long their lists are.
    pub fn create(path: &Path, lists: &[(&str, usize)], facts: &[(&str, String)]) -> Result<Self, EvalError> {
        let item = || Arc::new(Field::new("item", DataType::Float32, false));
        let mut fields = vec![
            Field::new("scan", DataType::Utf8, false),
            Field::new("subject", DataType::Utf8, false),
            Field::new("session", DataType::Utf8, true),
            Field::new("time_seconds", DataType::Float64, false),
            Field::new("kind", DataType::Utf8, false),
        ];
        let list =
            |(name, width): &(&str, usize)| Field::new(*name, DataType::FixedSizeList(item(), *width as i32), false);
        fields.extend(lists.iter().map(list));
        let schema = Arc::new(Schema::new(fields));
        let metadata = facts.iter().map(|(key, value)| KeyValue::new(format!("bdo.{key}"), value.clone())).collect();
        let properties = WriterProperties::builder().set_key_value_metadata(Some(metadata)).build();
        let temporary = durable::temporary_name(path);
        let file = File::create(&temporary).in_file("create", &temporary)?;
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))
            .map_err(|source| EvalError::Parquet { path: path.to_path_buf(), source })?;
        let widths = lists.iter().map(|(_, width)| *width).collect();
        Ok(Self { path: path.to_path_buf(), temporary, writer, schema, widths })
    }

    /// Adds rows of a scan; they leave memory once a row group is full.
    pub fn add(&mut self, id: &ScanId, block: &Block) -> Result<(), EvalError> {
        let rows = block.times_seconds.len();
        let text =
            |value: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))) };
        let session: StringArray = std::iter::repeat_n(id.session.as_deref(), rows).collect();
        let mut columns: Vec<ArrayRef> = vec![
            text(&id.to_string()),
            text(&id.subject),
            Arc::new(session),
            Arc::new(Float64Array::from(block.times_seconds.clone())),
            Arc::new(StringArray::from_iter_values(block.kinds.iter())),
        ];
        let mut lay_out = || -> Result<(), parquet::errors::ParquetError> {
            for (values, width) in block.lists.iter().zip(&self.widths) {
                let item = Arc::new(Field::new("item", DataType::Float32, false));
                let values = Arc::new(Float32Array::from(values.clone()));
                columns.push(Arc::new(FixedSizeListArray::try_new(item, *width as i32, values, None)?));
            }
            let batch = RecordBatch::try_new(self.schema.clone(), columns.clone())?;
            self.writer.write(&batch)?;
            // Lists of hundreds of numbers fill memory long before the default number of rows.
            if self.writer.in_progress_size() > 32 << 20 {
                self.writer.flush()?;
            }
            Ok(())
        };
        lay_out().map_err(|source| EvalError::Parquet { path: self.path.clone(), source })
    }

    /// Completes the table and gives it its name.
    pub fn finish(self) -> Result<(), EvalError> {
        let Self { path, temporary, writer, .. } = self;
        let parquet = |source| EvalError::Parquet { path: path.clone(), source };
        let file = writer.into_inner().map_err(parquet)?;
        file.sync_all().in_file("write", &temporary)?;
        Ok(durable::publish_file(&temporary, &path)?)
    }
}

/// A table of tab-separated values that has its name only when it is complete.
#[derive(Debug)]
pub struct TsvWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
}

impl TsvWriter {
    /// Starts with a line of column names.
    pub fn create(path: &Path, columns: &[String]) -> Result<Self, EvalError> {
        let temporary = durable::temporary_name(path);
        let file = File::create(&temporary).in_file("create", &temporary)?;
        let mut writer = Self { path: path.to_path_buf(), temporary, file: BufWriter::new(file) };
        let clean: Vec<String> = columns.iter().map(|c| c.replace(['\t', '\n', '\r'], " ")).collect();
        writer.line(&clean.join("\t"))?;
        Ok(writer)
    }

    /// Adds a line.
    pub fn line(&mut self, text: &str) -> Result<(), EvalError> {
        Ok(writeln!(self.file, "{text}").in_file("write", &self.temporary)?)
    }

    /// Completes the table and gives it its name.
    pub fn finish(mut self) -> Result<(), EvalError> {
        self.file.flush().in_file("write", &self.temporary)?;
        self.file.get_ref().sync_all().in_file("write", &self.temporary)?;
        Ok(durable::publish_file(&self.temporary, &self.path)?)
    }
}

/// Where a scan's tables go, and how their names begin: `sub-X/[ses-Y/]func/sub-X_[ses-Y_][task-Z_][run-N_]`.
pub fn bids_stem(id: &ScanId) -> (PathBuf, String) {
    let subject = bids_label("sub-", &id.subject);
    let mut folder = PathBuf::from(format!("sub-{subject}"));
    let mut stem = format!("sub-{subject}");
    if let Some(session) = &id.session {
        let session = bids_label("ses-", session);
        folder.push(format!("ses-{session}"));
        stem.push_str(&format!("_ses-{session}"));
    }
    stem.push_str(&format!(
        "_task-{}",
        id.task.as_deref().map_or_else(|| "rest".to_owned(), |task| bids_label("task-", task))
    ));
    if let Some(run) = &id.run {
        stem.push_str(&format!("_run-{}", bids_label("run-", run)));
    }
    folder.push("func");
    (folder, stem)
}

/// Labels have letters and digits only; one that had more than its key before it is told apart by a piece of its hash.
fn bids_label(key: &str, label: &str) -> String {
    let label = label.strip_prefix(key).unwrap_or(label);
    let plain: String = label.chars().filter(char::is_ascii_alphanumeric).collect();
    if plain == label {
        return plain;
    }
    format!("{plain}x{}", &blake3::hash(label.as_bytes()).to_hex()[..6])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_follow_bids_and_cannot_leave_the_folder() {
        let id = ScanId { subject: "sub-01".into(), session: Some("ses-a".into()), task: None, run: Some("2".into()) };
        let (folder, stem) = bids_stem(&id);
        assert_eq!((folder.to_str().unwrap(), stem.as_str()), ("sub-01/ses-a/func", "sub-01_ses-a_task-rest_run-2"));
        let (hostile, _) = bids_stem(&ScanId::of_subject("../../etc/passwd"));
        assert!(hostile.starts_with("sub-etcpasswdx") || hostile.to_str().unwrap().starts_with("sub-etcpasswdx"));
        assert_eq!(hostile.components().count(), 2);
        assert_ne!(bids_stem(&ScanId::of_subject("a_b")), bids_stem(&ScanId::of_subject("a-b")));
    }
}
