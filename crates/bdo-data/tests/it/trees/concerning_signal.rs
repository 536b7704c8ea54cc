//! Voxels, masks, regions and regressors: what is stored must be a signal.

use std::fs;

use bdo_data::bids::Selection;
use bdo_data::clean::Cleaning;
use bdo_data::confound::Preset;
use bdo_data::ingest::{Format, IngestOptions, Recipe};

use super::make::{Image, REGIONS, atlas, dlabel, dtseries, voxel, write};
use super::makers::{confounds, every, fmriprep};
use super::{ingest, of_fmriprep, only, refused, selecting};

fn images(folder: &std::path::Path) -> IngestOptions {
    IngestOptions {
        format: Some(Format::Nifti),
        atlas: Some(atlas(folder)),
        drop_volumes: Some(0),
        ..IngestOptions::default()
    }
}

#[test]
fn voxels_that_are_nan_are_not_covered_and_not_zero() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    // Plane 0 has a quarter of its voxels missing, plane 1 three quarters, plane 2 one voxel in one frame.
    let holes = |[x, y, z]: [usize; 3], t: usize| {
        let missing = match x {
            0 => y == 0,
            1 => y > 0,
            2 => (y, z, t) == (0, 0, 7),
            _ => false,
        };
        if missing { f32::NAN } else { voxel(1, [x, y, z], t) }
    };
    Image::of(30).write(&source.join("101.nii"), holes);
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &images(dir.path()));
    let scan = cohort.scan(0).unwrap();
    assert_eq!(scan.coverage.as_ref().unwrap()[..], [0.75, 0.25, 0.9375, 1.0]);
    let mean = |x: usize, t: usize, keep: &dyn Fn(usize, usize) -> bool| {
        let all = (0..16).map(|i| (i % 4, i / 4)).filter(|(y, z)| keep(*y, *z));
        let values: Vec<f64> = all.map(|(y, z)| f64::from(voxel(1, [x, y, z], t))).collect();
        (values.iter().sum::<f64>() / values.len() as f64) as f32
    };
    assert!((scan.series[0] - mean(0, 0, &|y, _| y > 0)).abs() < 1e-3, "a mean over what is there");
    assert!(scan.series.iter().skip(1).step_by(REGIONS).all(|x| x.is_nan()), "a quarter is too little");
    assert!((scan.series[7 * REGIONS + 2] - mean(2, 7, &|y, z| (y, z) != (0, 0))).abs() < 1e-3);
    assert!(report.notes.iter().any(|n| n.contains("NaN")), "{:?}", report.notes);
}

#[test]
fn an_image_that_is_all_nan_all_zero_or_half_empty_gives_no_values() {
    for (name, empty) in [("nan", f32::NAN), ("zero", 0.0)] {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("s");
        Image::of(30).write(&source.join("101.nii"), |_, _| empty);
        let said = refused(&source, &dir.path().join("c"), &images(dir.path()));
        assert!(said.contains("a signal in at least 50 % of 4 regions, found 0 that are"), "{name}: {said}");
        // Half of the planes are empty, and one more is so in part.
        let half =
            |[x, y, z]: [usize; 3], t: usize| if x < 1 || (x == 1 && y < 3) { empty } else { voxel(1, [x, y, z], t) };
        Image::of(30).write(&source.join("101.nii"), half);
        let (cohort, _) = ingest(&source, &dir.path().join("d"), &images(dir.path()));
        let scan = cohort.scan(0).unwrap();
        assert_eq!(scan.coverage.as_ref().unwrap()[..], [0.0, 0.25, 1.0, 1.0], "{name}");
        assert_eq!(scan.valid_regions(), [false, false, true, true], "{name}");
    }
}

