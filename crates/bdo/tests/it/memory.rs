//! Memory does not grow with the number of people; a large cohort opens at once.

use std::time::Instant;

use crate::program::{full_torture, run_json};

#[test]
fn memory_does_not_grow_with_the_number_of_people() {
    let dir = tempfile::tempdir().unwrap();
    let peak = |name: &str, subjects: usize| {
        let made = run_json(
            dir.path(),
            &format!("simulate {name} --subjects {subjects} --regions 60 --frames 100 --part-mib 1"),
        );
        made["peak_rss_mib"].as_f64().unwrap()
    };
    let (few, many) = (peak("few", 40), peak("many", 800));
    // 760 more scans are 18 MB of series; what may grow is the index and the truth, about 2 kB a person.
    assert!(many - few < 8.0, "{few} MiB for 40 people, {many} MiB for 800");
}

#[test]
fn two_thousand_whole_brains_fit_in_a_gibibyte() {
    if !full_torture() {
        println!("SKIPPED: 2000 whole brains are simulated only by `cargo xtask torture`");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let made = run_json(dir.path(), "simulate c --subjects 2000 --regions 450 --frames 490");
    println!(
        "COUNTED: 2000 x 450 x 490 in {:.0} s, peak {} MiB",
        started.elapsed().as_secs_f64(),
        made["peak_rss_mib"]
    );
    assert!(made["peak_rss_mib"].as_f64().unwrap() < 1024.0);
}

#[test]
fn a_cohort_of_many_scans_opens_at_once() {
    let scans = if full_torture() { 10_000 } else { 1000 };
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), &format!("simulate c --subjects {scans} --regions 100 --frames 100"));
    // The quickest of five: what else the machine does is not asked about.
    let open = || {
        let started = Instant::now();
        let cohort = bdo_data::cohort::Cohort::open(&dir.path().join("c")).unwrap();
        let opened = started.elapsed();
        assert_eq!(cohort.len(), scans);
        opened
    };
    let opened = (0..5).map(|_| open()).min().unwrap();
    println!("COUNTED: {scans} scans of 100 x 100 open in {:.0} ms", opened.as_secs_f64() * 1e3);
    assert!(opened.as_secs_f64() < 1.0, "{opened:?}");
}
