//! Images from the outside: equal to nibabel and nilearn where they are sound, refused where they are not.

pub(crate) mod builder;
mod golden_cifti;
mod golden_nifti;
mod golden_parcellate;
mod hostile;
mod mutation;
mod real;
mod refusals;
mod tables;

use std::path::PathBuf;

/// The folder of goldens, made by `tools/reference/make_image_goldens.py`.
fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden/image").join(name)
}

fn golden_json(name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

fn floats(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap_or(f64::NAN)).collect()
}

/// What `work` gives, if one of five tries stays below a time: a machine that stood still is not the reader's doing.
fn within<T>(most: std::time::Duration, work: impl Fn() -> T) -> T {
    let mut tries = (0..5).map(|_| {
        let started = std::time::Instant::now();
        let found = work();
        (started.elapsed() < most).then_some(found)
    });
    tries.find_map(|found| found).unwrap_or_else(|| panic!("five tries took longer than {most:?} each"))
}

/// A tenth of the counts unless the whole torture is asked for.
fn torture_count(full: usize) -> usize {
    if std::env::var("BDO_TORTURE").as_deref() == Ok("full") { full } else { full / 10 }
}
