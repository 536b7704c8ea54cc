//! The Python package: built, installed where nothing else is, tried, measured and tested.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::{python, root};

const MOST_MB: f64 = 40.0;

/// `cargo xtask wheel`: everything, tests included unless `--no-tests` is given.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let Some(python) = python::interpreter() else {
        bail!("a wheel needs Python 3.9 or later and packages from its registry, found none");
    };
    let wheel = build(&python)?;
    try_alone(&wheel)?;
    if arguments.iter().any(|a| a == "--no-tests") { Ok(()) } else { tests(&python, &wheel) }
}

fn build(python: &Path) -> anyhow::Result<PathBuf> {
    let started = Instant::now();
    let out = root().join("target/wheels");
    // A wheel of an earlier version must not be taken for this one.
    let _ = std::fs::remove_dir_all(&out);
    let mut command = Command::new(python);
    command.args(["-m", "maturin", "build", "--release", "--locked", "--quiet", "--out"]).arg(&out);
    command.current_dir(root().join("bindings/python"));
    done(&mut command, "maturin")?;
    let mut found = std::fs::read_dir(&out).with_context(|| out.display().to_string())?;
    let wheel = found.next().context("expected a wheel, found none")??.path();
    let megabytes = std::fs::metadata(&wheel)?.len() as f64 / 1e6;
    println!("== wheel: {} of {megabytes:.1} MB in {:.0} s", wheel.display(), started.elapsed().as_secs_f64());
    if megabytes > MOST_MB {
        bail!("expected a wheel of at most {MOST_MB} MB, found {megabytes:.1}");
    }
    Ok(wheel)
}

/// Installs it into an environment that holds nothing else, and runs what a newcomer would run.
fn try_alone(wheel: &Path) -> anyhow::Result<()> {
    let folder = root().join("target/python-alone");
    let python = python::empty(&folder).context("cannot make a virtual environment")?;
    if !python::install(&python, &[&wheel.to_string_lossy()]) {
        bail!("{} cannot be installed", wheel.display());
    }
    let place = folder.join("demo");
    // No Rust on the path: the wheel is all there is.
    let clean = |program: &Path| {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command
    };
    let code = "import bdo, sys; print(bdo.demo(sys.argv[1]))";
    done(clean(&python).args(["-c", code]).arg(&place), "bdo.demo()")?;
    done(clean(&folder.join("bin/bdo")).arg("--version"), "bdo --version")
}

/// The tests in Python, and the examples of the documentation, beside the program of cargo where it was built.
fn tests(python: &Path, wheel: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    if !python::install(python, &["--force-reinstall", "--no-deps", &wheel.to_string_lossy()]) {
        bail!("{} cannot be installed", wheel.display());
    }
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "--quiet", "tests", "bdo"]).current_dir(root().join("bindings/python"));
    let program = root().join("target/release/bdo");
    if program.is_file() {
        command.env("BDO_PROGRAM", program);
    }
    done(&mut command, "tests in Python")?;
    println!("== wheel: tests in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn done(command: &mut Command, what: &str) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {what}"))?;
    if status.success() { Ok(()) } else { bail!("{what} failed") }
}
