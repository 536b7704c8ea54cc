//! The tests in Python, on the module as cargo built it. `BDO_PYTHON` names the interpreter; `cargo xtask wheel` runs the same tests on
//! an installed wheel.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Tests that load the processors, beside which the others can wait.
const BUSY: [&str; 2] = ["tests/test_hostile.py", "tests/test_processes.py"];

#[test]
fn threads_signals_memory_and_bad_calls() {
    run("pytest", "pytest, hypothesis", &[&["--quiet", "-rs"], BUSY.as_slice()].concat());
}

#[test]
fn numbers_inputs_examples_and_the_notebook() {
    let mut arguments = vec!["--quiet", "-rs", "tests", "bdo"];
    BUSY.iter().for_each(|file| arguments.extend(["--ignore", file]));
    run("pytest", "pytest, nbclient, sklearn, pandas, polars", &arguments);
}

#[test]
fn types_and_stubs() {
    run("mypy", "mypy", &["--cache-dir", "/dev/null"]);
    run("mypy.stubtest", "mypy", &["bdo._core", "--ignore-disjoint-bases"]);
}

/// Runs a module of Python in this folder, where the package is found with the module of this build in it.
fn run(module: &str, needs: &str, arguments: &[&str]) {
    let Some(python) = std::env::var_os("BDO_PYTHON").filter(|python| has(python, needs)) else {
        println!("SKIPPED: BDO_PYTHON names no interpreter with {needs}");
        return;
    };
    let package = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy(&here.join("python"), package.path());
    let built = format!("{}_core{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let built = std::env::current_exe().unwrap().with_file_name(built);
    std::os::unix::fs::symlink(&built, package.path().join("bdo/_core.abi3.so")).unwrap();
    let ended = Command::new(python)
        .args(["-m", module])
        .args(arguments)
        .current_dir(here)
        .env("PYTHONPATH", package.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MYPYPATH", package.path())
        .output()
        .unwrap();
    println!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{module} failed");
}

fn has(python: &OsString, modules: &str) -> bool {
    Command::new(python).args(["-c", &format!("import {modules}")]).output().is_ok_and(|o| o.status.success())
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
