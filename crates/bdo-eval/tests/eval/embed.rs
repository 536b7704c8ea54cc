//! Features do not depend on batching, threads or the order of regions, and reach disk as they are.

use crate::fixture::{REGIONS, Silent, cohort, model, reordered_cohort, scan, shuffled};
use bdo_eval::export::TableFormat;
use bdo_eval::features::FeatureTable;
use bdo_model::control::{encode, encode_cohort};
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::{Intake, PaddedBatch, Windows};
use bdo_model::pooling::Pooling;
use bdo_model::readout::ensure_readout;
use burn::tensor::Device;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// What is in the files.
fn values(table: &FeatureTable) -> Vec<f32> {
    (0..table.rows.len()).flat_map(|row| table.feature(row)).collect()
}

#[test]
fn the_mean_is_the_feature_of_the_model_for_a_ragged_pair() {
    let dir = tempfile::tempdir().unwrap();
    let (_, frozen) = model(dir.path(), "m");
    let cohort = cohort(dir.path(), "c", 0..2);
    let table = FeatureTable::embed(&frozen, &cohort, Pooling::Mean, &Silent).unwrap();
    let intake = Intake::new(&frozen.contract, &cohort).unwrap();
    let scaled: Vec<_> = (0..2).map(|i| intake.scale(&cohort.scan(i).unwrap()).unwrap()).collect();
    assert_ne!(scaled[0].times_seconds.len(), scaled[1].times_seconds.len());
    let batch = PaddedBatch::of_scans(&scaled.iter().collect::<Vec<_>>());
    let (series, frames, region_valid) = batch.on(&Device::flex());
    let expected = frozen.model.controls(&series, &frames, &region_valid).unwrap().mean();
    let expected = expected.into_data().try_to_vec::<f32>().unwrap();
    assert_eq!(expected.len(), table.features.values().len());
    // Both are means of at most 19 numbers of order 1: 19 roundings of 6e-8.
    for (found, expected) in values(&table).iter().zip(&expected) {
        assert!((found - expected).abs() < 2e-6, "{found} {expected}");
    }
}

#[test]
fn features_do_not_depend_on_threads_or_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    let (_, frozen) = model(dir.path(), "m");
    let cohort = cohort(dir.path(), "c", 0..9);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| FeatureTable::embed(&frozen, &cohort, Pooling::MeanStd, &Silent).unwrap())
    };
    assert!(with(1) == with(3));
    let mut alone = vec![Vec::new(); 9];
    for i in 0..9 {
        encode_cohort(&frozen, &cohort, &[i], &Silent, |i, encoded| alone[i] = encoded.control.values).unwrap();
    }
    let all: Vec<usize> = (0..9).collect();
    encode_cohort(&frozen, &cohort, &all, &Silent, |i, encoded| {
        assert!(encoded.control.values == alone[i], "scan {i} differs in company");
    })
    .unwrap();
}

#[test]
fn the_order_of_regions_is_irrelevant_and_missing_ones_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (_, frozen) = model(dir.path(), "m");
    let plain = cohort(dir.path(), "c", 0..4);
    let mut order = shuffled(REGIONS, 1);
    order.insert(2, REGIONS);
    let mixed = reordered_cohort(dir.path(), "mixed", 0..4, &order);
    let embed = |cohort| FeatureTable::embed(&frozen, cohort, Pooling::Covariance, &Silent);
    assert_eq!(embed(&plain).unwrap().features, embed(&mixed).unwrap().features);
    let lacking = reordered_cohort(dir.path(), "lacking", 0..4, &[0, 1, 3, 5]);
    assert_eq!(embed(&lacking).unwrap_err().to_string(), "the data lack 2 of the model's 6 regions: r2, r4");
}

