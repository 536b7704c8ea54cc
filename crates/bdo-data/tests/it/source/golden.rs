//! The goldens and the real data.

use std::path::PathBuf;

use serde_json::Value;

pub(crate) fn golden(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The folder of real data: named by `BDO_SHARED_DATA`, or beside the workspace.
fn shared_data() -> PathBuf {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("BDO_SHARED_DATA").map_or(beside, PathBuf::from)
}

/// Where real data lie, if this machine has them; a test without them says so.
pub(crate) fn real_data(below: &str) -> Option<PathBuf> {
    let folder = Some(shared_data().join(below)).filter(|f| f.exists());
    if folder.is_none() {
        eprintln!("SKIPPED: set BDO_SHARED_DATA to a folder with {below}");
    }
    folder
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

pub(crate) fn indices(value: &Value) -> Option<Vec<usize>> {
    value.as_array().map(|a| a.iter().map(|v| v.as_u64().unwrap() as usize).collect())
}

pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}
