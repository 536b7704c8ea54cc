//! Groups of scans that were made in the same way.

use bdo_data::cohort::Observer;
use bdo_data::synth::{Generator, SynthSpec, simulate};
use bdo_train::source::{ScanSource, Shares};
use std::collections::BTreeSet;

struct Unwatched;

impl Observer for Unwatched {}

fn source(folder: &std::path::Path) -> ScanSource {
    let spec = SynthSpec { subjects: 30, sessions: 2, regions: 4, frames: 12, sites: 3, ..SynthSpec::default() };
    let cohort = simulate(&Generator::new(spec).unwrap(), folder, 32, &Unwatched).unwrap();
    ScanSource::new(cohort, Shares { held_out_percent: 10, seed: 1, data_fraction: 1.0 }).unwrap()
}

#[test]
fn groups_hold_each_training_scan_once_and_one_way_of_scanning() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(&dir.path().join("c"));
    let ways: BTreeSet<usize> = source.train_scans().iter().map(|&scan| source.kin(scan).group).collect();
    assert_eq!(ways.len(), 3, "one per site");
    for most in [1, 2, 5, 1000] {
        let expected = source.groups(most, 0, 0);
        for (seed, epoch) in [(0, 0), (0, 1), (7, 0), (9, 123)] {
            let groups = source.groups(most, seed, epoch);
            assert_eq!(groups.len(), expected.len(), "at most {most}, seed {seed}, epoch {epoch}");
            let mut scans = groups.concat();
            scans.sort_unstable();
            let mut trained = source.train_scans().to_vec();
            trained.sort_unstable();
            assert_eq!(scans, trained);
            for group in &groups {
                assert!((1..=most).contains(&group.len()));
                assert!(group.iter().all(|&scan| source.kin(scan).group == source.kin(group[0]).group));
            }
        }
        assert!(most == 1000 || source.groups(most, 0, 0) != source.groups(most, 0, 1), "the order changes");
    }
    // Two scans of a person are of one person and one way, and no two people share a number.
    let entry = |scan: usize| &source.cohort().index()[scan];
    for (&a, &b) in source.train_scans().iter().zip(&source.train_scans()[1..]) {
        assert_eq!(source.kin(a).person == source.kin(b).person, entry(a).id.subject == entry(b).id.subject);
        assert_eq!((source.kin(a).scan, source.kin(b).scan), (a, b));
    }
}
