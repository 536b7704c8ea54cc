//! Any bytes as a table of series, by turns as text, .npz and .mat; the first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let ending = [".tsv", ".csv", ".1D", ".npz", ".mat"][usize::from(*first) % 5];
    let Ok(file) = tempfile::Builder::new().suffix(ending).tempfile() else { return };
    if std::fs::write(file.path(), rest).is_ok() {
        let _ = bdo_data::ingest::read_series(file.path());
    }
});
