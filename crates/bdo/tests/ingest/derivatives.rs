//! Trees of fMRIPrep derivatives.

use std::fs;

use bdo_data::clean::{Cleaning, clean};
use bdo_data::confound::{ConfoundTable, Preset, load};

use crate::fixture::{FRAMES, REGIONS, atlas, close, confounds, expect, fmriprep, image, means, open, text, voxel};

#[test]
fn images_become_region_means_with_motion_labels_and_provenance() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("fmriprep"), dir.path().join("cohort"));
    fmriprep(&root, 3);
    let atlas = atlas(dir.path());
    let arguments = [text(&root), text(&out), "participant", "--atlas", text(&atlas)];
    let said = expect(0, &arguments);
    assert!(said.contains("3 scans of 3 people, 4 regions"), "{said}");
    assert!(said.contains("see --denoise"), "{said}");
    let cohort = open(&out);
    assert_eq!(cohort.regions()[2].name, "plane-3");
    let scan = cohort.scan(1).unwrap();
    assert_eq!((scan.id.to_string().as_str(), scan.site.as_deref()), ("sub-02_task-rest", Some("there")));
    assert_eq!((scan.tr_seconds, scan.frame_times_seconds[0], scan.frames()), (2.0, 20.0, FRAMES - 10));
    // A mean of 16 single-precision numbers near 1000, stored in single precision.
    close(&scan.series, &means(1, FRAMES)[10 * REGIONS..], 1000.0 * f32::EPSILON);
    let motion = scan.framewise_displacement_mm.unwrap();
    assert_eq!((motion.len(), motion[20]), (FRAMES - 10, 0.9));
    assert_eq!(scan.coverage.unwrap(), [1.0; REGIONS]);
    assert_eq!(cohort.participants().get(1, "age"), Some("21"));
    let description: serde_json::Value =
        serde_json::from_slice(&cohort.extra("dataset_description.json").unwrap().unwrap()).unwrap();
    assert_eq!(description["GeneratedBy"][0]["Name"], "bdo");
    assert_eq!(description["SourceDatasets"][0]["GeneratedBy"][0]["Name"], "fMRIPrep");
    let said = expect(0, &arguments);
    assert!(said.contains("0 added, 3 there already"), "{said}");
    let said = expect(2, &[&arguments[..], &["--denoise", "simple"]].concat());
    assert!(said.contains("was ingested with"), "{said}");
}

#[test]
fn denoising_and_scrubbing_are_those_of_the_library_and_keep_true_times() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("fmriprep");
    fmriprep(&root, 1);
    let atlas = atlas(dir.path());
    for (preset, name) in [(Preset::Simple, "simple"), (Preset::Scrubbing, "scrubbing")] {
        let out = dir.path().join(name);
        expect(0, &[text(&root), text(&out), "--atlas", text(&atlas), "--denoise", name]);
        let scan = open(&out).scan(0).unwrap();
        let table = ConfoundTable::parse("t", confounds(0).as_bytes(), None).unwrap();
        let regressors = load(&table, &preset.strategy()).unwrap().without_first(10);
        let cleaning = Cleaning { detrend: true, band_pass: None };
        let series = &means(0, FRAMES)[10 * REGIONS..];
        let expected = clean(series, REGIONS, 2.0, Some(&regressors), &cleaning).unwrap();
        close(&scan.series, &expected.series, 2e-3);
        let times: Vec<f64> = expected.kept.iter().map(|t| 2.0 * (t + 10) as f64).collect();
        assert_eq!(scan.frame_times_seconds, times);
        let censored = preset == Preset::Scrubbing;
        assert_eq!(scan.frames(), FRAMES - 10 - usize::from(censored));
        assert_eq!(scan.frame_times_seconds.contains(&60.0), !censored);
    }
}

#[test]
fn what_cannot_be_told_is_rejected_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("fmriprep"), dir.path().join("cohort"));
    fmriprep(&root, 5);
    let bold = |label: &str, space: &str| {
        root.join(format!("sub-{label}/func/sub-{label}_task-rest_space-{space}_desc-preproc_bold.nii"))
    };
    // One header contradicts its sidecar, one scan is only there in native space, one file is cut short, one has few confounds.
    image(&bold("01", "MNI152NLin6Asym"), FRAMES, 1.5, |v, t| voxel(0, v, t));
    fs::remove_file(bold("02", "MNI152NLin6Asym")).unwrap();
    let whole = fs::read(bold("03", "MNI152NLin6Asym")).unwrap();
    fs::write(bold("03", "MNI152NLin6Asym"), &whole[..whole.len() - 100]).unwrap();
    let table = root.join("sub-04/func/sub-04_task-rest_desc-confounds_timeseries.tsv");
    let lines: Vec<String> = fs::read_to_string(&table).unwrap().lines().take(31).map(str::to_owned).collect();
    fs::write(&table, lines.join("\n")).unwrap();
    let atlas = atlas(dir.path());
    let arguments = [text(&root), text(&out), "--atlas", text(&atlas)];
    let said = expect(1, &arguments);
    assert!(said.contains("1 scans of 1 people"), "{said}");
    let rejected = fs::read_to_string(out.join("rejected.tsv")).unwrap();
    let rows: Vec<Vec<&str>> = rejected.lines().skip(1).map(|l| l.split('\t').collect()).collect();
    assert_eq!(rows.len(), 4, "{rejected}");
    assert_eq!(rows[0][1..], ["repetition time", "2 s as in the sidecar", "1.5 s in the header (--tr decides)"]);
    assert_eq!(rows[1][1..], ["space", "MNI152NLin6Asym", "T1w"]);
    assert!(rows[2][0].contains("sub-03"), "{rejected}");
    assert_eq!(rows[3][1..], ["confounds", "60 rows as the image has volumes", "30"]);
    // Running again neither fails nor changes anything: what was rejected is rejected again.
    let before = crate::fixture::tree(&out);
    let said = expect(1, &arguments);
    assert!(said.contains("0 added, 1 there already, 4 rejected"), "{said}");
    assert!(before == crate::fixture::tree(&out));
    // A scan that changes after it was ingested is not taken again silently.
    image(&bold("05", "MNI152NLin6Asym"), FRAMES, 2.0, |v, t| voxel(9, v, t));
    let said = expect(1, &arguments);
    assert!(said.contains("changed since it was ingested"), "{said}");
    assert!(before == crate::fixture::tree(&out));
}