#[test]
fn pooling_by_regions_needs_a_readout_of_these_very_weights() {
    let dir = tempfile::tempdir().unwrap();
    let (path, frozen) = model(dir.path(), "m");
    let cohort = cohort(dir.path(), "c", 0..6);
    let refused = FeatureTable::embed(&frozen, &cohort, Pooling::Coupling, &Silent).unwrap_err().to_string();
    let expected = "expected a model with readout.json, which pooling coupling reads (`bdo pretrain --resume` on its run adds one)";
    assert!(refused.contains(expected), "{refused}");

    // Only p003 was trained on.
    let note = ensure_readout(&path, &Device::flex(), &cohort, &Silent).unwrap();
    assert_eq!(note.scans, 1);
    assert!(note.explained > 0.5 && note.explained < 1.0, "{}", note.explained);
    assert_eq!(ensure_readout(&path, &Device::flex(), &cohort, &Silent).unwrap(), note, "what is there is kept");
    let frozen = FrozenModel::read(&path).unwrap();
    let table = FeatureTable::embed(&frozen, &cohort, Pooling::Coupling, &Silent).unwrap();
    assert_eq!((table.rows.len(), table.features.width()), (6, REGIONS * REGIONS));
    assert!(table.features.values().iter().all(|r| r.abs() <= 1.0 + 1e-5));
    // What the control says of a region goes with that region.
    let own = |row: usize, r: usize| table.feature(row)[r * REGIONS + r];
    assert!((0..REGIONS).all(|r| own(3, r) > 0.5), "{:?}", table.feature(3));

    // Other people know nothing of it, and other weights have no use for it.
    let strangers = crate::fixture::cohort(dir.path(), "strangers", 10..12);
    let (other, _) = model(dir.path(), "other");
    let refused = ensure_readout(&other, &Device::flex(), &strangers, &Silent).unwrap_err().to_string();
    assert!(refused.ends_with("expected scans of people the model was trained on, found none of them"), "{refused}");
    for file in ["readout.json", "readout.safetensors"] {
        std::fs::copy(path.join(file), other.join(file)).unwrap();
    }
    assert!(FrozenModel::read(&other).unwrap().readout.is_some(), "the same weights");
    let mut weights = std::fs::read(other.join("model.safetensors")).unwrap();
    let last = weights.len() - 1;
    weights[last] ^= 1;
    std::fs::write(other.join("model.safetensors"), weights).unwrap();
    let refused = FrozenModel::read(&other).unwrap_err().to_string();
    assert!(refused.contains("changed since it was written"), "{refused}");

    let mut numbers = std::fs::read(path.join("readout.safetensors")).unwrap();
    let last = numbers.len() - 1;
    numbers[last] ^= 1;
    std::fs::write(path.join("readout.safetensors"), numbers).unwrap();
    let refused = FrozenModel::read(&path).unwrap_err().to_string();
    assert!(refused.contains("readout.safetensors: expected BLAKE3"), "{refused}");
}

