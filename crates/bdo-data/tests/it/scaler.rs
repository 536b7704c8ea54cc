//! The scaler sees training people only.

use bdo_data::cohort::Cohort;
use bdo_data::division::{Division, Scheme, Split};
use bdo_data::scaler::FittedRobustScaler;

use crate::fixture::{REGIONS, StopAfter, build_with, scan};

fn split(cohort: &Cohort) -> Split {
    Division::of_people(cohort.participants()).split(None, Scheme::Random, 0).unwrap()
}

#[test]
fn a_scaler_fitted_on_training_people_does_not_change_when_the_others_do() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first");
    build_with(&first, 40, &|i| Ok(scan(i)), &StopAfter::never()).unwrap();
    let first = Cohort::open(&first).unwrap();
    let split_of_first = split(&first);
    let fitted = serde_json::to_string(&FittedRobustScaler::fit(&first, &split_of_first.train).unwrap()).unwrap();
    for change in 0..4 {
        let out = dir.path().join(format!("changed-{change}"));
        let produce = |i: usize| {
            let mut scan = scan(i);
            if !split_of_first.train.contains(&scan.id.subject) {
                for x in &mut scan.series {
                    *x = match change {
                        0 => *x * 1e6,
                        1 => 0.0,
                        2 => f32::NAN,
                        _ => -*x + i as f32,
                    };
                }
            }
            Ok(scan)
        };
        build_with(&out, 40, &produce, &StopAfter::never()).unwrap();
        let changed = Cohort::open(&out).unwrap();
        assert_eq!(split(&changed), split_of_first);
        let again = serde_json::to_string(&FittedRobustScaler::fit(&changed, &split_of_first.train).unwrap()).unwrap();
        assert_eq!(again, fitted);
    }
    let other = dir.path().join("train-changed");
    let produce = |i: usize| {
        let mut scan = scan(i);
        if split_of_first.train.contains(&scan.id.subject) {
            scan.series.iter_mut().for_each(|x| *x *= 2.0);
        }
        Ok(scan)
    };
    build_with(&other, 40, &produce, &StopAfter::never()).unwrap();
    let other = Cohort::open(&other).unwrap();
    assert_ne!(
        serde_json::to_string(&FittedRobustScaler::fit(&other, &split_of_first.train).unwrap()).unwrap(),
        fitted
    );
}

#[test]
fn scaled_scans_have_no_nan_and_a_mask() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("c");
    build_with(&out, 40, &|i| Ok(scan(i)), &StopAfter::never()).unwrap();
    let cohort = Cohort::open(&out).unwrap();
    let scaler = FittedRobustScaler::fit(&cohort, &split(&cohort).train).unwrap();
    for i in 0..cohort.len() {
        let scaled = scaler.apply(&cohort.scan(i).unwrap());
        assert!(scaled.values.iter().all(|x| x.is_finite()));
        assert_eq!(scaled.times_seconds[0], 0.0);
        let expected: Vec<bool> = (0..REGIONS).map(|r| r != 2 && !(r == 4 && i % 3 == 0)).collect();
        assert_eq!(scaled.region_valid, expected);
        for (k, x) in scaled.values.iter().enumerate() {
            assert!(expected[k % REGIONS] || *x == 0.0);
        }
    }
}

#[test]
fn threads_do_not_change_a_fit() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("c");
    build_with(&out, 40, &|i| Ok(scan(i)), &StopAfter::never()).unwrap();
    let cohort = Cohort::open(&out).unwrap();
    let fit = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            serde_json::to_string(&FittedRobustScaler::fit(&cohort, &split(&cohort).train).unwrap()).unwrap()
        })
    };
    assert_eq!(fit(1), fit(3));
}
