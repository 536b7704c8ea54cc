//! The Python package: built, installed where nothing else is, tried, measured and tested.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::{python, root};

/// Largest wheel, in MB.
const MOST_MB: f64 = 40.0;

/// `cargo xtask wheel`: everything, tests included unless `--no-tests` is given. The environment is that of the tests.
pub(crate) fn run(arguments: &[String], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let Some(python) = python::wheel_interpreter() else {
        bail!("a wheel needs Python 3.9 or later and packages from its registry, found none");
    };
    let wheel = build(&python)?;
    try_alone(&wheel)?;
    if arguments.iter().any(|a| a == "--no-tests") { Ok(()) } else { tests(&python, &wheel, environment) }
}

/// Builds the wheel in a build folder of its own, since `PyO3` changes the features of shared dependencies.
fn build(python: &Path) -> anyhow::Result<PathBuf> {
    same_versions()?;
    let started = Instant::now();
    let out = root().join("target/wheels");
    // A wheel of an earlier version must not be taken for this one.
    let _ = std::fs::remove_dir_all(&out);
    let mut command = Command::new(python);
    command.args(["-m", "maturin", "build", "--release", "--locked", "--quiet", "--out"]).arg(&out);
    command.current_dir(root().join("bindings/python")).env("CARGO_TARGET_DIR", root().join("target/wheel"));
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
fn tests(python: &Path, wheel: &Path, environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let started = Instant::now();
    if !python::install(python, &["--force-reinstall", "--no-deps", &wheel.to_string_lossy()]) {
        bail!("{} cannot be installed", wheel.display());
    }
    let mut command = Command::new(python);
    command
        .args(["-m", "pytest", "--quiet", "tests", "bdo"])
        .current_dir(root().join("bindings/python"))
        .envs(environment.iter().copied());
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

/// The bindings have a lock of their own; what both hold must be the same.
fn same_versions() -> anyhow::Result<()> {
    let ours = packages(&root().join("Cargo.lock"))?;
    let names: BTreeSet<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
    for (name, version) in packages(&root().join("bindings/python/Cargo.lock"))? {
        if names.contains(name.as_str()) && !ours.contains(&(name.clone(), version.clone())) {
            bail!(
                "bindings/python/Cargo.lock: expected {name} as in Cargo.lock, found {version}; hint: copy Cargo.lock there \
                 and run `cargo metadata` beside it"
            );
        }
    }
    Ok(())
}

/// Name and version of every package of a lock.
fn packages(lock: &Path) -> anyhow::Result<BTreeSet<(String, String)>> {
    let text = std::fs::read_to_string(lock).with_context(|| lock.display().to_string())?;
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let (mut name, mut found) = (String::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(package) = value(line, "name = ") {
            name = package;
        } else if let Some(version) = value(line, "version = ").filter(|_| !name.is_empty()) {
            found.insert((std::mem::take(&mut name), version));
        }
    }
    Ok(found)
}
