//! The long runs in full: kills, flipped bits, truncations, full disks, large cohorts. `cargo xtask check` runs a tenth of them.
//! What each of them counted, and how long it took, is repeated at the end.

use std::process::Command;
use std::time::Instant;

use anyhow::bail;

use crate::{packages, python, root, tally};

/// Every test whose length depends on `BDO_TORTURE`, by a part of its name, and the number that each of its counts must reach in
/// full (0 where it says something else).
const TESTS: [(&str, u64); 25] = [
    ("a_run_killed_at_random_moments", 1000),
    ("every_corruption_of_the_newest", 500),
    ("a_full_disk_never_costs_a_checkpoint", 100),
    ("a_token_run_killed_at_random_moments", 60),
    ("killed_at_any_point", 50),
    ("a_killed_write_goes_on", 50),
    ("a_timed_run_killed", 20),
    ("a_killed_rank_ends_the_job", 20),
    ("every_flipped_bit", 1000),
    ("every_truncation", 200),
    ("a_cohort_of_many_scans_opens_at_once", 10_000),
    ("two_thousand_whole_brains", 2000),
    ("a_full_disk", 0),
    ("any_file_of_a_model_directory", 0),
    ("bf16_trains_as_well_as_f32", 300),
    ("confound_tables", 0),
    ("descriptions_of_grayordinates", 0),
    ("fifty_injected_nans", 0),
    ("images", 0),
    ("matlab_and_hdf5_files", 0),
    ("names_of_bids_files", 0),
    ("npy_arrays", 0),
    ("tables_of_series_people_and_regions", 0),
    ("ten_thousand_random_cohorts", 0),
    ("threads_signals_memory_and_bad_calls", 0),
];

/// Tests say what they counted in lines that begin so; the number comes first.
const COUNTED: &str = "COUNTED: ";
const SKIPPED: &str = "SKIPPED: ";

/// `cargo xtask torture [--reduced]`: reduced counts try the command itself.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let full = !arguments.iter().any(|a| a == "--reduced");
    packages::launchers();
    let python = python::interpreter();
    let program = root().join("target/debug/bdo");
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--workspace", "--no-fail-fast", "--", "--nocapture", "--test-threads", "1"]);
    command.args(TESTS.map(|(name, _)| name)).env("BDO_PROGRAM", program).envs(python.map(|p| ("BDO_PYTHON", p)));
    command.envs(full.then_some(("BDO_TORTURE", "full"))).current_dir(root());
    let mut log = Log::default();
    let mut since = Instant::now();
    let status = tally::each_line(&mut command, "the torture", |line| {
        println!("{line}");
        if log.take_in(line, since.elapsed().as_secs_f64()) {
            since = Instant::now();
        }
    })?;
    let seconds = started.elapsed().as_secs_f64();
    println!("== torture: {} passed, {} failed, {seconds:.0} s", log.passed, log.failed);
    print!("{}", log.summary());
    let short = log.short(full);
    if !short.is_empty() {
        bail!("{}", short.join("\n"));
    }
    if !status.success() {
        bail!("torture failed");
    }
    Ok(())
}

/// What the lines of `cargo test -- --nocapture` add up to.
#[derive(Default)]
struct Log {
    passed: usize,
    failed: usize,
    tests: Vec<Test>,
}

#[derive(Default)]
struct Test {
    name: String,
    /// What it counted, and what it skipped.
    said: Vec<String>,
    seconds: f64,
}

impl Log {
    /// Takes in a line, which came so many seconds after the last end; says whether a test, or a build, ended with it.
    fn take_in(&mut self, line: &str, seconds: f64) -> bool {
        // Without capturing, what a test prints first follows its name on the same line.
        let named = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        if let Some((name, _)) = named {
            self.tests.push(Test { name: name.trim().to_owned(), ..Test::default() });
        }
        let said = named.map_or(line, |(_, said)| said);
        if let Some(test) = self.tests.last_mut() {
            if let Some(counted) = said.strip_prefix(COUNTED) {
                test.said.push(counted.to_owned());
            } else if said.starts_with(SKIPPED) {
                test.said.push(said.to_owned());
            }
        }
        let (ok, wrong) = (said == "ok", said == "FAILED");
        self.passed += usize::from(ok);
        self.failed += usize::from(wrong);
        if let Some(test) = self.tests.last_mut().filter(|_| ok || wrong) {
            test.seconds = seconds;
        }
        ok || wrong || line.starts_with("running ")
    }

    /// One line for each count, in the order of the list, with the time of its test.
    fn summary(&self) -> String {
        let place = |test: &Test| TESTS.iter().position(|(part, _)| test.name.contains(part));
        let mut tests: Vec<&Test> = self.tests.iter().filter(|test| !test.said.is_empty()).collect();
        tests.sort_by_key(|test| place(test));
        let lines = tests.iter().flat_map(|test| {
            let about = move |said: &String| format!("{said}  [{}, {:.0} s]\n", test.name, test.seconds);
            test.said.iter().map(about)
        });
        lines.collect()
    }

    /// Tests that did not run, or did not count as much as they should.
    fn short(&self, full: bool) -> Vec<String> {
        let mut short = vec![];
        for (part, wanted) in TESTS {
            let found: Vec<&Test> = self.tests.iter().filter(|test| test.name.contains(part)).collect();
            if found.is_empty() {
                short.push(format!("{part}: expected a test of this name, found none"));
            }
            let number = |said: &String| said.split(' ').find_map(|word| word.parse::<u64>().ok());
            for test in found.iter().filter(|_| full && wanted > 0) {
                let counts: Vec<u64> = test.said.iter().filter_map(number).collect();
                if counts.is_empty() || counts.iter().any(|count| *count < wanted) {
                    short.push(format!("{}: expected {wanted}, counted {counts:?}", test.name));
                }
            }
        }
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_is_said() {
        let mut log = Log::default();
        let said = "running 2 tests\ntest training::a_run_killed_at_random_moments_ends ... COUNTED: 1000 kills of training\nok\n\
                    test kill::killed_at_any_point ... noise\nCOUNTED: 5 kills of an ingest\nok\n\
                    test checkpoint::a_full_disk_never_costs_a_checkpoint ... SKIPPED: no small disk\nok\ntest images::a ... FAILED";
        for line in said.lines() {
            log.take_in(line, 2.0);
        }
        assert_eq!((log.passed, log.failed), (3, 1));
        let summary = log.summary();
        let first = summary.lines().next().map(str::to_owned);
        let expected = "1000 kills of training  [training::a_run_killed_at_random_moments_ends, 2 s]";
        assert_eq!((first.as_deref(), summary.lines().count()), (Some(expected), 3));
        let short = log.short(true);
        assert!(short.contains(&"kill::killed_at_any_point: expected 50, counted [5]".to_owned()), "{short:?}");
        assert!(short.iter().any(|s| s.contains("never_costs_a_checkpoint: expected 100, counted []")), "{short:?}");
        assert!(!short.iter().any(|s| s.contains("killed_at_random_moments_ends")), "{short:?}");
        assert!(log.short(false).iter().all(|s| s.contains("found none")));
    }
}
