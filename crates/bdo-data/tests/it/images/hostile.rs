//! Thousands of malformed files: each is read or refused, quickly and in little memory, and none brings the process down.

use std::time::Duration;

use bdo_data::atlas::image::AtlasImage;
use bdo_data::nifti::NiftiReader;
use bdo_data::parcellate::{LabelsMasker, MaskerOptions};

use super::builder::{Builder, Dice, gzip};
use super::mutation::variant;
use super::{golden, torture_count, within};

/// Opens, decodes and parcellates whatever the file is; true if it was read to its end.
fn attempt(path: &std::path::Path, atlas: &AtlasImage) -> bool {
    let Ok(mut reader) = NiftiReader::open(path) else { return false };
    let mut volume = vec![0.0; reader.header.voxels()];
    let read = loop {
        match reader.next_volume(&mut volume) {
            Ok(true) => {}
            Ok(false) => break reader.finish().is_ok(),
            Err(_) => break false,
        }
    };
    let options = MaskerOptions { assume_affine: true, ..MaskerOptions::default() };
    let reader = NiftiReader::open(path).unwrap();
    if let Ok(masker) = LabelsMasker::new(atlas, &reader, None, &options) {
        let extracted = masker.extract(reader).is_ok();
        assert_eq!(extracted, read, "the two ways of reading disagree about {}", path.display());
    }
    read
}

fn peak_rss_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?.to_owned();
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

#[test]
fn malformed_images_are_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = AtlasImage::read(&golden("atlas_same.nii.gz"), None).unwrap();
    let (count, mut accepted) = (torture_count(2500), 0);
    for number in 0..count {
        let path = dir.path().join(format!("{number}.nii"));
        std::fs::write(&path, variant(number as u64)).unwrap();
        accepted += usize::from(within(Duration::from_secs(2), || attempt(&path, &atlas)));
        std::fs::remove_file(&path).unwrap();
    }
    println!("COUNTED: {accepted} of {count} malformed images were harmless and read");
    assert!(accepted < count / 2, "{accepted} of {count} accepted: the corpus is too tame");
    assert!(accepted > 0, "nothing accepted: the corpus never gets past the header");
    if let Some(peak) = peak_rss_mib() {
        assert!(peak < 512, "{peak} MiB");
    }
}

#[test]
fn no_flipped_bit_passes() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = Builder::new([8, 8, 6, 10]);
    let mut dice = Dice(3);
    builder.data = (0..8 * 8 * 6 * 10).flat_map(|_| (dice.below(1000) as i16).to_le_bytes()).collect();
    let packed = gzip(&builder.bytes());
    let atlas = AtlasImage::read(&golden("atlas_same.nii.gz"), None).unwrap();
    let path = dir.path().join("flipped.nii.gz");
    std::fs::write(&path, &packed).unwrap();
    assert!(attempt(&path, &atlas), "the sound file is read");
    for number in 0..torture_count(200) {
        // The time stamp (bytes 4 to 7) and the bits that pad the stream to a whole byte mean nothing and have no checksum.
        let at = loop {
            let at = dice.below(packed.len());
            if !(4..8).contains(&at) && at != packed.len() - 9 && at != 9 {
                break at;
            }
        };
        let mut flipped = packed.clone();
        flipped[at] ^= 1 << dice.below(8);
        std::fs::write(&path, &flipped).unwrap();
        assert!(!attempt(&path, &atlas), "flip {number} at byte {at} of {} passed", packed.len());
    }
}
