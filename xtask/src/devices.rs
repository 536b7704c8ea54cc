//! The model on devices other than the CPU: the goldens on a graphics device through wgpu, and whether the CUDA build type-checks.
//! In a build folder of their own, because other features would rebuild everything else.

use std::process::Command;

use crate::{check, packages};

/// A Vulkan loader and a driver in software, so that a machine without a graphics card can run what needs one.
const PACKAGES: [&str; 3] = ["libvulkan1", "mesa-vulkan-drivers", "vulkan-tools"];

pub(crate) fn run() -> anyhow::Result<()> {
    const FOLDER: [&str; 4] = ["--package", "bdo-model", "--target-dir", "target/devices"];
    if !vulkan() {
        println!("== devices: installing {}", PACKAGES.join(", "));
        packages::install(&PACKAGES);
    }
    // A build for CUDA fetches a compiler over the network; types can be checked without it, as documentation is built.
    check::step("cuda", &[["check", "--features", "cuda"].as_slice(), &FOLDER].concat(), &[("DOCS_RS", "1")])?;
    if !vulkan() {
        println!("SKIPPED: no Vulkan device ({}), the goldens do not run on wgpu", PACKAGES.join(", "));
        return Ok(());
    }
    let test = ["test", "--features", "wgpu", "--test", "model"];
    let only = ["--", "graphics_device", "--nocapture"];
    check::step("wgpu", &[test.as_slice(), &FOLDER, &only].concat(), &[])
}

/// Whether there is a device; its name goes to the log.
fn vulkan() -> bool {
    let Ok(found) = Command::new("vulkaninfo").arg("--summary").output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&found.stdout);
    let mut names = text.lines().filter(|line| line.trim_start().starts_with("deviceName")).peekable();
    let any = found.status.success() && names.peek().is_some();
    names.for_each(|name| println!("== devices: {}", name.trim()));
    any
}
