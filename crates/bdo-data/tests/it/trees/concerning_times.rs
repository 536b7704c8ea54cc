//! Repetition times and the times of frames.

use bdo_data::cohort::Cohort;
use bdo_data::ingest::{Format, IngestOptions};
use std::path::Path;

use super::make::{Image, NAMES, atlas, dlabel, table, voxel, write};
use super::makers::{CENSORED, XcpD, every, kept};
use super::{ingest, of_fmriprep, only, refused, tables};

#[test]
fn censored_xcpd_files_of_every_kind_have_true_times() {
    for censored in [true, false] {
        for (kind, tables) in [("table", true), ("ptseries", false), ("dtseries", false)] {
            let dir = tempfile::tempdir().unwrap();
            let (source, labels) = (dir.path().join("x"), dir.path().join("tiny.dlabel.nii"));
            XcpD { censored, tables, ..XcpD::default() }.write(&source);
            dlabel(&labels);
            let atlas = (kind == "dtseries").then(|| labels.clone());
            for format in [None, Some(Format::Cifti)] {
                if kind == "table" && format.is_some() {
                    continue;
                }
                let options =
                    IngestOptions { atlas: atlas.clone(), format, drop_volumes: Some(0), ..IngestOptions::default() };
                // Where nothing says which files, joined runs and versions are there too; a pattern chooses.
                let pattern = if kind == "dtseries" { "*_run-*_desc-denoised_bold.dtseries.nii" } else { "*_run-*" };
                let pattern = format.map(|_| bdo_data::pattern::Pattern::new(pattern));
                let selection = bdo_data::bids::Selection { pattern, ..Default::default() };
                let options = IngestOptions { selection, ..options };
                let out = dir.path().join(format!("c{}", u8::from(format.is_some())));
                let (cohort, report) = ingest(&source, &out, &options);
                let case = format!("{kind} {censored} {format:?}");
                assert_eq!((report.rejected.len(), cohort.len()), (0, 4), "{case}: {report:?}");
                let scan = cohort.scan(0).unwrap();
                let times: Vec<f64> = kept().iter().map(|t| *t as f64 * 0.8).collect();
                assert_eq!(scan.frame_times_seconds, times, "{case}");
                let motion = scan.framewise_displacement_mm.unwrap();
                assert_eq!(motion[CENSORED[0]], (CENSORED[1] + 1) as f32 / 64.0, "{case}");
            }
        }
    }
}

/// A folder of one image, with whatever header.
fn one_image(folder: &Path, tr: f32, unit: u8) -> IngestOptions {
    Image { frames: 30, tr, unit }.write(&folder.join("s/101.nii"), |v, t| voxel(1, v, t));
    IngestOptions { format: Some(Format::Nifti), atlas: Some(atlas(folder)), ..IngestOptions::default() }
}

#[test]
fn milliseconds_without_a_unit_and_absurd_repetition_times_are_not_taken_as_seconds() {
    for (tr, unit, seconds) in
        [(2000.0, 0, 2.0), (720.0, 0, 0.72), (2.0, 0, 2.0), (2000.0, 16, 2.0), (2e6, 24, 2.0), (1.0, 8, 1.0)]
    {
        let dir = tempfile::tempdir().unwrap();
        let options = one_image(dir.path(), tr, unit);
        let (cohort, report) = ingest(&dir.path().join("s"), &dir.path().join("c"), &options);
        let found = cohort.index()[0].tr_seconds;
        assert!((found - seconds).abs() < 1e-6, "{tr} {unit}: {found}");
        let assumed = report.notes.iter().any(|n| n.contains("the header has no unit of time"));
        assert_eq!(assumed, unit == 0, "{tr} {unit}: {:?}", report.notes);
    }
    for (tr, unit) in [(2000.0, 8), (720.0, 8), (1e-30, 8), (1e-30, 0), (1.0, 0), (40.0, 0), (0.0, 8)] {
        let dir = tempfile::tempdir().unwrap();
        let options = one_image(dir.path(), tr, unit);
        let (source, out) = (dir.path().join("s"), dir.path().join("c"));
        let said = refused(&source, &out, &options);
        assert!(said.contains("101.nii: repetition time: expected"), "{tr} {unit}: {said}");
        // The flag decides.
        let (cohort, _) = ingest(&source, &out, &IngestOptions { tr_seconds: Some(2.0), ..options });
        assert_eq!(cohort.index()[0].tr_seconds, 2.0);
    }
    let dir = tempfile::tempdir().unwrap();
    let options = IngestOptions { tr_seconds: Some(2000.0), ..one_image(dir.path(), 2.0, 8) };
    let said = refused(&dir.path().join("s"), &dir.path().join("c"), &options);
    assert!(said.contains("0.05 to 20 s in --tr, found 2000 s (2 s if milliseconds are meant"), "{said}");
}

