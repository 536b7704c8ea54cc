//! Pythons of our own: for the tests that compare with pyarrow, polars, nibabel, nilearn and scikit-learn and those of the wheel, and for
//! the benchmark beside torch. Without one, what needs it says that it was skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// What the tests import, and what builds the wheel; pinned, since a new release may read files differently.
const PACKAGES: [&str; 19] = [
    "numpy==2.4.6",
    "pyarrow==26.0.1",
    "polars==2.1.0",
    "pandas==3.1.1",
    "scipy==1.17.1",
    "scikit-learn==1.9.1",
    "joblib==1.6.0",
    "nibabel==5.4.2",
    "nilearn==0.14.1",
    "safetensors==0.8.0",
    "matplotlib==3.11.2",
    "tqdm==4.70.1",
    "nbclient==0.11.0",
    "nbformat==5.11.1",
    "ipykernel==7.4.0",
    "pytest==9.2.0",
    "hypothesis==6.170.15",
    "mypy==2.4.1",
    "maturin==1.16.0",
];

/// An interpreter with torch for the side-by-side benchmark: the one named by `BDO_TORCH_PYTHON`, else `target/python-torch`,
/// installed from the pinned list of the reference scripts.
pub(crate) fn torch_interpreter() -> Option<PathBuf> {
    let list = root().join("tools/reference/requirements.txt");
    let own = || environment("python-torch", &["--requirement", &list.to_string_lossy()], "torch");
    std::env::var_os("BDO_TORCH_PYTHON").map(PathBuf::from).or_else(own)
}

/// The interpreter of `target/python`, made when first needed; `None` with a loud line where that cannot be done.
pub(crate) fn interpreter() -> Option<PathBuf> {
    let imports = "numpy, pyarrow, polars, pandas, scipy, sklearn, nibabel, nilearn, safetensors, matplotlib, tqdm, nbclient, ipykernel, \
                   pytest, hypothesis, mypy, maturin";
    let found = environment("python", &PACKAGES, imports);
    if found.is_none() {
        println!("SKIPPED: no Python with {}, tests that compare with it do not run", PACKAGES.join(", "));
    }
    found
}

/// A new, empty environment in place of what was there.
pub(crate) fn empty(folder: &Path) -> Option<PathBuf> {
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder).status();
    made.is_ok_and(|s| s.success()).then(|| folder.join("bin/python"))
}

pub(crate) fn install(python: &Path, what: &[&str]) -> bool {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    Command::new(python).args(pip).args(what).status().is_ok_and(|s| s.success())
}

/// An environment below `target` that can import these modules, made when first needed.
fn environment(name: &str, packages: &[&str], imports: &str) -> Option<PathBuf> {
    let folder = root().join("target").join(name);
    let python = folder.join("bin/python");
    let ready = || {
        let tried = Command::new(&python).args(["-c", &format!("import {imports}")]).output();
        tried.is_ok_and(|t| t.status.success())
    };
    if !ready() {
        println!("== python: installing {} into target/{name}", packages.join(", "));
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status().is_ok_and(|s| s.success());
        if !made || !install(&python, packages) || !ready() {
            return None;
        }
    }
    Some(python)
}
