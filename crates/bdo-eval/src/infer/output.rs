//! Answers as files: one Parquet table for programs, and BIDS-like tables a scan for people and pipelines.

use crate::error::EvalError;
use crate::export::{list_array, list_field, open_parquet, scan_columns, scan_fields, scan_rows};
use crate::features::ScanRow;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bdo_data::durable::{self, InFile};
use bdo_data::scan::ScanId;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::errors::ParquetError;
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
    pending: Pending,
}

/// Rows of one batch of a table.
const BATCH: usize = 1024;

/// Rows that do not fill a batch yet.
#[derive(Debug, Default)]
struct Pending {
    rows: Vec<ScanRow>,
    times_seconds: Vec<f64>,
    kinds: Vec<String>,
    lists: Vec<Vec<f32>>,
}

impl Pending {
    /// Takes the first rows out, as columns.
    fn first_batch(&mut self, widths: &[usize]) -> Result<Vec<ArrayRef>, ParquetError> {
        let rows = self.rows.len().min(BATCH);
        let mut columns = scan_columns(&self.rows.drain(..rows).collect::<Vec<ScanRow>>());
        columns.push(Arc::new(Float64Array::from_iter_values(self.times_seconds.drain(..rows))));
        columns.push(Arc::new(StringArray::from_iter_values(self.kinds.drain(..rows))));
        for (values, width) in self.lists.iter_mut().zip(widths) {
            columns.push(list_array(*width, values.drain(..rows * width))?);
        }
        Ok(columns)
    }

    /// The rows of a batch that was read; none if its columns are others.
    fn take_in(&mut self, batch: &RecordBatch, schema: &Schema) -> Option<()> {
        self.rows.extend(scan_rows(batch)?);
        let kinds = batch.column_by_name("kind")?.as_string_opt::<i32>()?;
        self.kinds.extend(kinds.iter().map(|word| word.unwrap_or_default().to_owned()));
        let times = batch.column_by_name("time_seconds")?.as_primitive_opt::<Float64Type>()?;
        self.times_seconds.extend_from_slice(times.values());
        for (list, field) in self.lists.iter_mut().zip(schema.fields().iter().skip(5)) {
            let found = batch.column_by_name(field.name()).filter(|column| column.data_type() == field.data_type())?;
            list.extend_from_slice(
                found.as_fixed_size_list_opt()?.values().as_primitive_opt::<Float32Type>()?.values(),
            );
        }
        Some(())
    }
}

/// Joins tables of the same columns and facts, in their order: the bytes are those of a table that was written at once.
pub fn join_tables(parts: &[PathBuf], out: &Path) -> Result<(), EvalError> {
    let mut whole: Option<(TableWriter, Vec<KeyValue>)> = None;
    for path in parts {
        let (builder, facts) = open_parquet(path)?;
        let begun = match whole.take() {
            Some(begun) => begun,
            None => (TableWriter::like(out, builder.schema(), &facts)?, facts.clone()),
        };
        let (writer, expected) = whole.insert(begun);
        if *expected != facts {
            return Err(EvalError::refused(path, "the model and cohort of the parts before it", "others"));
        }
        writer.add_table(builder.build().map_err(EvalError::parquet(path))?)?;
    }
    whole.map_or(Ok(()), |(writer, _)| writer.finish())
}

impl TableWriter {
    /// `lists` names the list columns and says how long their lists are.
    pub fn create(path: &Path, lists: &[(&str, usize)], facts: &[(&str, String)]) -> Result<Self, EvalError> {
        let mut fields = scan_fields();
        fields.push(Field::new("time_seconds", DataType::Float64, false));
        fields.push(Field::new("kind", DataType::Utf8, false));
        fields.extend(lists.iter().map(|(name, width)| list_field(name, *width)));
        let schema = Arc::new(Schema::new(fields));
        let metadata = facts.iter().map(|(key, value)| KeyValue::new(format!("bdo.{key}"), value.clone())).collect();
        let properties = WriterProperties::builder().set_key_value_metadata(Some(metadata)).build();
        let temporary = durable::temporary_name(path);
        let file = File::create(&temporary).in_file("create", &temporary)?;
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(EvalError::parquet(path))?;
        let widths = lists.iter().map(|(_, width)| *width).collect();
        let pending = Pending { lists: vec![Vec::new(); lists.len()], ..Pending::default() };
        Ok(Self { path: path.to_path_buf(), temporary, writer, schema, widths, pending })
    }

