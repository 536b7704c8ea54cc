//! Same seed, same bytes; every scan on its own.

use super::super::drive::{DRIVES, GLOBAL};
use super::super::dynamics::{drive_equation, drive_gains, relaxation};
use super::super::{Effects, Generator, SynthSpec};
use super::small;
use crate::scan::Scan;

fn digest(scan: &Scan) -> String {
    let mut hasher = blake3::Hasher::new();
    for value in &scan.series {
        hasher.update(&value.to_le_bytes());
    }
    for value in scan.framewise_displacement_mm.iter().flatten() {
        hasher.update(&value.to_le_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_every_machine() {
    // Only operations that IEEE 754 rounds in one way are used, so this digest is not this machine's own.
    // It changes when the model changes; then the change belongs in the changelog.
    let scan = small(|s| s.frames = 20).scan(3);
    assert_eq!(digest(&scan), "8883095686d1537d");
    assert_ne!(digest(&scan), digest(&small(|s| (s.frames, s.seed) = (20, 1)).scan(3)));
    assert_ne!(digest(&scan), digest(&small(|s| (s.frames, s.population_seed) = (20, 1)).scan(3)));
}

#[test]
fn a_scan_does_not_depend_on_the_others() {
    let few = small(|_| {});
    let many = small(|s| s.subjects = 50);
    let backwards: Vec<Scan> = (0..6).rev().map(|i| few.scan(i)).collect();
    let (some, all) = (few.participants(), many.participants());
    assert!(all.subjects().zip(some.subjects()).all(|(a, b)| a == b));
    for i in 0..6 {
        assert_eq!(few.scan(i), many.scan(i), "more subjects change nothing for subject {i}");
        assert_eq!(few.scan(i), backwards[5 - i], "nor does the order");
        assert!(some.columns().iter().all(|column| some.get(i, column) == all.get(i, column)));
        assert_eq!(few.person_truth(i), many.person_truth(i));
    }
}

#[test]
fn sessions_share_the_person_and_not_the_noise() {
    let once = small(|s| s.subjects = 3);
    let twice = small(|s| (s.subjects, s.sessions) = (3, 2));
    assert_eq!(twice.scan_count(), 6);
    assert_eq!(twice.person_truth(2), once.person_truth(2));
    let (first, second) = (twice.scan(4), twice.scan(5));
    assert_eq!((first.id.subject.as_str(), first.id.session.as_deref()), ("sub-0003", Some("ses-01")));
    assert_eq!((second.id.subject.as_str(), second.id.session.as_deref()), ("sub-0003", Some("ses-02")));
    assert_eq!(first.site, second.site);
    assert_ne!(first.series, second.series);
    assert_eq!(once.scan(2).id.session, None);
    assert_eq!(once.scan(2).series, first.series, "the first session is the only one of a single-session cohort");
}

#[test]
fn every_shape_works() {
    for regions in [2, 7, 16, 460] {
        for frames in [2, 5] {
            let generator = small(|s| (s.subjects, s.regions, s.frames) = (1, regions, frames));
            let scan = generator.scan(0);
            assert_eq!(scan.series.len(), regions * frames);
            assert_eq!(scan.framewise_displacement_mm.unwrap().len(), frames);
            assert_eq!(scan.frame_times_seconds, (0..frames).map(|t| t as f64 * 0.8).collect::<Vec<_>>());
            assert!(scan.series.iter().all(|v| v.is_finite() && *v > 0.0));
        }
    }
}

#[test]
fn every_brain_is_stable_also_under_extreme_effects() {
    for effects in [Effects::default(), Effects { age_coupling: -5.0, diagnosis_between: 5.0, ..Effects::default() }] {
        let generator = small(|s| (s.subjects, s.effects) = (20, effects));
        let (regions, size) = (40, 49);
        for subject in 0..20 {
            let drift = drift_matrix(&generator, subject);
            // Block triangular: drives act on regions, not the reverse, so the two diagonal blocks decide.
            for row in regions..size {
                assert!(drift[row * size..row * size + regions].iter().all(|&x| x == 0.0));
                let others: f64 = (regions..size).filter(|&c| c != row).map(|c| drift[row * size + c].abs()).sum();
                assert!(drift[row * size + row] + others < 0.0, "Gershgorin disc of drive {row}");
            }
            // The regions' block is symmetric; it is negative definite exactly if a Cholesky factor of minus it exists.
            let mut factor = vec![0.0; regions * regions];
            for i in 0..regions {
                for j in 0..=i {
                    assert!((drift[i * size + j] - drift[j * size + i]).abs() < 1e-14);
                    let sum: f64 = (0..j).map(|k| factor[i * regions + k] * factor[j * regions + k]).sum();
                    let rest = -drift[i * size + j] - sum;
                    assert!(i != j || rest > 0.0, "subject {subject} is unstable");
                    factor[i * regions + j] = if i == j { rest.sqrt() } else { rest / factor[j * regions + j] };
                }
            }
        }
    }
}

#[test]
fn an_impossible_spec_is_refused_before_work_begins() {
    assert!(Generator::new(SynthSpec { regions: 1, ..SynthSpec::default() }).is_err());
}

/// The drift of a subject's latent state, per second: row-major over regions, then network drives, then the global drive.
fn drift_matrix(generator: &Generator, subject: usize) -> Vec<f64> {
    let (population, layout) = (&generator.population, &generator.layout);
    let person = &generator.person_truth(subject);
    let regions = layout.regions.len();
    let size = regions + DRIVES;
    let mut matrix = vec![0.0; size * size];
    for (network, members) in layout.members.iter().enumerate() {
        let n = members.len();
        let relaxation = relaxation(population, members, person, network);
        for (row, &i) in members.iter().enumerate() {
            for (column, &j) in members.iter().enumerate() {
                matrix[i * size + j] = -relaxation[row * n + column];
            }
            let [own, global] = drive_gains(population, person, network, i);
            matrix[i * size + regions + network] = own;
            matrix[i * size + regions + GLOBAL] = global;
        }
    }
    let (drift, _) = drive_equation(person);
    for (to, row) in drift.iter().enumerate() {
        let start = (regions + to) * size + regions;
        matrix[start..start + DRIVES].copy_from_slice(row);
    }
    matrix
}
