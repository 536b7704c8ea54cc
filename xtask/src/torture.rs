//! The long runs in full: kills, flipped bits, truncations, full disks, large cohorts. `cargo xtask check` runs a tenth of them.
//! What each of them counted is repeated at the end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use crate::{python, root};

/// Every test whose length depends on `BDO_TORTURE`, by a part of its name.
const TESTS: [&str; 24] = [
    "a_cohort_of_many_scans_opens_at_once",
    "a_full_disk",
    "a_killed_rank_ends_the_job",
    "a_killed_write_goes_on",
    "a_run_killed_at_random_moments",
    "a_timed_run_killed",
    "a_token_run_killed_at_random_moments",
    "bf16_trains_as_well_as_f32",
    "any_file_of_a_model_directory",
    "confound_tables",
    "descriptions_of_grayordinates",
    "every_corruption_of_the_newest",
    "every_flipped_bit",
    "every_truncation",
    "fifty_injected_nans",
    "killed_at_any_point",
    "images",
    "matlab_and_hdf5_files",
    "names_of_bids_files",
    "npy_arrays",
    "numbers_inputs_examples_and_the_notebook",
    "tables_of_series_people_and_regions",
    "ten_thousand_random_cohorts",
    "two_thousand_whole_brains",
];

/// Tests say what they counted in lines that begin so.
const COUNTED: &str = "COUNTED: ";

/// `cargo xtask torture [--reduced]`: reduced counts try the command itself.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut environment = vec![];
    if !arguments.iter().any(|a| a == "--reduced") {
        environment.push(("BDO_TORTURE", "full"));
    }
    let python = python::interpreter();
    environment.extend(python.as_deref().map(|p| ("BDO_PYTHON", p)));
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--workspace", "--no-fail-fast", "--", "--nocapture", "--test-threads", "1"]).args(TESTS);
    command.envs(environment.iter().copied()).current_dir(root()).stdout(Stdio::piped());
    let mut running = command.spawn().context("cannot start cargo for the torture")?;
    let (mut counted, mut passed, mut failed) = (vec![], 0, 0);
    for line in BufReader::new(running.stdout.take().context("the output of cargo is piped")?).lines() {
        let line = line.context("cannot read what the tests say")?;
        println!("{line}");
        // Without capturing, what a test prints follows its name on the same line.
        if let Some((before, what)) = line.split_once(COUNTED) {
            let test = before.trim().trim_start_matches("test ").trim_end_matches(" ...");
            counted.push(if test.is_empty() { what.to_owned() } else { format!("{test}: {what}") });
        }
        passed += usize::from(line.ends_with("ok") && (line == "ok" || line.starts_with("test ")));
        failed += usize::from(line.ends_with("FAILED") && (line == "FAILED" || line.starts_with("test ")));
    }
    let status = running.wait().context("cannot wait for the torture")?;
    println!("== torture: {passed} passed, {failed} failed, {:.0} s", started.elapsed().as_secs_f64());
    counted.iter().for_each(|line| println!("{line}"));
    if !status.success() {
        bail!("torture failed");
    }
    Ok(())
}
