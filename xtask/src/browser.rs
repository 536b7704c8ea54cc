//! A browser for the tests that open pages. Without one those tests say that they were skipped.

use crate::{packages, runs};

/// Debian's packages: they come with the system's own archive; tools that fetch a browser elsewhere do not work offline.
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];

/// Installs browser and driver where that can be done, with a loud line where it cannot.
pub(crate) fn prepare() {
    if ready() {
        return;
    }
    println!("== browser: installing {}", PACKAGES.join(" and "));
    packages::install(&PACKAGES);
    if !ready() {
        println!("SKIPPED: no {}, tests that open pages in a browser do not run", PACKAGES.join(" and "));
    }
}

fn ready() -> bool {
    runs("chromium") && runs("chromedriver")
}
