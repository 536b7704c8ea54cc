//! Packages of the system, where we may install them.

use std::process::{Command, Stdio};

use crate::runs;

/// Asks apt for the packages; does nothing for a user who may not, or on a system without it. Whoever needs them looks whether they
/// are there.
pub(crate) fn install(names: &[&str]) {
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.trim_ascii() == b"0");
    if !root {
        return;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        command.status().is_ok_and(|s| s.success())
    };
    let install = || apt(&[["install", "--yes", "--no-install-recommends"].as_slice(), names].concat());
    // An old list of packages names versions that are gone.
    let _ = install() || (apt(&["update"]) && install());
}

/// Debian's packages of a browser: they come with the system's own archive; tools that fetch one elsewhere do not work offline.
const BROWSER: [&str; 2] = ["chromium", "chromium-driver"];

/// A browser and its driver for the tests that open pages, where that can be had; without one those tests say that they were skipped.
pub(crate) fn browser() {
    let ready = || runs("chromium") && runs("chromedriver");
    if !ready() {
        println!("== browser: installing {}", BROWSER.join(" and "));
        install(&BROWSER);
    }
    if !ready() {
        println!("SKIPPED: no {}, tests that open pages in a browser do not run", BROWSER.join(" and "));
    }
}

/// Both kinds of MPI, for the tests that train in several processes; those say what they skipped.
pub(crate) fn launchers() {
    if !(runs("mpirun.openmpi") && runs("mpirun.mpich")) {
        println!("== mpi: installing openmpi-bin and mpich");
        install(&["openmpi-bin", "mpich"]);
    }
}
