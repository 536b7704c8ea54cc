//! Interrupted builds end in the same bytes, and nothing half-made has the final name.

use bdo_data::cohort::{Cohort, CohortError, Rejection};

use crate::fixture::{StopAfter, build, build_with, bytes, cohort, scan};

#[test]
fn what_is_stored_is_what_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let opened = cohort(&dir.path().join("c"), 11);
    assert_eq!(opened.len(), 11);
    assert!(opened.manifest().parts.len() > 1, "the fixture should span several parts");
    for i in 0..11 {
        let (stored, given) = (opened.scan(i).unwrap(), scan(i));
        // NaN differs from itself, so the series are compared as bits.
        let bits = |s: &bdo_data::scan::Scan| s.series.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&stored), bits(&given));
        assert_eq!(
            (&stored.id, &stored.site, &stored.frame_times_seconds),
            (&given.id, &given.site, &given.frame_times_seconds)
        );
        assert_eq!(
            (&stored.framewise_displacement_mm, &stored.coverage, &stored.source),
            (&given.framewise_displacement_mm, &given.coverage, &given.source)
        );
        assert_eq!(opened.index()[i].invalid_regions, 1 + usize::from(i % 3 == 0));
    }
    assert_eq!(opened.participants().get(1, "age"), Some("21"));
    assert_eq!(opened.participants().get(0, "sex"), None);
}

#[test]
fn stopping_anywhere_and_going_on_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    cohort(&dir.path().join("whole"), 40);
    let expected = bytes(&dir.path().join("whole"));
    for stop in [0, 1, 5, 9, 17, 26, 30] {
        let out = dir.path().join(format!("c{stop}"));
        let error = build(&out, 40, &StopAfter::items(stop)).unwrap_err();
        assert!(matches!(error, CohortError::Interrupted { .. }), "{error}");
        assert!(!out.exists());
        build(&out, 40, &StopAfter::items(stop + 12)).ok();
        if !out.exists() {
            build(&out, 40, &StopAfter::never()).unwrap();
        }
        assert_eq!(bytes(&out), expected, "stopped after {stop}");
        let left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains("partial"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn threads_do_not_change_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let with = |threads: usize| {
        let out = dir.path().join(format!("t{threads}"));
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| cohort(&out, 30));
        bytes(&out)
    };
    let one = with(1);
    assert_eq!(one, with(2));
    assert_eq!(one, with(5));
}

#[test]
fn rejections_and_duplicates_are_listed_and_survive_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let produce = |i: usize| match i {
        3 | 30 => {
            Err(Rejection { file: format!("f{i}"), reason: "length".into(), expected: "2".into(), found: "1".into() })
        }
        7 => Ok(scan(6)),
        _ => Ok(scan(i)),
    };
    let out = dir.path().join("c");
    build_with(&out, 40, &produce, &StopAfter::items(20)).unwrap_err();
    let report = build_with(&out, 40, &produce, &StopAfter::never()).unwrap();
    let rejected: Vec<_> = report.rejected.iter().map(|r| (r.file.as_str(), r.reason.as_str())).collect();
    assert_eq!(rejected, [("f3", "length"), ("file-6", "duplicate scan"), ("f30", "length")]);
    assert_eq!(Cohort::open(&out).unwrap().len(), 37);
}

#[test]
fn a_cohort_is_never_overwritten_and_never_empty() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("c");
    cohort(&out, 3);
    let before = bytes(&out);
    assert!(matches!(build(&out, 4, &StopAfter::never()), Err(CohortError::Exists { .. })));
    assert_eq!(bytes(&out), before);
    let empty = dir.path().join("empty");
    let reject = |i: usize| {
        Err(Rejection { file: format!("f{i}"), reason: "r".into(), expected: "e".into(), found: "f".into() })
    };
    let error = build_with(&empty, 2, &reject, &StopAfter::never()).unwrap_err().to_string();
    assert_eq!(error, "expected at least one scan, found none: f0: r: expected e, found f (and 1 more were rejected)");
    assert!(!empty.exists());
}