#[test]
fn a_very_long_scan_is_encoded_in_windows() {
    let dir = tempfile::tempdir().unwrap();
    let (_, frozen) = model(dir.path(), "m");
    let names: Vec<String> = (0..REGIONS).map(|r| format!("r{r}")).collect();
    let long = scan(1, 2100);
    let cohort = bdo_data::cohort::Cohort::open(&{
        let plan = bdo_data::cohort::Plan {
            provenance: bdo_data::cohort::Provenance::of("test", serde_json::json!({})),
            atlas_name: "six".into(),
            regions: names.iter().map(bdo_data::region::Region::named).collect(),
            items: 1,
            part_bytes: 1 << 20,
        };
        let out = dir.path().join("long");
        let tables = |_: &_| bdo_data::cohort::Tables::default();
        bdo_data::cohort::build(&out, &plan, |_| Ok(long.clone()), tables, &Silent).unwrap();
        out
    })
    .unwrap();
    let scaled = Intake::new(&frozen.contract, &cohort).unwrap().scale(&long).unwrap();
    let mut found = Vec::new();
    encode_cohort(&frozen, &cohort, &[0], &Silent, |_, encoded| found = encoded.control.values).unwrap();
    let width = frozen.model.config().width;
    assert_eq!(found.len(), 2100 * width);
    let mut first = scaled.clone();
    first.times_seconds.truncate(Windows::WHOLE_SCANS.frames);
    first.values.truncate(Windows::WHOLE_SCANS.frames * REGIONS);
    let window = encode(&frozen.model, Windows::WHOLE_SCANS, &[&first]).unwrap();
    let kept = Windows::WHOLE_SCANS.frames * 3 / 4 * width;
    assert_eq!(found[..kept], window[0].values[..kept], "the first window gives its first three quarters");
    assert!(found.iter().all(|x| x.is_finite()));

    // A model trained on stretches of 160 frames sees the scan so: the last window starts at 2,000 (25 steps of 80), has a
    // clock of its own, and gives what lies past the middle of its overlap with the one before.
    let stretch = bdo_model::intake::MaskSettings { stretch: 1.0, ..bdo_model::intake::MaskSettings::default() };
    let trained = FrozenModel { windows: Windows::of_training(&stretch), ..frozen };
    let mut found = Vec::new();
    encode_cohort(&trained, &cohort, &[0], &Silent, |_, encoded| found = encoded.control.values).unwrap();
    assert_eq!(found.len(), 2100 * width);
    let start = (2100usize - 160).div_ceil(80) * 80;
    let last = bdo_data::scaler::ScaledScan {
        times_seconds: scaled.times_seconds[start..].iter().map(|t| t - scaled.times_seconds[start]).collect(),
        values: scaled.values[start * REGIONS..].to_vec(),
        region_valid: scaled.region_valid.clone(),
    };
    let window = encode(&trained.model, Windows::WHOLE_SCANS, &[&last]).unwrap();
    let from = start + 80 - 40;
    // In a batch with longer windows, so the last bits may differ.
    for (x, y) in found[from * width..].iter().zip(&window[0].values[(from - start) * width..]) {
        assert!((x - y).abs() < 1e-5, "{x} {y}");
    }
}

#[test]
fn tables_reach_disk_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (_, frozen) = model(dir.path(), "m");
    let cohort = cohort(dir.path(), "c", 0..3);
    let table = FeatureTable::embed(&frozen, &cohort, Pooling::Mean, &Silent).unwrap();
    for name in ["f.parquet", "f.tsv", "g.npy"] {
        table.write(&dir.path().join(name)).unwrap();
    }
    let text = std::fs::read_to_string(dir.path().join("f.tsv")).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines[0][..4], ["scan", "subject", "session", "f0"]);
    assert_eq!(lines[2][..3], ["p001", "p001", "n/a"]);
    let back: Vec<f32> = lines[1..].iter().flat_map(|line| line[3..].iter().map(|x| x.parse().unwrap())).collect();
    assert_eq!(back, values(&table));
    let bytes = std::fs::read(dir.path().join("g.npy")).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!(start % 64, 0);
    assert!(
        String::from_utf8_lossy(&bytes[10..start])
            .starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 16), }")
    );
    let back: Vec<f32> = bytes[start..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert_eq!(back, values(&table));
    let origin: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("g.json")).unwrap()).unwrap();
    assert_eq!(origin["model_blake3"], frozen.blake3.as_str());
    assert!(dir.path().join("g.ids.tsv").is_file());
    let file = std::fs::File::open(dir.path().join("f.parquet")).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let metadata = builder.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let hash = metadata.iter().find(|entry| entry.key == "bdo.model_blake3").unwrap();
    assert_eq!(hash.value.as_deref(), Some(frozen.blake3.as_str()));
    let batch = builder.build().unwrap().next().unwrap().unwrap();
    let names: Vec<String> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["scan", "subject", "session", "feature"]);
    let list = batch.column(3).as_any().downcast_ref::<arrow_array::FixedSizeListArray>().unwrap();
    let list = list.values().as_any().downcast_ref::<arrow_array::Float32Array>().unwrap();
    assert_eq!(list.values(), values(&table).as_slice());
    let refused = TableFormat::of(std::path::Path::new("x.csv")).unwrap_err().to_string();
    assert_eq!(refused, "x.csv: expected a name ending in .parquet, .tsv or .npy, found another ending");
}
