//! A browser for the tests that open pages. Without one those tests say that they were skipped.

use std::process::{Command, Stdio};

/// Debian's packages: they come with the system's own archive; tools that fetch a browser elsewhere do not work offline.
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];

/// Installs browser and driver where that can be done, with a loud line where it cannot.
pub(crate) fn prepare() {
    if ready() {
        return;
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.trim_ascii() == b"0");
    if root && runs("apt-get") {
        println!("== browser: installing {}", PACKAGES.join(" and "));
        let apt = |arguments: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
            command.status().is_ok_and(|s| s.success())
        };
        let install = || apt(&[["install", "--yes", "--no-install-recommends"].as_slice(), &PACKAGES].concat());
        // An old list of packages names versions that are gone.
        let _ = install() || (apt(&["update"]) && install());
    }
    if !ready() {
        println!("SKIPPED: no {}, tests that open pages in a browser do not run", PACKAGES.join(" and "));
    }
}

fn ready() -> bool {
    runs("chromium") && runs("chromedriver")
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}
