//! Settings that do nothing or cannot be meant, and runs in which nothing is good.

use std::fs;

use bdo_data::bids::Selection;
use bdo_data::clean::{Band, Cleaning};
use bdo_data::cohort::CohortError;
use bdo_data::ingest::{IngestError, IngestOptions, Recipe};

use super::make::{NAMES, table, write};
use super::makers::{every, fmriprep};
use super::{ingest, refused, run, selecting, sentence, series, tables};

#[test]
fn where_everything_is_rejected_every_reason_is_kept_and_the_next_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    write(&source.join("sub-1.tsv"), table(&NAMES, "\t", 1, &[0]));
    write(&source.join("sub-2.tsv"), "LH_a\tRH_a\n1\tx\n");
    let error = run(&source, &out, &series()).unwrap_err();
    let IngestError::Cohort(CohortError::Empty { rejected }) = &error else { panic!("{error}") };
    assert_eq!(rejected.len(), 2);
    let kept = fs::read_to_string(out.join("rejected.tsv")).unwrap();
    assert_eq!(kept.lines().count(), 3, "{kept}");
    assert!(kept.contains("sub-2.tsv\tline 2\tnumbers\t\"x\""), "{kept}");
    // Mended, the same command goes on in the same place.
    write(&source.join("sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    let (cohort, report) = ingest(&source, &out, &series());
    assert_eq!((cohort.len(), report.rejected.len()), (1, 1));
}

#[test]
fn a_label_that_names_nobody_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    tables(&source, 1..3);
    let labels = |l: &[&str]| {
        selecting(
            Selection { participants: l.iter().map(|l| (*l).to_owned()).collect(), ..Selection::default() },
            series(),
        )
    };
    let (cohort, report) = ingest(&source, &out, &labels(&["1", "07"]));
    assert_eq!(cohort.len(), 1);
    assert_eq!(sentence(&report.rejected[0]), "--participant-label 07: label: expected a scan that has it, found none");
    assert!(fs::read_to_string(out.join("rejected.tsv")).unwrap().contains("--participant-label 07"));
    let said = refused(&source, &dir.path().join("d"), &labels(&["07", "08"]));
    assert!(said.ends_with("found none of --participant-label 07, --participant-label 08"), "{said}");
    let bids = dir.path().join("f");
    fmriprep(&bids, 1);
    let options = IngestOptions {
        atlas: Some(super::make::atlas(dir.path())),
        format: None,
        tr_seconds: None,
        ..labels(&["07"])
    };
    let said = refused(&bids, &dir.path().join("d"), &options);
    assert!(said.contains("--participant-label 07"), "{said}");
}

#[test]
fn settings_that_do_nothing_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    write(&source.join("sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    let path = Some(source.join("sub-1.tsv"));
    for (options, flag) in [
        (IngestOptions { mask: path.clone(), ..series() }, "--mask"),
        (IngestOptions { atlas: path, ..series() }, "--atlas"),
        (IngestOptions { space: Some("T1w".into()), ..series() }, "--space"),
        (selecting(Selection { desc: Some("x".into()), ..Selection::default() }, series()), "--desc"),
        (IngestOptions { assume_affine: true, ..series() }, "--assume-affine"),
    ] {
        let said = refused(&source, &out, &options);
        assert!(said.contains(flag) && said.contains("where it does nothing"), "{said}");
    }
    assert!(!out.exists());
}

#[test]
fn a_mask_that_is_not_there_is_an_error_also_where_runs_have_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("f");
    fmriprep(&source, 1);
    let options = IngestOptions {
        atlas: Some(super::make::atlas(dir.path())),
        mask: Some(dir.path().join("mask.nii")),
        ..IngestOptions::default()
    };
    let said = refused(&source, &dir.path().join("c"), &options);
    assert!(said.ends_with("mask.nii: expected a brain mask for --mask, found no file of that name"), "{said}");
}

#[test]
fn a_band_above_half_of_the_sampling_rate_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    write(&source.join("sub-1.tsv"), table(&NAMES, "\t", 1, &every()));
    write(&source.join("sub-1.json"), r#"{"RepetitionTime": 2.0}"#);
    for band in
        [Band { high_pass_hz: Some(0.01), low_pass_hz: Some(0.3) }, Band { high_pass_hz: Some(0.3), low_pass_hz: None }]
    {
        let cleaning = Cleaning { detrend: true, band_pass: Some(band) };
        let recipe = Recipe { cleaning, ..Recipe::default() };
        for tr_seconds in [Some(2.0), None] {
            let said = refused(&source, &out, &IngestOptions { recipe: recipe.clone(), tr_seconds, ..series() });
            assert!(said.contains("limits below 0.25 Hz, half of one frame per 2 s, found 0.3 Hz"), "{said}");
        }
    }
}
