//! Trees and folders as people have them.

use std::fs;
use std::os::unix::fs::symlink;

use bdo_data::bids::Selection;
use bdo_data::ingest::{Format, IngestOptions};
use bdo_data::pattern::Pattern;

use super::make::{Image, NAMES, atlas, dlabel, ptseries, table, value, voxel, write};
use super::makers::{FRAMES, XcpD, connectome_project, every, kept};
use super::{ingest, of_fmriprep, only, refused, run, selecting, sentence, series};

#[test]
fn xcpd_trees_are_read_although_their_sampling_frequency_is_a_word() {
    for (runs, cifti) in [(1, false), (2, false), (1, true), (2, true)] {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("x");
        XcpD { runs, cifti, ..XcpD::default() }.write(&source);
        let (cohort, report) = ingest(&source, &dir.path().join("c"), &IngestOptions::default());
        assert_eq!((report.rejected.len(), cohort.len()), (0, 2 * runs), "joined runs are left out: {report:?}");
        let scan = cohort.scan(0).unwrap();
        assert_eq!((scan.tr_seconds, scan.frames()), (0.8, kept().len()));
        // The table of coverage has one row a region.
        assert_eq!(scan.coverage.as_ref().unwrap()[..], [1.0, 1.0, 1.0, 0.25]);
        assert!(scan.series[3].is_nan());
        assert_eq!(scan.series[0], value(0, 0, 0));
        assert_eq!(cohort.regions()[1].name, "RH_a");
    }
}

#[test]
fn xcpd_finds_the_repetition_time_in_headers_and_hashes_in_names_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("x");
    XcpD { people: 1, runs: 1, ..XcpD::default() }.write(&source);
    let func = source.join("sub-01/func");
    for entry in fs::read_dir(&func).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("desc-denoised_bold.json") {
            fs::remove_file(&path).unwrap();
        } else if name.ends_with("_outliers.tsv") || name.ends_with("stat-mean_timeseries.tsv") {
            // Newer versions mark every column with a hash of their settings.
            let text = fs::read_to_string(&path).unwrap();
            let (header, rows) = text.split_once('\n').unwrap();
            let header: Vec<String> = header.split('\t').map(|n| format!("{n}_hash-0+ab1")).collect();
            fs::write(&path, format!("{}\n{rows}", header.join("\t"))).unwrap();
        }
    }
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &IngestOptions::default());
    assert_eq!(report.rejected, []);
    assert_eq!((cohort.index()[0].tr_seconds, cohort.index()[0].frames), (0.8, kept().len()));
}

#[test]
fn xcpd_images_leave_the_smoothed_version_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (source, labels) = (dir.path().join("x"), dir.path().join("tiny.dlabel.nii"));
    XcpD::default().write(&source);
    dlabel(&labels);
    let options = IngestOptions { atlas: Some(labels), ..IngestOptions::default() };
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!((cohort.len(), report.rejected.len()), (4, 0));
    assert!(
        report.notes.iter().any(|n| n.contains("desc-denoised is taken, not desc-denoisedSmoothed")),
        "{:?}",
        report.notes
    );
    assert!(cohort.index()[0].source.contains("desc-denoised_bold"));
    let smoothed = selecting(Selection { desc: Some("denoisedSmoothed".into()), ..Selection::default() }, options);
    let (cohort, _) = ingest(&source, &dir.path().join("d"), &smoothed);
    assert!(cohort.index()[0].source.contains("desc-denoisedSmoothed_bold"));
}

#[test]
fn fmriprep_trees_are_read() {
    let (dir, source, options) = of_fmriprep(2);
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!((cohort.len(), report.rejected.len(), cohort.index()[0].frames), (2, 0, FRAMES - 10));
    assert!(cohort.index()[0].source.contains("MNI152NLin6Asym"));
}

