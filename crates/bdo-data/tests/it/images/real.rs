//! Real images, where their folder is present: it is named by `BDO_SHARED_DATA` or lies beside the workspace.

use std::path::{Path, PathBuf};

use bdo_data::atlas::image::AtlasImage;
use bdo_data::atlas::schaefer400_tian3;
use bdo_data::cifti::{CiftiLabels, read_series};
use bdo_data::nifti::NiftiReader;
use bdo_data::parcellate::{LabelsMasker, MaskerOptions};

const ATLAS: &str = "atlas/Schaefer2018_400Parcels_7Networks_order_Tian_Subcortex_S3";

/// The folder, or a loud word and nothing.
fn shared_data(test: &str) -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("BDO_SHARED_DATA").map_or(beside, PathBuf::from);
    if folder.join("nifti").is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: {test}: real data not found in {} (set BDO_SHARED_DATA)", folder.display());
    None
}

#[test]
fn the_450_regions_are_450_named_columns_in_both_spaces() {
    let Some(data) = shared_data("the 450-region atlas") else { return };
    let names: Vec<&str> = schaefer400_tian3().iter().map(|r| r.name.as_str()).collect();
    for (space, file) in
        [("MNI152NLin6Asym", "_MNI152NLin6Asym_2mm"), ("MNI152NLin2009cAsym", "_3T_MNI152NLin2009cAsym_2mm")]
    {
        let atlas = AtlasImage::read(&data.join(format!("{ATLAS}{file}.nii.gz")), None).unwrap();
        assert_eq!(atlas.map.regions.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), names, "{space}");
        assert_eq!(atlas.map.ids, (1..=450).collect::<Vec<u32>>());
        assert_eq!(atlas.space.as_deref(), Some(space));
        assert!(atlas.map.points.iter().all(|n| *n > 0), "{space}");
    }
    let labels = CiftiLabels::read(&data.join(format!("{ATLAS}.dlabel.nii"))).unwrap();
    assert_eq!(labels.map.regions.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), names);
}

#[test]
fn a_parcellated_series_has_its_names_and_repetition_time() {
    let Some(data) = shared_data("a parcellated CIFTI series") else { return };
    let path = data.join("cifti/sub-RAPIDTIDETEST_cifti.ptseries.nii");
    let (regions, series) = read_series(&path, None, &MaskerOptions::default()).unwrap();
    assert_eq!((series.frames, series.regions), (1200, 419));
    assert_eq!(series.tr_seconds, Some(0.72));
    assert!(regions.iter().any(|r| r.name == "17Networks_LH_VisCent_ExStr_1"));
}

/// The fast path against a plain one on every real image, with blocks of its own grid as regions.
#[test]
fn the_streamed_means_equal_those_of_whole_volumes() {
    let Some(data) = shared_data("means on real images") else { return };
    for name in
        ["filtered_func_data.nii.gz", "functional.nii", "example4d.nii.gz", "example_nifti2.nii.gz", "anatomical.nii"]
    {
        let path = data.join("nifti").join(name);
        let mut plain = NiftiReader::open(&path).unwrap();
        let atlas = blocks(&plain, &path);
        // Blocks in the corners hold no brain.
        let options = MaskerOptions { assume_affine: true, least_coverage: 0.0, ..MaskerOptions::default() };
        let reader = NiftiReader::open(&path).unwrap();
        let series = LabelsMasker::new(&atlas, &reader, None, &options).unwrap().extract(reader).unwrap();
        let mut volume = vec![0.0; plain.header.voxels()];
        let mut frame = 0;
        while plain.next_volume(&mut volume).unwrap() {
            let mut sums = vec![(0.0_f64, 0.0_f64); atlas.map.ids.len()];
            for (x, column) in volume.iter().zip(&atlas.map.columns).filter(|(_, c)| **c > 0) {
                let sum = &mut sums[usize::from(*column) - 1];
                *sum = (sum.0 + f64::from(*x), sum.1 + 1.0);
            }
            for (region, (sum, count)) in sums.iter().enumerate() {
                let (found, expected) = (f64::from(series.series[frame * series.regions + region]), sum / count);
                assert!((found - expected).abs() <= 1e-6 * (1.0 + expected.abs()), "{name}: {found} {expected}");
            }
            frame += 1;
        }
        assert_eq!(frame, series.frames, "{name}");
    }
}

fn blocks(image: &NiftiReader, path: &Path) -> AtlasImage {
    let [nx, ny, nz] = image.header.shape();
    let label = |i: usize| {
        let (x, y, z) = (i % nx, i / nx % ny, i / nx / ny);
        (x * 3 / nx + 3 * (y * 3 / ny) + 9 * (z * 2 / nz)) as u16
    };
    let columns: Vec<u16> = (0..nx * ny * nz).map(label).collect();
    let regions = usize::from(columns.iter().copied().max().unwrap());
    let voxels = (1..=regions).map(|r| columns.iter().filter(|c| usize::from(**c) == r).count() as u32).collect();
    let map = bdo_data::atlas::image::RegionMap {
        path: path.to_path_buf(),
        blake3: String::new(),
        regions: (1..=regions).map(|r| bdo_data::region::Region::named(format!("block-{r}"))).collect(),
        ids: (1..=regions as u32).collect(),
        columns,
        points: voxels,
        warnings: vec![],
    };
    AtlasImage { map, space: None, grid: image.grid, affine_source: image.affine_source }
}

/// Everything against nibabel and nilearn themselves, where a Python that has them is named by `BDO_PYTHON`.
#[test]
fn nibabel_and_nilearn_agree() {
    let Some(python) = std::env::var_os("BDO_PYTHON") else {
        eprintln!("SKIPPED: comparison with nibabel and nilearn: set BDO_PYTHON to a Python that has them");
        return;
    };
    let Some(data) = shared_data("comparison with nibabel and nilearn") else { return };
    let probe = std::env::current_exe().unwrap().parent().unwrap().join("../examples/image_probe");
    assert!(probe.exists(), "build it first: cargo build -p bdo-data --example image_probe");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/reference/compare_images.py");
    let count = super::torture_count(2000).to_string();
    let status = std::process::Command::new(python).arg(script).arg(probe).arg(data).arg(count).status().unwrap();
    assert!(status.success());
}
