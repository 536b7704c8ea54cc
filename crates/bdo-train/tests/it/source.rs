//! Groups of scans that were made in the same way, and the scans that one of several processes reads.

use bdo_data::synth::{Generator, SynthSpec, simulate};
use bdo_model::intake::{MaskSettings, NoiseShape};
use bdo_train::fit::Unobserved;
use bdo_train::learner::Hand;
use bdo_train::settings::TrainSettings;
use bdo_train::source::{Draw, ScanSource};
use std::collections::BTreeSet;

fn source(folder: &std::path::Path) -> ScanSource {
    let spec = SynthSpec { subjects: 30, sessions: 2, regions: 4, frames: 12, sites: 3, ..SynthSpec::default() };
    let cohort = simulate(&Generator::new(spec).unwrap(), folder, 32, &Unobserved).unwrap();
    ScanSource::new(cohort, &TrainSettings { split_seed: 1, ..TrainSettings::default() }).unwrap()
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

#[test]
fn a_process_reads_the_scans_of_its_own_micro_batches_only() {
    let dir = tempfile::tempdir().unwrap();
    let source = source(&dir.path().join("c"));
    let noise = NoiseShape { width: 4, draws: 1, sample_latent: false, unit_input: false, unit_regions: false };
    let mask = MaskSettings { varied: 0.5, ..MaskSettings::default() };
    let scans = &source.train_scans()[..12];
    let batch = |rank: usize, ranks: usize| {
        let hand = Hand { rank, ranks };
        let draw = Draw { seed: 1, epoch: 0, mask, noise, pairs: true, micro_batch_size: 4, hand };
        source.batch(scans, &draw).map(Option::unwrap)
    };
    let whole = batch(0, 1).unwrap();
    assert_eq!(whole.scans, 24);
    for ranks in 2..5 {
        let hands: Vec<_> = (0..ranks).map(|rank| batch(rank, ranks).unwrap()).collect();
        for (number, piece) in whole.pieces.iter().enumerate() {
            for (rank, found) in hands.iter().enumerate() {
                assert_eq!((found.scans, found.pieces.len()), (whole.scans, whole.pieces.len()));
                let expected = if number % ranks == rank { piece.as_ref() } else { None };
                assert!(found.pieces[number].as_ref() == expected, "piece {number}, rank {rank} of {ranks}");
            }
        }
    }
    // A damaged scan of the first micro-batch stops the process that reads it, and no other.
    let entry = &source.cohort().index()[scans[0]];
    let part = source.cohort().folder().join(&source.cohort().manifest().parts[entry.part].file);
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[(entry.offset + entry.bytes / 2) as usize] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    assert!(batch(0, 2).unwrap_err().to_string().contains("is damaged"));
    assert!(batch(1, 2).unwrap() == batch(1, 2).unwrap());
}
