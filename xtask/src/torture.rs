//! The long runs in full: kills, flipped bits, truncations, large cohorts. `cargo xtask check` runs a tenth of them.

use crate::{check, python};

pub(crate) fn run() -> anyhow::Result<()> {
    let python = python::interpreter();
    let mut environment = vec![("BDO_TORTURE", "full")];
    environment.extend(python.as_deref().map(|p| ("BDO_PYTHON", p)));
    let arguments = ["test", "--workspace", "--no-fail-fast", "--", "--nocapture", "--test-threads", "1"];
    check::step("torture", &arguments, &environment)
}