#[test]
fn a_sidecar_in_milliseconds_is_refused_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    write(&source.join("101.tsv"), table(&NAMES, "\t", 1, &every()));
    write(&source.join("101.json"), r#"{"RepetitionTime": 2000}"#);
    let options = IngestOptions { format: Some(Format::Series), ..IngestOptions::default() };
    let said = refused(&source, &dir.path().join("c"), &options);
    assert!(said.contains("0.05 to 20 s in the sidecar, found 2000 s (2 s if milliseconds"), "{said}");
}

#[test]
fn a_conflict_of_repetition_times_can_be_decided() {
    let (dir, source, options) = of_fmriprep(1);
    let bold = source.join("sub-01/func/sub-01_task-rest_space-MNI152NLin6Asym_desc-preproc_bold.nii");
    Image { tr: 1.5, ..Image::of(40) }.write(&bold, |v, t| voxel(0, v, t));
    let said = refused(&source, &dir.path().join("c"), &options);
    assert!(said.contains("expected 2 s as in the sidecar, found 1.5 s in the header (--tr decides)"), "{said}");
    let decided = IngestOptions { tr_seconds: Some(1.5), ..options };
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &decided);
    assert_eq!(cohort.index()[0].tr_seconds, 1.5);
    assert!(report.notes.iter().any(|n| n.contains("--tr 1.5 is taken instead of 2 s")), "{:?}", report.notes);
}

#[test]
fn another_repetition_time_is_not_ignored_on_a_second_run() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    write(&source.join("101.tsv"), table(&NAMES, "\t", 1, &every()));
    let series = |tr| IngestOptions { format: Some(Format::Series), tr_seconds: tr, ..IngestOptions::default() };
    ingest(&source, &out, &series(Some(2.0)));
    let said = refused(&source, &out, &series(Some(3.0)));
    assert!(said.contains("was ingested with tr_seconds 2.0, not 3.0"), "{said}");
    // A corrected sidecar is noticed too.
    let other = dir.path().join("d");
    write(&source.join("101.json"), r#"{"RepetitionTime": 2.0}"#);
    ingest(&source, &other, &series(None));
    write(&source.join("101.json"), r#"{"RepetitionTime": 2.5}"#);
    let (cohort, report) = ingest(&source, &other, &series(None));
    assert_eq!(cohort.index()[0].tr_seconds, 2.0);
    assert!(only(&report).ends_with("expected a repetition time of 2 s, found 2.5 s"), "{report:?}");
    assert_eq!(Cohort::open(&out).unwrap().manifest().provenance[0].settings["tr_seconds"], 2.0);
}

#[test]
fn a_sidecar_that_is_no_json_is_not_taken_as_absent() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    tables(&source, 1..5);
    write(&source.join("sub-1.json"), "{\"RepetitionTime\": 2.0,");
    write(&source.join("sub-2.json"), "\u{feff}{\"RepetitionTime\": \"2.0\", \"x\": NaN}");
    write(&source.join("sub-3.json"), "{\"SamplingFrequency\": 0.5}");
    let options = IngestOptions { format: Some(Format::Series), ..IngestOptions::default() };
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &options);
    let said = only(&report);
    assert!(said.starts_with("sub-1.tsv: repetition time: expected a sidecar of JSON, found EOF"), "{said}");
    assert_eq!(cohort.index().iter().map(|e| e.tr_seconds).collect::<Vec<_>>(), [2.0, 2.0, 1.0]);
}
