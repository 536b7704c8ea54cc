//! CIFTI files as nibabel reads them.

use bdo_data::cifti::{CiftiLabels, read_series};
use bdo_data::parcellate::MaskerOptions;

use super::{floats, golden, golden_json};

#[test]
fn dense_and_parcellated_series() {
    let record = golden_json("cifti.json");
    let means = floats(&record["means"]);
    let names: Vec<&str> = record["names"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    let labels = CiftiLabels::read(&golden("atlas.dlabel.nii")).unwrap();
    let options = MaskerOptions::default();
    for (file, atlas) in [("parcels.ptseries.nii", None), ("dense.dtseries.nii", Some(&labels))] {
        let (regions, series) = read_series(&golden(file), atlas, &options).unwrap();
        assert_eq!(regions.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), names, "{file}");
        assert_eq!(series.frames, 7);
        assert_eq!(series.tr_seconds, record["tr_seconds"].as_f64());
        for (found, expected) in series.series.iter().zip(&means) {
            assert!((f64::from(*found) - expected).abs() <= 1e-6 * expected.abs(), "{file}: {found} {expected}");
        }
    }
}

#[test]
fn points_are_matched_by_place_and_missing_structures_are_missing_regions() {
    let means = floats(&golden_json("cifti.json")["means"]);
    let labels = CiftiLabels::read(&golden("atlas.dlabel.nii")).unwrap();
    let path = golden("reordered.dtseries.nii");
    let (_, series) = read_series(&path, Some(&labels), &MaskerOptions::default()).unwrap();
    assert_eq!(series.coverage.unwrap(), [1.0, 1.0, 0.0, 0.0, 1.0]);
    for (i, (found, expected)) in series.series.iter().zip(&means).enumerate() {
        match i % 5 {
            2 | 3 => assert!(found.is_nan()),
            _ => assert!((f64::from(*found) - expected).abs() <= 1e-6 * expected.abs(), "{found} {expected}"),
        }
    }
    assert_eq!(series.warnings, ["2 of 5 regions are missing: RH_a, RH_b"]);
}

#[test]
fn files_of_another_kind_are_refused() {
    let message = |name: &str| {
        let error = read_series(&golden(name), None, &MaskerOptions::default()).unwrap_err();
        error.to_string().rsplit_once('/').unwrap().1.to_owned()
    };
    assert_eq!(
        message("dense.dtseries.nii"),
        "dense.dtseries.nii: axes: expected parcels (.ptseries.nii), or a .dlabel.nii atlas to make them, found a series and brain models"
    );
    assert_eq!(
        message("atlas.dlabel.nii"),
        "atlas.dlabel.nii: axes: expected a series and brain models or parcels, found labels and brain models"
    );
    assert_eq!(message("extension.nii"), "extension.nii: extension: expected the XML of CIFTI-2, found none");
}
