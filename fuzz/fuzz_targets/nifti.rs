//! Any bytes as an image: read to the end or refused, never a crash.
#![no_main]

use bdo_data::nifti::{Limits, NiftiReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = tempfile::NamedTempFile::new() else { return };
    if std::fs::write(file.path(), bytes).is_err() {
        return;
    }
    let limits = Limits { scan_bytes: 64 << 20, volume_bytes: 16 << 20, ..Limits::default() };
    let Ok(mut reader) = NiftiReader::open(file.path(), &limits) else { return };
    let mut volume = vec![0.0; reader.header().voxels()];
    while matches!(reader.next_volume(&mut volume), Ok(true)) {}
    let _ = reader.finish();
});
