//! Runs the tests and counts them: passed, failed, and those that passed because they skipped what they are for.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use crate::root;

/// Runs `cargo test` and prints its lines, but not the output of tests that passed: of that only the lines that say what was
/// skipped count.
pub(crate) fn run(arguments: &[&str], environment: &[(&str, &Path)]) -> anyhow::Result<()> {
    println!("== tests: cargo {}", arguments.join(" "));
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).args(["--", "--show-output"]).envs(environment.iter().copied()).current_dir(root());
    let mut tally = Tally::default();
    let status = each_line(&mut command, "tests", |line| {
        if tally.shows(line) {
            println!("{line}");
        }
    })?;
    for (test, said) in &tally.skipped {
        println!("{test}: {said}");
    }
    println!("== tests: {}, {:.0} s", tally.summary(), started.elapsed().as_secs_f64());
    if !status.success() {
        bail!("tests failed");
    }
    Ok(())
}

/// Runs cargo and hands on the lines of its output as they come.
pub(crate) fn each_line(cargo: &mut Command, what: &str, mut take: impl FnMut(&str)) -> anyhow::Result<ExitStatus> {
    let mut running = cargo.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start cargo for {what}"))?;
    for line in BufReader::new(running.stdout.take().context("the output of cargo is piped")?).lines() {
        take(&line.context("cannot read what the tests say")?);
    }
    running.wait().with_context(|| format!("cannot wait for {what}"))
}

/// What the lines of `cargo test -- --show-output` add up to.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// Test and reason, one for each test that did not do what it is for.
    skipped: Vec<(String, String)>,
    /// Those that did it on some of the instruction sets: the others are not on this machine.
    in_part: Vec<String>,
    /// Between the header of the output of passed tests and the result of their program.
    inside_successes: bool,
    test: String,
}

impl Tally {
    /// Takes in a line and says whether it is worth printing.
    fn shows(&mut self, line: &str) -> bool {
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.inside_successes = false;
            let count = |word: &str| {
                let part = rest.split(';').find_map(|part| part.trim().strip_suffix(word));
                part.and_then(|part| part.rsplit(' ').find(|w| !w.is_empty())?.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
            return true;
        }
        match line {
            "successes:" => self.inside_successes = true,
            "failures:" => self.inside_successes = false,
            _ => {}
        }
        if self.inside_successes {
            let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
            if let Some(name) = name {
                name.clone_into(&mut self.test);
            } else if line.starts_with("SKIPPED:") && self.skipped.last().is_none_or(|(test, _)| *test != self.test) {
                self.skipped.push((self.test.clone(), line.to_owned()));
            } else if line.starts_with("SKIPPED on ") && self.in_part.last() != Some(&self.test) {
                self.in_part.push(self.test.clone());
            }
        }
        !self.inside_successes
    }

    /// Every test once: one that skipped what it is for did not pass.
    fn summary(&self) -> String {
        let skipped = self.skipped.len() as u64;
        let (passed, failed) = (self.passed.saturating_sub(skipped), self.failed);
        let in_part = match self.in_part.len() {
            0 => String::new(),
            some => format!(" ({some} in part)"),
        };
        format!("{passed} passed{in_part}, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_skipped_is_not_counted_as_passed() {
        let said = "running 3 tests\ntest a ... ok\ntest b ... ok\ntest c ... FAILED\n\nsuccesses:\n\n---- a stdout ----\n\
                    SKIPPED: no disk\nSKIPPED: no card\n\n---- b stdout ----\nSKIPPED on AVX-512: none here\n17 scans\n\n\nsuccesses:\n    a\n    b\n\n\
                    failures:\n\n---- c stdout ----\nwrong\n\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; \
                    0 measured; 0 filtered out; finished in 0.01s";
        let mut tally = Tally::default();
        let shown: Vec<&str> = said.lines().filter(|line| tally.shows(line)).collect();
        assert_eq!(tally.summary(), "1 passed (1 in part), 1 failed, 1 skipped");
        assert_eq!(tally.skipped, [("a".to_owned(), "SKIPPED: no disk".to_owned())]);
        assert!(shown.contains(&"wrong") && !shown.contains(&"17 scans"), "{shown:?}");
    }
}