#[test]
fn the_phase_of_a_complex_image_is_no_second_version_and_an_image_of_one_volume_is_no_run() {
    let (dir, source, options) = of_fmriprep(1);
    let func = source.join("sub-01/func");
    for (part, person) in [("mag", 1), ("phase", 2)] {
        let scan = format!("sub-02_task-rest_part-{part}_space-MNI152NLin6Asym");
        let path = func.join(format!("{scan}_desc-preproc_bold.nii"));
        Image::of(FRAMES).write(&path, |v, t| voxel(person, v, t));
        Image { frames: 1, tr: 0.0, unit: 0 }.write(&func.join(format!("{scan}_desc-brain_mask.nii")), |_, _| 1.0);
    }
    let single = "sub-03_task-rest_space-MNI152NLin6Asym";
    for desc in ["preproc_bold", "brain_mask"] {
        Image { frames: 1, tr: 0.0, unit: 0 }.write(&func.join(format!("{single}_desc-{desc}.nii")), |_, _| 1.0);
    }
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!(cohort.len(), 2);
    assert!(cohort.index()[1].source.contains("part-mag"));
    let said = only(&report);
    assert!(said.ends_with("dimensions: expected three of space and one of time, found sizes [4, 4, 4]"), "{said}");
}

#[test]
fn the_cleaned_series_of_a_connectome_folder_wins_over_the_alphabet() {
    let dir = tempfile::tempdir().unwrap();
    let (source, labels) = (dir.path().join("hcp"), dir.path().join("tiny.dlabel.nii"));
    connectome_project(&source, &["100307", "100408"]);
    dlabel(&labels);
    let options = IngestOptions { atlas: Some(labels), drop_volumes: Some(0), ..IngestOptions::default() };
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!((cohort.len(), report.rejected.len()), (4, 0), "{report:?}");
    let scan = cohort.scan(3).unwrap();
    assert_eq!((scan.id.to_string().as_str(), scan.tr_seconds), ("100408_task-REST1_run-RL", 0.72));
    assert!((scan.series[0] - value(112, 0, 0)).abs() < 1e-6, "MSMAll_hp2000_clean");
    assert!(
        report.notes.iter().any(|n| n.contains("*_Atlas_MSMAll_hp2000_clean.dtseries.nii is taken")),
        "{:?}",
        report.notes
    );
    let raw = selecting(
        Selection { pattern: Some(Pattern::new("*_LR_Atlas.dtseries.nii")), ..Selection::default() },
        options,
    );
    let (cohort, _) = ingest(&source, &dir.path().join("d"), &raw);
    assert_eq!(cohort.len(), 2);
    assert!((cohort.scan(0).unwrap().series[0] - value(0, 0, 0)).abs() < 1e-6);
}

#[test]
fn parcels_keep_their_frames_whatever_the_format_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    ptseries(&source.join("sub-1_task-rest_bold.ptseries.nii"), 1, &every(), "0.8");
    for (name, format) in [("b", Format::Bids), ("c", Format::Cifti)] {
        let options = IngestOptions { format: Some(format), ..IngestOptions::default() };
        let (cohort, _) = ingest(&source, &dir.path().join(name), &options);
        assert_eq!(cohort.index()[0].frames, FRAMES, "{name}");
    }
}

