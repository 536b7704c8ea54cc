//! Project chores: `cargo xtask check` before every commit, `cargo xtask torture` for the long runs,
//! `cargo xtask bench` for BDO and PyTorch side by side, `cargo xtask devices` for the model off the CPU,
//! `cargo xtask cluster` for MPI and Slurm on one machine, `cargo xtask wheel` for the Python package,
//! `cargo xtask house` for the size of the code.

mod bench;
mod browser;
mod check;
mod cluster;
mod devices;
mod house;
mod packages;
mod python;
mod tally;
mod torture;
mod wheel;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let result = match task.as_str() {
        "check" => check::run(),
        "torture" => torture::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "bench" => bench::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "devices" => devices::run(std::env::args().nth(2).as_deref()),
        "cluster" => cluster::run(std::env::args().nth(2).map(PathBuf::from)),
        "wheel" => wheel::run(&std::env::args().skip(2).collect::<Vec<_>>()),
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
