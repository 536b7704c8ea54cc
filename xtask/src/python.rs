//! A Python of our own for the tests that compare with pyarrow, polars, nibabel, nilearn and scikit-learn. Without one those tests
//! say that they were skipped.

use std::path::Path;
use std::process::Command;

use crate::root;

/// What the tests import; pinned, since a new release may read files differently.
const PACKAGES: [&str; 8] = [
    "numpy==2.4.6",
    "pyarrow==26.0.1",
    "polars==2.1.0",
    "scipy==1.17.1",
    "scikit-learn==1.9.1",
    "nibabel==5.4.2",
    "nilearn==0.14.1",
    "safetensors==0.8.0",
];

/// An interpreter with torch for the side-by-side benchmark: the one named by `BDO_TORCH_PYTHON`, else `target/python-torch`,
/// installed from the pinned list of the reference scripts.
pub(crate) fn torch_interpreter() -> Option<String> {
    if let Ok(python) = std::env::var("BDO_TORCH_PYTHON") {
        return Some(python);
    }
    let folder = root().join("target/python-torch");
    let python = folder.join("bin/python");
    let has_torch = || Command::new(&python).args(["-c", "import torch"]).output().is_ok_and(|t| t.status.success());
    if !has_torch() {
        println!("== python: installing torch into target/python-torch");
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status().is_ok_and(|s| s.success());
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
        let list = root().join("tools/reference/requirements.txt");
        if !made || !Command::new(&python).args(pip).arg(list).status().is_ok_and(|s| s.success()) || !has_torch() {
            return None;
        }
    }
    Some(python.to_string_lossy().into_owned())
}

/// The interpreter of `target/python`, made when first needed; `None` with a loud line where that cannot be done.
pub(crate) fn interpreter() -> Option<String> {
    let folder = root().join("target/python");
    let python = folder.join("bin/python");
    if !ready(&python) {
        println!("== python: installing {} into target/python", PACKAGES.join(", "));
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status().is_ok_and(|s| s.success());
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let installed = made && Command::new(&python).args(pip).args(PACKAGES).status().is_ok_and(|s| s.success());
        if !installed || !ready(&python) {
            println!("SKIPPED: no Python with {}, tests that compare with it do not run", PACKAGES.join(", "));
            return None;
        }
    }
    Some(python.to_string_lossy().into_owned())
}

fn ready(python: &Path) -> bool {
    let tried = Command::new(python)
        .args(["-c", "import numpy, pyarrow, polars, scipy, sklearn, nibabel, nilearn, safetensors"])
        .output();
    tried.is_ok_and(|t| t.status.success())
}
