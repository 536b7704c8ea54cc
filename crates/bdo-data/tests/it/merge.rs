//! Merging cohorts.

use bdo_data::cohort::{self, Cohort, Provenance};
use serde_json::json;

use crate::fixture::{StopAfter, build_with, cohort as make, scan};

#[test]
fn merged_cohorts_hold_all_scans_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, out) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("out"));
    make(&a, 9);
    build_with(&b, 8, &|i| Ok(scan(100 - i)), &StopAfter::never()).unwrap();
    let cohorts = [Cohort::open(&b).unwrap(), Cohort::open(&a).unwrap()];
    cohort::merge(&cohorts, &out, vec![Provenance::of("merge", json!({}))], &[]).unwrap();
    let merged = Cohort::open(&out).unwrap();
    assert_eq!(merged.len(), 17);
    assert!(merged.index().windows(2).all(|w| w[0].id < w[1].id));
    assert_eq!(cohort::verify(&out).unwrap(), []);
    let last = merged.scan(16).unwrap();
    assert_eq!(last.series.len(), scan(100).series.len());
    assert_eq!(last.id, scan(100).id);
    assert_eq!(merged.participants().len(), merged.manifest().subjects);
}

#[test]
fn a_scan_in_both_and_other_regions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    make(&a, 3);
    make(&b, 4);
    let cohorts = [Cohort::open(&a).unwrap(), Cohort::open(&b).unwrap()];
    let error = cohort::merge(&cohorts, &dir.path().join("out"), vec![], &[]).unwrap_err().to_string();
    assert!(error.contains("sub-000_ses-0 in both"), "{error}");
    assert!(!dir.path().join("out").exists());
}
