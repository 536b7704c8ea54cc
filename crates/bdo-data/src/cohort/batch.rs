//! A scan as one Arrow record batch of one row.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, Float64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::scan::{Scan, ScanId, Source};

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

pub(super) fn encode(scan: &Scan, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
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