#[test]
fn files_that_were_not_fetched_are_named_with_the_command_that_fetches_them() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    write(&source.join("sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    symlink(".git/annex/objects/ab/cd/MD5E-s9--0.tsv/MD5E-s9--0.tsv", source.join("sub-2.tsv")).unwrap();
    symlink("../elsewhere/gone.tsv", source.join("sub-3.tsv")).unwrap();
    write(&source.join("sub-4.tsv"), "/annex/objects/MD5E-s1234--0123456789.tsv\n");
    write(&source.join("sub-5.tsv"), "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
    symlink("../elsewhere/sub-6", source.join("sub-6")).unwrap();
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &series());
    assert_eq!(cohort.len(), 1);
    let mut said: Vec<String> = report.rejected.iter().map(sentence).collect();
    said.sort();
    assert_eq!(said.len(), 5, "{said:#?}");
    assert!(
        said[0].contains("sub-2.tsv: not fetched: expected the file itself")
            && said[0].contains("`datalad get sub-2.tsv`")
    );
    assert!(said[1].contains("found a link to ../elsewhere/gone.tsv, which is not there"), "{said:#?}");
    assert!(said[2].contains("a pointer whose content was not fetched; run `datalad get sub-4.tsv`"), "{said:#?}");
    assert!(said[3].contains("git lfs pull"), "{said:#?}");
    assert!(said[4].starts_with("sub-6: not fetched"), "{said:#?}");
}

#[test]
fn an_unfetched_mask_or_table_of_confounds_is_not_taken_as_absent() {
    let (dir, source, options) = of_fmriprep(2);
    let mask = source.join("sub-02/func/sub-02_task-rest_space-MNI152NLin6Asym_desc-brain_mask.nii");
    fs::remove_file(&mask).unwrap();
    symlink("../../.git/annex/objects/x", &mask).unwrap();
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    assert_eq!(cohort.len(), 1);
    assert!(only(&report).contains("desc-brain_mask.nii: a link whose content was not fetched"), "{report:?}");
}

#[test]
fn linked_subject_folders_are_followed_and_loops_end() {
    let dir = tempfile::tempdir().unwrap();
    let (source, elsewhere) = (dir.path().join("s"), dir.path().join("elsewhere"));
    write(&source.join("sub-1/sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    write(&elsewhere.join("sub-2/sub-2.tsv"), table(&NAMES, "\t", 2, &every()));
    symlink(elsewhere.join("sub-2"), source.join("sub-2")).unwrap();
    symlink("..", source.join("sub-1/up")).unwrap();
    symlink(&source, elsewhere.join("sub-2/back")).unwrap();
    symlink("self", source.join("self")).unwrap();
    symlink("sub-1", source.join("sub-3")).unwrap();
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &series());
    let people: Vec<&str> = cohort.index().iter().map(|e| e.id.subject.as_str()).collect();
    assert_eq!(people, ["sub-1", "sub-2"]);
    assert_eq!(cohort.index()[1].source, "sub-2/sub-2.tsv");
    assert!(
        report.notes.iter().any(|n| n.starts_with("sub-3 is a link to sub-1, which is read already")),
        "{report:?}"
    );
}

#[test]
fn an_existing_empty_folder_becomes_the_cohort() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    write(&source.join("sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    fs::create_dir(&out).unwrap();
    let (cohort, _) = ingest(&source, &out, &series());
    assert_eq!(cohort.len(), 1);
    // Not one that holds something.
    let other = dir.path().join("d");
    write(&other.join("precious"), "x");
    assert!(refused(&source, &other, &series()).contains("exists and is not a cohort"));
}

#[test]
fn feat_folders_are_told_apart_by_their_folders() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    for (person, folder) in ["101/rest.feat", "102/rest.feat", "102/rest+.feat"].iter().enumerate() {
        let folder = source.join(folder);
        Image::of(30).write(&folder.join("filtered_func_data.nii"), |v, t| voxel(person, v, t));
        Image { frames: 1, tr: 0.0, unit: 0 }.write(&folder.join("mask.nii"), |_, _| 1.0);
        Image { frames: 1, tr: 0.0, unit: 0 }.write(&folder.join("mean_func.nii"), |_, _| 1.0);
        Image { frames: 1, tr: 0.0, unit: 0 }.write(&folder.join("example_func.nii"), |_, _| 1.0);
        Image { frames: 1, tr: 0.0, unit: 0 }.write(&folder.join("reg/example_func.nii"), |_, _| 1.0);
        Image::of(30).write(&folder.join("stats/res4d.nii"), |v, t| voxel(person + 50, v, t));
    }
    let options = IngestOptions { atlas: Some(atlas(dir.path())), drop_volumes: Some(0), ..IngestOptions::default() };
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    let ids: Vec<String> = cohort.index().iter().map(|e| e.id.to_string()).collect();
    assert_eq!(ids, ["101_run-rest", "102_run-rest", "102_run-rest+"], "{report:?}");
    assert_eq!(report.rejected, []);
}

#[test]
fn a_manifest_names_the_scans_of_any_layout() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    for person in 1..4 {
        let path = source.join(format!("deep/{person}/data.csv"));
        write(&path, table(&NAMES, ",", person, &every()));
    }
    write(&source.join("stray.csv"), "a,b\n0.5,0.25\n0.25,0.5\n");
    let manifest = dir.path().join("scans.tsv");
    let rows = "path\tsubject\tsession\trun\ttr\tsite\n\
        deep/1/data.csv\tA\tone\tn/a\t2\tx\n\
        deep/2/data.csv\tA\ttwo\t1\t0.8\tx\n\
        deep/3/data.csv\tB\tone\tn/a\t2000\ty\n\
        deep/4/data.csv\tC\tone\tn/a\t2\ty\n";
    write(&manifest, rows);
    let options = IngestOptions { manifest: Some(manifest.clone()), ..IngestOptions::default() };
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    let seen: Vec<(String, f64, Option<&str>)> =
        cohort.index().iter().map(|e| (e.id.to_string(), e.tr_seconds, e.site.as_deref())).collect();
    assert_eq!(seen, [("A_ses-one".to_owned(), 2.0, Some("x")), ("A_ses-two_run-1".to_owned(), 0.8, Some("x"))]);
    let said: Vec<String> = report.rejected.iter().map(sentence).collect();
    assert!(said[0].starts_with("deep/3/data.csv: repetition time: expected 0.05 to 20 s in the manifest"), "{said:?}");
    assert!(said[1].starts_with("deep/4/data.csv: file: expected a file that the manifest names"), "{said:?}");
    write(&manifest, "path\tperson\nx\ty\n");
    assert!(refused(&source, &dir.path().join("d"), &options).contains("expected columns path and subject"));
}

#[test]
fn a_manifest_takes_images_whatever_they_are_called() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    Image::of(30).write(&source.join("x/rest_mask_applied.nii"), |v, t| voxel(1, v, t));
    Image::of(30).write(&source.join("y/rest_mask_applied.nii"), |v, t| voxel(2, v, t));
    let manifest = dir.path().join("scans.csv");
    write(&manifest, "path,subject\nx/rest_mask_applied.nii,1\ny/rest_mask_applied.nii,2\n");
    let options = IngestOptions {
        manifest: Some(manifest),
        atlas: Some(atlas(dir.path())),
        format: Some(Format::Nifti),
        ..IngestOptions::default()
    };
    assert_eq!(ingest(&source, &dir.path().join("c"), &options).0.len(), 2);
}

#[test]
fn one_folder_that_cannot_be_read_does_not_end_everything() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    write(&source.join("sub-1/sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    write(&source.join("sub-2/sub-2.tsv"), table(&NAMES, "\t", 2, &every()));
    let closed = source.join("sub-2");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&closed).is_ok() {
        // The administrator reads everything; folders that are too deep go the same way.
        let deep = (0..14).fold(source.join("sub-2"), |path, i| path.join(i.to_string()));
        write(&deep.join("x.tsv"), table(&NAMES, "\t", 3, &every()));
    }
    let found = run(&source, &dir.path().join("c"), &series());
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    let report = found.unwrap();
    assert!(report.scans >= 1);
    let said = only(&report);
    assert!(said.starts_with("sub-2") && said.contains(": folder: expected"), "{said}");
    let table = fs::read_to_string(dir.path().join("c/rejected.tsv")).unwrap();
    assert!(table.lines().nth(1).is_some_and(|l| l.starts_with("sub-2")), "{table}");
}
