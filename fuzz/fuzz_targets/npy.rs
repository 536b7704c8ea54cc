//! Any bytes as a .npy array.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = tempfile::Builder::new().suffix(".npy").tempfile() else { return };
    if std::fs::write(file.path(), bytes).is_ok() {
        let _ = bdo_data::ingest::read_series(file.path());
    }
});
