//! Packages of the system, where we may install them.

use std::process::{Command, Stdio};

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