    /// Adds rows of a scan; they leave memory once a row group is full.
    pub fn add(&mut self, id: &ScanId, block: &Block) -> Result<(), EvalError> {
        let rows = block.times_seconds.len();
        let pending = &mut self.pending;
        let row = ScanRow { scan: id.to_string(), subject: id.subject.clone(), session: id.session.clone() };
        pending.rows.extend(std::iter::repeat_n(row, rows));
        pending.times_seconds.extend_from_slice(&block.times_seconds);
        pending.kinds.extend(block.kinds.iter().map(|kind| (*kind).to_owned()));
        for (list, values) in pending.lists.iter_mut().zip(&block.lists) {
            list.extend_from_slice(values);
        }
        self.write_batches(BATCH)
    }

    /// A table with the columns and facts of another.
    fn like(path: &Path, schema: &Schema, facts: &[KeyValue]) -> Result<Self, EvalError> {
        let list = |field: &Arc<Field>| match field.data_type() {
            DataType::FixedSizeList(_, width) => (field.name().clone(), *width as usize),
            _ => (field.name().clone(), 0),
        };
        let lists: Vec<(String, usize)> = schema.fields().iter().skip(5).map(list).collect();
        let lists: Vec<(&str, usize)> = lists.iter().map(|(name, width)| (name.as_str(), *width)).collect();
        let named: Vec<(&str, String)> = (facts.iter())
            .map(|pair| (pair.key.trim_start_matches("bdo."), pair.value.clone().unwrap_or_default()))
            .collect();
        Self::create(path, &lists, &named)
    }

    /// Adds the rows of a table with the same columns.
    fn add_table(&mut self, reader: ParquetRecordBatchReader) -> Result<(), EvalError> {
        for batch in reader {
            let batch = batch.map_err(|error| EvalError::refused(&self.path, "a table of rows", error))?;
            let taken = self.pending.take_in(&batch, &self.schema);
            taken.ok_or_else(|| EvalError::refused(&self.path, "parts with the same columns", batch.schema()))?;
            self.write_batches(BATCH)?;
        }
        Ok(())
    }

    /// Writes batches of a fixed number of rows while there are `least`: the bytes of a table then follow from its rows alone,
    /// not from the pieces they came in.
    fn write_batches(&mut self, least: usize) -> Result<(), EvalError> {
        let parquet = EvalError::parquet(&self.path);
        while self.pending.rows.len() >= least {
            let columns = self.pending.first_batch(&self.widths).map_err(&parquet)?;
            let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(|e| parquet(e.into()))?;
            self.writer.write(&batch).map_err(&parquet)?;
            // Lists of hundreds of numbers fill memory long before the default number of rows.
            if self.writer.in_progress_size() > 32 << 20 {
                self.writer.flush().map_err(&parquet)?;
            }
        }
        Ok(())
    }

    /// Completes the table and gives it its name.
    pub fn finish(mut self) -> Result<(), EvalError> {
        self.write_batches(1)?;
        let Self { path, temporary, writer, .. } = self;
        let file = writer.into_inner().map_err(EvalError::parquet(&path))?;
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
    let subject = bids_entity("sub-", &id.subject);
    let session = id.session.as_deref().map(|session| bids_entity("ses-", session));
    let task = bids_entity("task-", id.task.as_deref().unwrap_or("rest"));
    let run = id.run.as_deref().map(|run| bids_entity("run-", run));
    let folder = [Some(subject.as_str()), session.as_deref(), Some("func")].into_iter().flatten().collect();
    let stem: Vec<String> = [Some(subject), session, Some(task), run].into_iter().flatten().collect();
    (folder, stem.join("_"))
}

/// Labels have letters and digits only; one that had more than its key before it is told apart by a piece of its hash.
fn bids_entity(key: &str, label: &str) -> String {
    let label = label.strip_prefix(key).unwrap_or(label);
    let plain: String = label.chars().filter(char::is_ascii_alphanumeric).collect();
    if plain == label {
        return format!("{key}{plain}");
    }
    format!("{key}{plain}x{}", &blake3::hash(label.as_bytes()).to_hex()[..6])
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
