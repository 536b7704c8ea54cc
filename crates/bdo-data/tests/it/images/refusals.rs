//! Every defect is named; nothing absurd costs time or memory.

use std::path::Path;
use std::time::Duration;

use bdo_data::atlas::image::AtlasImage;
use bdo_data::nifti::NiftiReader;
use bdo_data::parcellate::{LabelsMasker, MaskerOptions};

use super::builder::{Builder, gzip};
use super::{golden, within};

fn read_all(path: &Path) -> Result<(), String> {
    let tail = |e: bdo_data::problem::ReadError| format!("a.nii{}", e.to_string().split_once("/a.nii").unwrap().1);
    let mut reader = NiftiReader::open(path).map_err(tail)?;
    let mut volume = vec![0.0; reader.header.voxels()];
    while reader.next_volume(&mut volume).map_err(tail)? {}
    reader.finish().map(drop).map_err(tail)
}

fn verdict(bytes: &[u8]) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.nii");
    std::fs::write(&path, bytes).unwrap();
    within(Duration::from_secs(1), || read_all(&path))
}

fn refusal(change: impl FnOnce(&mut Builder)) -> String {
    let mut builder = Builder::new([4, 3, 2, 3]);
    change(&mut builder);
    verdict(&builder.bytes()).unwrap_err()
}

#[test]
fn sound_images_are_read_in_both_orders_and_versions() {
    for (two, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let builder = Builder { two, big, ..Builder::new([4, 3, 2, 3]) };
        verdict(&builder.bytes()).unwrap();
        verdict(&gzip(&builder.bytes())).unwrap();
        verdict(&[gzip(&builder.bytes()), vec![0; 100]].concat()).unwrap();
    }
}