#[test]
fn labels_sessions_tasks_and_shards_choose_scans() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("fmriprep");
    fmriprep(&root, 4);
    let atlas = atlas(dir.path());
    let subjects = |name: &str, more: &[&str]| -> Vec<String> {
        let out = dir.path().join(name);
        expect(0, &[&[text(&root), text(&out), "participant", "--atlas", text(&atlas)], more].concat());
        open(&out).index().iter().map(|e| e.id.subject.clone()).collect()
    };
    assert_eq!(subjects("a", &["--participant-label", "02", "sub-04"]), ["sub-02", "sub-04"]);
    assert_eq!(subjects("b", &["--task-id", "rest", "--shard", "2/3"]), ["sub-02"]);
    let none = dir.path().join("none");
    let said = expect(2, &[text(&root), text(&none), "--atlas", text(&atlas), "--task-id", "nback"]);
    assert!(said.contains("found none"), "{said}");
    assert!(!none.exists());
    let said = expect(2, &[text(&root), text(&none)]);
    assert!(said.contains("expected --atlas FILE"), "{said}");
}

#[test]
fn a_folder_of_images_needs_no_bids() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("cohort"));
    image(&source.join("first.nii"), 30, 1.5, |v, t| voxel(0, v, t));
    image(&source.join("second.nii"), 30, 1.5, |v, t| voxel(1, v, t));
    let atlas = atlas(dir.path());
    expect(0, &[text(&source), text(&out), "--atlas", text(&atlas), "--drop-volumes", "0", "--format", "nifti"]);
    let cohort = open(&out);
    let scan = cohort.scan(1).unwrap();
    assert_eq!((scan.id.subject.as_str(), scan.tr_seconds), ("second", 1.5));
    close(&scan.series, &means(1, 30), 1000.0 * f32::EPSILON);
}

#[test]
fn the_page_about_quality_is_one_file_that_loads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("fmriprep"), dir.path().join("cohort"));
    fmriprep(&root, 3);
    fs::write(root.join("sub-02/func/sub-02_task-rest_space-MNI152NLin6Asym_desc-preproc_bold.nii"), "no").unwrap();
    let atlas = atlas(dir.path());
    expect(1, &[text(&root), text(&out), "--atlas", text(&atlas), "--scrub", "--report"]);
    let page = fs::read_to_string(dir.path().join("cohort.html")).unwrap();
    for shown in ["2 scans of 2 people", "Mean framewise displacement", "plane-3", "data:image/png;base64,", "sub-02"] {
        assert!(page.contains(shown), "{shown}");
    }
    for fetched in ["<script src", "http://", "https://", "<link"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
}

#[test]
fn images_that_xcpd_has_denoised_have_true_times_and_are_not_denoised_again() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("xcp_d"), dir.path().join("cohort"));
    fs::create_dir_all(&root).unwrap();
    let description = r#"{"Name": "XCP-D", "BIDSVersion": "1.9.0", "GeneratedBy": [{"Name": "xcp_d"}]}"#;
    fs::write(root.join("dataset_description.json"), description).unwrap();
    let scan = "sub-01_task-rest_space-MNI152NLin6Asym_res-2";
    let func = root.join("sub-01/func");
    // Frames 0, 1 and 20 of the run are censored: 57 of 60 are in the file, smoothed ones beside them.
    let kept: Vec<usize> = (0..FRAMES).filter(|t| ![0, 1, 20].contains(t)).collect();
    image(&func.join(format!("{scan}_desc-denoised_bold.nii.gz")), kept.len(), 2.0, |v, t| voxel(3, v, kept[t]));
    image(&func.join(format!("{scan}_desc-denoisedSmoothed_bold.nii.gz")), kept.len(), 2.0, |_, t| t as f32);
    fs::write(func.join(format!("{scan}_desc-denoised_bold.json")), r#"{"RepetitionTime": 2.0}"#).unwrap();
    let rows = (0..FRAMES).map(|t| if kept.contains(&t) { "0\n" } else { "1\n" }).collect::<String>();
    fs::write(func.join("sub-01_task-rest_outliers.tsv"), format!("framewise_displacement\n{rows}")).unwrap();
    let atlas = atlas(dir.path());
    let arguments = [text(&root), text(&out), "--atlas", text(&atlas)];
    let said = expect(2, &[&arguments[..], &["--denoise", "36p"]].concat());
    assert!(said.contains("regressed out already"), "{said}");
    expect(0, &arguments);
    let scan = open(&out).scan(0).unwrap();
    assert_eq!(scan.frame_times_seconds, kept.iter().map(|t| 2.0 * *t as f64).collect::<Vec<_>>());
    let whole = means(3, FRAMES);
    let expected: Vec<f32> = kept.iter().flat_map(|t| whole[t * REGIONS..(t + 1) * REGIONS].to_vec()).collect();
    close(&scan.series, &expected, 1000.0 * f32::EPSILON);
}
