//! Every check, cheapest first.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::{devices, packages, python, root, tally};

/// Largest file the repository may hold.
const MOST_BYTES: u64 = 2 << 20;

pub(crate) fn run() -> anyhow::Result<()> {
    tracked_files()?;
    step("format", &["fmt", "--all", "--check"], &[])?;
    step("lints", &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"], &[])?;
    step("documentation", &["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "--deny warnings")])?;
    devices::types()?;
    packages::browser();
    packages::launchers();
    let python = python::interpreter();
    // The tests in Python compare with the program of the same build.
    let program = root().join("target/debug/bdo");
    let mut environment = vec![("BDO_PROGRAM", program.as_path())];
    environment.extend(python.as_deref().map(|p| ("BDO_PYTHON", p)));
    // Optimised tests run from one build; `--no-fail-fast` so that one failure does not hide the others' counts.
    tally::run(&["test", "--workspace", "--no-fail-fast"], &environment)
}

/// Runs cargo and says how long it took.
pub(crate) fn step(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    println!("== {name}: cargo {}", arguments.join(" "));
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).envs(environment.iter().copied()).current_dir(root());
    let status = command.status().with_context(|| format!("cannot start cargo for {name}"))?;
    if !status.success() {
        bail!("{name} failed");
    }
    println!("== {name}: {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// No large files and no paths of somebody's machine in what is tracked.
fn tracked_files() -> anyhow::Result<()> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let Ok(listed) = listed.map(|l| l.stdout) else {
        println!("SKIPPED: git is not at hand, tracked files were not looked at");
        return Ok(());
    };
    for name in String::from_utf8_lossy(&listed).split('\0').filter(|n| !n.is_empty()) {
        let bytes = std::fs::metadata(root().join(name)).map_or(0, |m| m.len());
        if bytes > MOST_BYTES {
            bail!("{name}: expected at most {MOST_BYTES} bytes, found {bytes}");
        }
    }
    Ok(())
}
