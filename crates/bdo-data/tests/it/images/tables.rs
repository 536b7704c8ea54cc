//! Series in .npz, .mat and .h5 files.

use bdo_data::ingest::read_series;

use super::golden;

#[test]
fn arrays_of_other_programs() {
    let plain = read_series(&golden("series.npy")).unwrap();
    assert_eq!((plain.frames, plain.columns), (6, 4));
    let names = ["series.npz", "series_deflated.npz", "series_v6.mat", "series_v7.mat"];
    for name in names.into_iter().chain(["series_v73.mat", "series.h5", "series_latest.h5"]) {
        let table = read_series(&golden(name)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((table.frames, table.columns, &table.values), (6, 4, &plain.values), "{name}");
    }
    let message = read_series(&golden("two_arrays.npz")).unwrap_err().to_string();
    assert!(message.ends_with("arrays: expected one of two dimensions, found a.npy and b.npy"), "{message}");
    let message = read_series(&golden("two_matrices.h5")).unwrap_err().to_string();
    assert!(message.ends_with("datasets: expected one matrix, found /a and /b"), "{message}");
}

#[test]
fn damaged_archives_are_refused_or_unharmed() {
    let sound = read_series(&golden("series.npy")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for name in ["series_deflated.npz", "series_v7.mat", "series.npz"] {
        let bytes = std::fs::read(golden(name)).unwrap();
        let path = dir.path().join(name);
        let mut dice = super::builder::Dice(11);
        for number in 0..super::torture_count(2000) {
            let mut damaged = bytes.clone();
            match number % 3 {
                0 => damaged.truncate(dice.below(bytes.len())),
                _ => damaged[dice.below(bytes.len())] ^= 1 << dice.below(8),
            }
            std::fs::write(&path, &damaged).unwrap();
            // The checksum of a zip entry and of a deflated variable covers the values; what passes must be the same.
            if let Ok(table) = read_series(&path) {
                assert_eq!(table.values, sound.values, "{name} {number}");
            }
        }
    }
}
