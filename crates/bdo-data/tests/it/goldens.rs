//! Numbers against numpy, from `tools/reference/make_data_goldens.py`.

use bdo_data::cohort::{self, Cohort, Plan, Provenance, Tables};
use bdo_data::division::{Division, Scheme, Split};
use bdo_data::participants::Participants;
use bdo_data::quantile::{PASSES, QuantileSearch};
use bdo_data::region::Region;
use bdo_data::scaler::FittedRobustScaler;
use bdo_data::scan::{Scan, ScanId, Source};
use serde_json::{Value, json};

use crate::fixture::StopAfter;

fn goldens() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/data_goldens.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Bool(b) => vec![f64::from(u8::from(*b))],
        other => vec![other.as_f64().unwrap_or(f64::NAN)],
    }
}

/// Values are single precision on our side, double on numpy's: half a unit in the last place each way, for numbers of this size.
fn assert_close(found: &[f32], expected: &[f64], scale: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(*a) - b).abs() <= 4.0 * f64::from(f32::EPSILON) * (scale + b.abs()),
            "{what} {i}: {a} against {b}"
        );
    }
}

/// A cohort whose scans are all of one training person; the others have only constant regions, which count for nothing.
fn cohort_of(scans: &[Value], out: &std::path::Path) -> (Cohort, Split) {
    let regions = scans[0][0].as_array().unwrap().len();
    let scan = |i: usize| {
        let rows = scans.get(i);
        let frames = rows.map_or(3, |r| r.as_array().unwrap().len());
        Scan {
            id: ScanId {
                session: Some(i.to_string()),
                ..ScanId::of_subject(if rows.is_some() { "a".into() } else { format!("x{i}") })
            },
            site: None,
            tr_seconds: 1.0,
            frame_times_seconds: (0..frames).map(|t| t as f64).collect(),
            series: rows
                .map_or_else(|| vec![1.0; frames * regions], |r| numbers(r).iter().map(|x| *x as f32).collect()),
            framewise_displacement_mm: None,
            coverage: None,
            source: Source::default(),
        }
    };
    let plan = Plan {
        provenance: Provenance::of("test", json!({})),
        atlas_name: "golden".into(),
        regions: (0..regions).map(|r| Region::named(format!("r{r}"))).collect(),
        items: scans.len() + 4,
        part_bytes: 1 << 20,
    };
    let tables = |report: &cohort::BuildReport| {
        let mut participants = Participants::default();
        report.subjects().into_iter().for_each(|s| participants.insert(s, vec![]));
        Tables { participants, ..Tables::default() }
    };
    cohort::build(out, &plan, |i| Ok(scan(i)), tables, &StopAfter::never()).unwrap();
    let cohort = Cohort::open(out).unwrap();
    let split = {
        let division = Division::of_people(cohort.participants());
        let mut splits = (0..1000).map(|seed| division.split(None, Scheme::Random, seed).unwrap());
        splits.find(|s| s.train.contains("a")).unwrap()
    };
    (cohort, split)
}

#[test]
fn robust_scaling_is_numpys() {
    let dir = tempfile::tempdir().unwrap();
    for (name, case) in goldens()["robust_scaling"].as_object().unwrap() {
        let scans = case["scans"].as_array().unwrap();
        let (cohort, split) = cohort_of(scans, &dir.path().join(name));
        let scaler = FittedRobustScaler::fit(&cohort, &split.train).unwrap();
        let valid = |i: usize| numbers(&case["region_valid"][i]);
        let usable: Vec<bool> = (0..scaler.iqrs().len()).map(|r| (0..scans.len()).any(|i| valid(i)[r] > 0.0)).collect();
        // Centred values inherit the rounding of the raw ones, which are around a few hundred.
        let scale = numbers(&case["scan_means"]).iter().fold(1.0f64, |m, x| m.max(x.abs()));
        for (r, usable) in usable.iter().enumerate() {
            if *usable {
                assert_close(&scaler.medians()[r..=r], &numbers(&case["median"])[r..=r], scale, "median");
                assert_close(&scaler.iqrs()[r..=r], &numbers(&case["iqr"])[r..=r], scale, "iqr");
            } else {
                assert_eq!(scaler.iqrs()[r], 0.0, "a region without signal has no range");
            }
        }
        for (i, expected) in case["scaled"].as_array().unwrap().iter().enumerate() {
            let scaled = scaler.apply(&cohort.scan(i).unwrap());
            let least_iqr = scaler.iqrs().iter().copied().filter(|x| *x > 0.0).fold(f32::INFINITY, f32::min);
            assert_close(&scaled.values, &numbers(expected), scale / f64::from(least_iqr), &format!("{name} scan {i}"));
            let mask: Vec<f64> = scaled.region_valid.iter().map(|v| f64::from(u8::from(*v))).collect();
            assert_eq!(mask, valid(i), "{name} scan {i}");
        }
    }
}

#[test]
fn quantiles_are_numpys() {
    for case in goldens()["percentiles"].as_array().unwrap() {
        let values = numbers(&case["values"]);
        let quantiles: Vec<f64> = numbers(&case["percents"]).iter().map(|p| p / 100.0).collect();
        let mut search = QuantileSearch::new(1, &quantiles);
        for _ in 0..PASSES {
            let mut counts = search.counts();
            values.iter().for_each(|v| search.count(&mut counts, 0, *v as f32));
            search.end_pass(&counts);
        }
        let found: Vec<f32> = search.result(0).unwrap().iter().map(|x| *x as f32).collect();
        let scale = values.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        assert_close(&found, &numbers(&case["percentiles"]), scale, "percentile");
    }
}