#[test]
fn points_of_a_dense_series_without_a_signal_are_not_covered() {
    for empty in [f32::NAN, 0.0] {
        let dir = tempfile::tempdir().unwrap();
        let (source, labels) = (dir.path().join("s"), dir.path().join("tiny.dlabel.nii"));
        dlabel(&labels);
        // The first region has three points: two have no signal.
        dtseries(&source.join("101.dtseries.nii"), 1, &every(), "0.8", |p, x| if p < 2 { empty } else { x });
        let options = IngestOptions { atlas: Some(labels), ..IngestOptions::default() };
        let (cohort, _) = ingest(&source, &dir.path().join("c"), &options);
        let scan = cohort.scan(0).unwrap();
        assert!((scan.coverage.as_ref().unwrap()[0] - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(scan.valid_regions(), [false, true, true, true]);
    }
}

#[test]
fn too_few_degrees_of_freedom_are_refused_and_what_is_left_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("f");
    fmriprep(&source, 1);
    let table = source.join("sub-01/func/sub-01_task-rest_desc-confounds_timeseries.tsv");
    let recipe = Recipe {
        denoise: Some(Preset::Simple.strategy()),
        cleaning: Cleaning { detrend: true, band_pass: None },
        ..Recipe::default()
    };
    let options =
        IngestOptions { atlas: Some(atlas(dir.path())), drop_volumes: Some(10), recipe, ..IngestOptions::default() };
    // 30 frames and 24 + 2 + 4 regressors.
    write(&table, confounds(0, 40, 4));
    let said = refused(&source, &dir.path().join("c"), &options);
    assert!(said.contains("degrees of freedom: expected"), "{said}");
    write(&table, confounds(0, 40, 0));
    let said = refused(&source, &dir.path().join("c"), &options);
    let expected = "degrees of freedom: expected at least 10 left after regression and filter, found 2 of 30 frames";
    assert!(said.contains(expected), "{said}");
    let options = IngestOptions { drop_volumes: Some(0), ..options };
    let (_, report) = ingest(&source, &dir.path().join("c"), &options);
    // 40 frames, less 26 regressors, a line and a mean.
    assert_eq!(report.degrees_of_freedom.unwrap().least, 12);
    assert!(report.notes.iter().any(|n| n.contains("leave 12 to 12 degrees of freedom")), "{:?}", report.notes);
}

#[test]
fn a_scan_without_a_valid_region_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    Image::of(30).write(&source.join("101.nii"), |v, t| voxel(1, v, t));
    // Only one plane has a signal: a quarter of the regions.
    Image::of(30).write(&source.join("102.nii"), |v, t| if v[0] == 2 { voxel(2, v, t) } else { 0.0 });
    let options = images(dir.path());
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!(cohort.len(), 1);
    let said = only(&report);
    assert!(
        said.ends_with(
            "expected a signal in at least 50 % of 4 regions, found 1 that are neither missing nor constant"
        ),
        "{said}"
    );
    let recipe = Recipe { least_regions: 0.25, ..Recipe::default() };
    let (cohort, _) = ingest(&source, &dir.path().join("d"), &IngestOptions { recipe, ..options });
    assert_eq!(cohort.len(), 2);
}

#[test]
fn a_run_without_its_brain_mask_is_not_taken_unmasked() {
    let (dir, source, options) = of_fmriprep(2);
    let mask = source.join("sub-02/func/sub-02_task-rest_space-MNI152NLin6Asym_desc-brain_mask.nii");
    fs::remove_file(&mask).unwrap();
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!(cohort.len(), 1);
    let said = only(&report);
    assert!(
        said.contains("brain mask: expected a desc-brain_mask beside the image as other runs have, or --mask"),
        "{said}"
    );
    // A mask that is damaged is named, not the image.
    fs::write(&mask, "junk").unwrap();
    let (_, report) = ingest(&source, &dir.path().join("b"), &options);
    assert!(only(&report).contains("brain mask: header: expected 12 bytes"), "{report:?}");
    fs::remove_file(&mask).unwrap();
    // The same for a job that reads this person alone; a mask that is given is taken.
    let alone = selecting(Selection { participants: vec!["02".into()], ..Selection::default() }, options.clone());
    assert!(refused(&source, &dir.path().join("d"), &alone).contains("brain mask"));
    let given = source.join("sub-01/func/sub-01_task-rest_space-MNI152NLin6Asym_desc-brain_mask.nii");
    let (cohort, _) = ingest(&source, &dir.path().join("e"), &IngestOptions { mask: Some(given), ..options });
    assert_eq!(cohort.len(), 2);
}
