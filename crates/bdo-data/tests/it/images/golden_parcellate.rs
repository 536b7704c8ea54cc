//! Region means as nilearn takes them.

use std::collections::HashMap;

use bdo_data::atlas::image::AtlasImage;
use bdo_data::nifti::{NiftiReader, resample_nearest};
use bdo_data::parcellate::{LabelsMasker, MaskerOptions, RoiSeries};

use super::{floats, golden, golden_json};

/// Every region is wanted, however little of it there is: nilearn keeps one voxel.
fn lenient() -> MaskerOptions {
    MaskerOptions { least_coverage: 0.0, least_mask_overlap: 0.0, ..MaskerOptions::default() }
}

fn extract(atlas: &AtlasImage, bold: &str, mask: Option<&str>, options: &MaskerOptions) -> RoiSeries {
    let reader = NiftiReader::open(&golden(bold)).unwrap();
    let mask = mask.map(|m| NiftiReader::read_single(&golden(m)).unwrap());
    LabelsMasker::new(atlas, &reader, mask.as_ref(), options).unwrap().extract(reader).unwrap()
}

#[test]
fn region_means_equal_nilearn() {
    let records = golden_json("parcellate.json");
    for record in records.as_array().unwrap() {
        let text = |key: &str| record[key].as_str();
        let case = format!("{:?} {:?} {:?}", text("atlas"), text("bold"), text("mask"));
        let atlas = AtlasImage::read(&golden(text("atlas").unwrap()), None).unwrap();
        let series = extract(&atlas, text("bold").unwrap(), text("mask"), &lenient());
        let ids: Vec<u32> = record["ids"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect();
        let signals = floats(&record["signals"]);
        let column: HashMap<u32, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        assert_eq!(series.regions, atlas.map.ids.len());
        for (region, id) in atlas.map.ids.iter().enumerate() {
            for frame in 0..series.frames {
                let found = f64::from(series.series[frame * series.regions + region]);
                let Some(column) = column.get(id) else {
                    assert!(found.is_nan(), "{case}: nilearn drops label {id}, here it is {found}");
                    continue;
                };
                let expected = signals[frame * ids.len() + column];
                assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{case} {id}: {found} {expected}");
            }
        }
    }
}

#[test]
fn nearest_neighbours_are_those_of_nilearn() {
    let records = golden_json("parcellate.json");
    for record in records.as_array().unwrap() {
        let atlas = golden(record["atlas"].as_str().unwrap());
        let atlas = NiftiReader::read_single(&atlas).unwrap();
        let bold = NiftiReader::open(&golden(record["bold"].as_str().unwrap())).unwrap();
        let found = resample_nearest(&atlas.values, &atlas.grid, &bold.grid).unwrap();
        let expected = floats(&record["labels"]);
        let different = found.iter().zip(&expected).filter(|(a, b)| f64::from(**a) != **b).count();
        assert_eq!(different, 0, "{}", record["atlas"]);
    }
}

#[test]
fn a_region_with_little_coverage_is_missing_but_keeps_its_column() {
    let atlas = AtlasImage::read(&golden("atlas_same.nii.gz"), None).unwrap();
    let options = MaskerOptions { least_mask_overlap: 0.1, ..MaskerOptions::default() };
    let all = extract(&atlas, "bold_i2.nii.gz", None, &options);
    assert_eq!(all.coverage.unwrap(), vec![1.0; atlas.map.ids.len()]);
    let cut =
        extract(&atlas, "bold_i2.nii.gz", Some("mask.nii.gz"), &MaskerOptions { least_coverage: 0.95, ..options });
    let coverage = cut.coverage.unwrap();
    let missing: Vec<usize> = (0..cut.regions).filter(|r| cut.series[*r].is_nan()).collect();
    assert!(!missing.is_empty() && missing.len() < cut.regions, "{coverage:?}");
    for (region, coverage) in coverage.iter().enumerate() {
        assert_eq!(missing.contains(&region), *coverage < 0.95, "{region}");
    }
    assert!(
        cut.warnings.iter().any(|w| w.contains("regions have less than 95 % of their voxels")),
        "{:?}",
        cut.warnings
    );
}

#[test]
fn voxels_that_are_no_numbers_are_counted_and_named() {
    let atlas = AtlasImage::read(&golden("atlas_same.nii.gz"), None).unwrap();
    let series = extract(&atlas, "bold_holes.nii", None, &lenient());
    // Six voxels are NaN in all five frames and one infinite in one; all but those of the background count.
    assert!(series.non_finite > 0 && series.non_finite <= 31, "{}", series.non_finite);
    assert!(series.warnings.iter().any(|w| w.contains("NaN or infinite count as zero")), "{:?}", series.warnings);
}