#[test]
fn each_defect_is_named() {
    assert_eq!(
        refusal(|b| b.data.truncate(142)),
        "a.nii: size of the file: expected 496 bytes, as in the header, found 494"
    );
    assert_eq!(refusal(|b| b.datatype = 32), "a.nii: datatype: expected real numbers, found complex numbers (code 32)");
    assert_eq!(refusal(|b| b.datatype = 128), "a.nii: datatype: expected real numbers, found colours (code 128)");
    assert_eq!(refusal(|b| b.datatype = 3), "a.nii: datatype: expected a NIfTI code, found 3");
    assert_eq!(refusal(|b| b.bitpix = 8), "a.nii: bitpix: expected 16 for I16, found 8");
    assert_eq!(refusal(|b| b.vox_offset = 348.0), "a.nii: vox_offset: expected at least 352, found 348");
    assert_eq!(refusal(|b| b.vox_offset = 352.5), "a.nii: vox_offset: expected a whole number, found 352.5");
    assert_eq!(refusal(|b| b.vox_offset = f64::NAN), "a.nii: vox_offset: expected a whole number, found NaN");
    assert_eq!(refusal(|b| b.dims[1] = 0), "a.nii: dimensions: expected sizes of 1 to 2147483647, found 0");
    assert_eq!(refusal(|b| b.dims[1] = -3), "a.nii: dimensions: expected sizes of 1 to 2147483647, found -3");
    assert_eq!(
        refusal(|b| b.intercept = f64::INFINITY),
        "a.nii: scl_inter: expected a finite number, because scl_slope is 1, found inf"
    );
    assert_eq!(
        refusal(|b| b.extension = [12, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec()),
        "a.nii: extension: expected a size of a multiple of 16 bytes, found 12"
    );
    assert_eq!(
        refusal(|b| b.extension = [32, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec()),
        "a.nii: extension: expected at most 16 bytes, which is where the data starts, found 32"
    );
    assert_eq!(
        refusal(|b| b.dims = vec![4, 3, 2, 1, 3]),
        "a.nii: dimensions: expected three of space and one of time, found sizes [4, 3, 2, 1, 3]"
    );
    assert_eq!(verdict(b"").unwrap_err(), "a.nii: header: expected 12 bytes, found 0 at the end");
    let mut pair = Builder::new([4, 3, 2, 3]).bytes();
    pair[344..348].copy_from_slice(b"ni1\0");
    assert_eq!(
        verdict(&pair).unwrap_err(),
        "a.nii: layout: expected one .nii file, found the header of an .hdr/.img pair: convert it to .nii.gz"
    );
}

#[test]
fn absurd_headers_are_refused_before_anything_is_allocated() {
    let huge = |two: bool, dims: Vec<i64>| refusal(|b| (b.two, b.dims) = (two, dims));
    let message = huge(false, vec![32767, 32767, 32767, 32767]);
    assert!(message.starts_with("a.nii: size: expected at most 1099511627776 bytes"), "{message}");
    let message = huge(true, vec![i64::MAX, 2, 2]);
    assert!(message.contains("sizes of 1 to 2147483647"), "{message}");
    let message = huge(true, vec![2_000_000_000; 7]);
    assert!(message.contains("a size that can be counted"), "{message}");
}

#[test]
fn gzip_bombs_are_refused_within_a_second() {
    // A header that claims 2 GiB over a small file.
    let claim = Builder { two: true, dims: vec![1024, 1024, 1024], ..Builder::new([4, 3, 2, 3]) };
    let message = verdict(&gzip(&claim.bytes())).unwrap_err();
    assert!(message.contains("compression: expected at most 200 bytes a compressed byte"), "{message}");
    // A modest header with much behind it.
    let mut bytes = Builder::new([4, 3, 2, 3]).bytes();
    bytes.resize(200 << 20, 0);
    let message = verdict(&gzip(&bytes)).unwrap_err();
    assert!(message.contains("at most 16777216 bytes after the data"), "{message}");
    // A header that puts the data far behind.
    let far = Builder { two: true, vox_offset: 1e12, ..Builder::new([4, 3, 2, 3]) };
    assert!(verdict(&gzip(&far.bytes())).is_err());
}

#[test]
fn an_image_without_an_affine_needs_a_word() {
    let atlas = AtlasImage::read(&golden("atlas_same.nii.gz"), None).unwrap();
    let open = || NiftiReader::open(&golden("no_affine.nii")).unwrap();
    let message = LabelsMasker::new(&atlas, &open(), None, &MaskerOptions::default()).unwrap_err().to_string();
    let expected = "affine: expected an sform or qform in the header, or --assume-affine, found neither";
    assert!(message.ends_with(expected), "{message}");
    let options = MaskerOptions { assume_affine: true, ..MaskerOptions::default() };
    LabelsMasker::new(&atlas, &open(), None, &options).unwrap();
}

#[test]
fn a_mask_that_misses_the_atlas_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mask.nii");
    let mut builder = Builder::new([12, 14, 10, 1]);
    builder.sform = [[3.0, 0.0, 0.0, -17.0], [0.0, 3.0, 0.0, -20.0], [0.0, 0.0, 3.0, -12.0]];
    let half = |i: usize| i16::from(i % 12 < 6);
    builder.data = (0..12 * 14 * 10).flat_map(|i| half(i).to_le_bytes()).collect();
    std::fs::write(&path, builder.bytes()).unwrap();
    let mask = NiftiReader::read_single(&path).unwrap();
    let atlas = AtlasImage::read(&golden("atlas_same.nii.gz"), None).unwrap();
    let bold = NiftiReader::open(&golden("bold_i2.nii.gz")).unwrap();
    let masker = LabelsMasker::new(&atlas, &bold, Some(&mask), &MaskerOptions::default());
    let message = masker.unwrap_err().to_string();
    assert!(message.starts_with("overlap: expected at least 80 % of the atlas inside the mask, found "), "{message}");
}

#[test]
fn a_mirrored_atlas_is_told_by_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("two_dseg.nii");
    let mut builder = Builder::new([10, 2, 2, 1]);
    builder.sform = [[2.0, 0.0, 0.0, -9.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]];
    builder.data = (0..40_i16).flat_map(|i| if i % 10 < 5 { 1_i16 } else { 2 }.to_le_bytes()).collect();
    std::fs::write(dir.path().join("two_dseg.tsv"), "index\tname\n1\tLH_a\n2\tRH_a\n").unwrap();
    std::fs::write(&path, builder.bytes()).unwrap();
    let atlas = AtlasImage::read(&path, None).unwrap();
    assert_eq!(atlas.map.regions[0].hemisphere.as_deref(), Some("L"));
    builder.sform[0] = [-2.0, 0.0, 0.0, 9.0];
    std::fs::write(&path, builder.bytes()).unwrap();
    let message = AtlasImage::read(&path, None).unwrap_err().to_string();
    assert!(
        message.ends_with(
            "region \"LH_a\": expected its centre on the left as its name says, found x = 5.0 mm, on the right (2 of 2 sided regions: the image is mirrored)"
        ),
        "{message}"
    );
}
