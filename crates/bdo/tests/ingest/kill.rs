//! A process that is killed at any moment costs time, never bytes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::fixture::{command, expect, noise, open, text, tree};

const SCANS: usize = 200;

/// Enough bytes for several parts: 200 scans of 300 frames and 100 regions are 24 MB.
fn source(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for scan in 0..SCANS {
        let mut rows = String::new();
        for t in 0..300 {
            for r in 0..100 {
                write!(rows, "{:.3}\t", noise(&[scan, t, r])).unwrap();
            }
            rows.push('\n');
        }
        fs::write(folder.join(format!("{scan:03}.tsv")), rows).unwrap();
    }
    fs::write(folder.join("007.tsv"), "no table\n").unwrap();
}

#[test]
fn killed_at_any_point_and_run_again_gives_the_same_bytes() {
    let full = std::env::var("BDO_TORTURE").is_ok_and(|v| v == "full");
    let points = if full { 50 } else { 5 };
    let dir = tempfile::tempdir().unwrap();
    let (source_folder, whole) = (dir.path().join("source"), dir.path().join("whole"));
    source(&source_folder);
    let arguments =
        |out: &Path| ["--tr", "2", "--format", "series", "--quiet", text(&source_folder), text(out)].map(str::to_owned);
    let start = Instant::now();
    expect(1, &arguments(&whole).each_ref().map(String::as_str));
    let mut duration = start.elapsed();
    let expected = tree(&whole);
    assert_eq!(open(&whole).len(), SCANS - 1);
    assert!(expected.keys().filter(|f| f.starts_with("scans/")).count() > 1, "{:?}", expected.keys());
    // Those that count come when a part is closed, which the next process goes on from; the others must end as well.
    let (mut killed, mut early, mut across) = (0, 0, 0);
    while across < points {
        let point = killed + early;
        assert!(
            point < 10 * points + 40,
            "{across} of {killed} kills came when a part was closed, {early} came too late"
        );
        let out = dir.path().join("cohort");
        let given = arguments(&out);
        let given = given.each_ref().map(String::as_str);
        let start = Instant::now();
        let mut child = command(&given).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Steps of the golden ratio fall everywhere, however many there are.
        let moment = duration.mul_f64((point as f64 * 0.618_034 + 0.5).fract());
        while start.elapsed() < moment && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = start.elapsed();
        // SIGKILL: no handler runs.
        child.kill().unwrap();
        if child.wait().unwrap().code().is_none() {
            killed += 1;
            across += usize::from(has_closed_part(dir.path()));
        } else {
            // A busy machine made the first run slow: this run was over before its moment, which comes sooner from now on.
            duration = duration.min(ended);
            early += 1;
        }
        let again = crate::fixture::ingest(&given);
        // 1 for the file that is no table, also when everything was published before the kill.
        assert_eq!(again.status.code(), Some(1), "{}", String::from_utf8_lossy(&again.stderr));
        let found = tree(&out);
        assert!(found.keys().eq(expected.keys()), "{point}: {:?}", found.keys());
        let differing: Vec<_> =
            found.iter().filter(|(name, bytes)| expected[*name] != **bytes).map(|(n, _)| n).collect();
        assert!(differing.is_empty(), "{point}: {differing:?}");
        fs::remove_dir_all(&out).unwrap();
        let left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|n| n.starts_with("cohort"))
            .collect();
        assert!(left.is_empty(), "{point}: {left:?}");
    }
    println!(
        "COUNTED: {across} kills of an ingest across closed parts, {} more before the first, all with the same bytes",
        killed - across
    );
}

/// Whether a build that was left behind has a part that is complete.
fn has_closed_part(folder: &Path) -> bool {
    let inside = |path: std::path::PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path());
    let left =
        inside(folder.to_path_buf()).filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().contains("partial")));
    // A part has its description once it is closed.
    left.flat_map(|p| inside(p.join("work")))
        .any(|p| p.extension().is_some_and(|e| e == "json") && p.to_string_lossy().contains("part-"))
}
