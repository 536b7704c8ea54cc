//! Project chores: `cargo xtask check` before every commit, `cargo xtask torture` for the long runs,
//! `cargo xtask bench` for BDO and PyTorch side by side, `cargo xtask devices` for the model off the CPU,
//! `cargo xtask cluster` for MPI and Slurm on one machine, `cargo xtask wheel` for the Python package,
//! `cargo xtask house` for the size of the code.

mod bench;
mod check;
mod cluster;
mod devices;
mod house;
mod packages;
mod python;
mod tally;
mod torture;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let first = arguments.first();
    let result = match task.as_str() {
        "check" => check::run(),
        "torture" => torture::run(&arguments),
        "bench" => bench::run(&arguments),
        "devices" => devices::run(first.map(String::as_str)),
        "cluster" => cluster::run(first.map(PathBuf::from)),
        "wheel" => wheel::run(&arguments),
        "house" => house::run(),
        other => {
            Err(anyhow::anyhow!("expected check, torture, bench, devices, cluster, wheel or house, found {other:?}"))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
}

/// Whether a program is there and starts.
fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// What is in a folder, sorted.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = list.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// An empty folder for the files of a task.
fn scratch(task: &str) -> anyhow::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("bdo-{task}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}
