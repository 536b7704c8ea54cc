//! CIFTI series of any length, made of the golden one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fixture::noise;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden/image").join(name)
}

/// Labels of the golden's grayordinates: five parcels.
pub(crate) fn copy_atlas(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(golden("atlas.dlabel.nii"), path).unwrap();
}

/// A dense series of the golden's 31 grayordinates, 0.72 s apart; from 10 to 99 frames.
pub(crate) fn series(path: &Path, frames: usize, seed: &[usize]) {
    let mut bytes = fs::read(golden("dense.dtseries.nii")).unwrap();
    let at = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|w| w == what).unwrap();
    let data = u64::from_le_bytes(bytes[168..176].try_into().unwrap()) as usize;
    bytes.truncate(data);
    // The extension is padded with zeros: one more digit takes the place of one of them.
    let count = at(&bytes, b"NumberOfSeriesPoints=\"7\"") + 22;
    bytes.splice(count..=count, format!("{frames}").bytes());
    assert_eq!(bytes.pop(), Some(0), "the extension ends in padding");
    bytes[56..64].copy_from_slice(&(frames as u64).to_le_bytes());
    for t in 0..frames {
        for g in 0..31 {
            let value = 10_000.0 + 100.0 * noise(&[seed, &[t, g]].concat());
            bytes.extend(value.to_le_bytes());
        }
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}
