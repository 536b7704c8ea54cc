//! Pythons of our own: for the tests that compare with pyarrow, polars, nibabel, nilearn and scikit-learn, for the benchmark beside
//! torch, and for the wheel. Without one, what needs it says that it was skipped.

use std::path::{Path, PathBuf};
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

/// What builds the wheel, and what its tests import besides.
const WHEEL_PACKAGES: [&str; 10] = [
    "maturin==1.16.0",
    "pytest==9.2.0",
    "hypothesis==6.170.15",
    "pandas==3.1.1",
    "tqdm==4.70.1",
    "matplotlib==3.11.2",
    "nbclient==0.11.0",
    "nbformat==5.11.1",
    "ipykernel==7.4.0",
    "joblib==1.6.0",
];

/// An interpreter with torch for the side-by-side benchmark: the one named by `BDO_TORCH_PYTHON`, else `target/python-torch`,
/// installed from the pinned list of the reference scripts.
pub(crate) fn torch_interpreter() -> Option<String> {
    if let Ok(python) = std::env::var("BDO_TORCH_PYTHON") {
        return Some(python);
    }
    let list = root().join("tools/reference/requirements.txt");
    text(environment("python-torch", &["--requirement", &list.to_string_lossy()], "torch"))
}

/// The interpreter of `target/python`, made when first needed; `None` with a loud line where that cannot be done.
pub(crate) fn interpreter() -> Option<String> {
    let imports = "numpy, pyarrow, polars, scipy, sklearn, nibabel, nilearn, safetensors";
    let found = environment("python", &PACKAGES, imports);
    if found.is_none() {
        println!("SKIPPED: no Python with {}, tests that compare with it do not run", PACKAGES.join(", "));
    }
    text(found)
}

/// The interpreter that builds the wheel and tests it, in `target/python-wheel`.
pub(crate) fn wheel_interpreter() -> Option<PathBuf> {
    let packages = [PACKAGES.as_slice(), &WHEEL_PACKAGES].concat();
    let imports = "maturin, pytest, hypothesis, pandas, tqdm, matplotlib, nbclient, nbformat, ipykernel, polars, sklearn, nilearn";
    environment("python-wheel", &packages, imports)
}

/// A new, empty environment in place of what was there.
pub(crate) fn empty(folder: &Path) -> Option<PathBuf> {
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder).status();
    made.is_ok_and(|s| s.success()).then(|| folder.join("bin/python"))
}

/// Installs into an environment.
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

fn text(path: Option<PathBuf>) -> Option<String> {
    path.map(|path| path.to_string_lossy().into_owned())
}
