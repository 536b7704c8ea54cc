//! The fuzz targets without a fuzzer: the corpus is replayed and inputs derived from it are tried, some in the check and a tenth
//! of ten million in the torture. `docs/results/fuzz.md` has the log of the fuzzer itself.
#![allow(clippy::unwrap_used)]

#[allow(unreachable_pub)]
#[path = "../../../../fuzz/src/mutate.rs"]
mod mutate;
#[allow(unreachable_pub)]
#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

fn fuzz(name: &str) {
    let (_, target) = targets::TARGETS.into_iter().find(|(known, _)| *known == name).unwrap();
    mutate::run(name, target, vec![], mutate::executions());
}

#[test]
fn images() {
    fuzz("nifti");
}

#[test]
fn descriptions_of_grayordinates() {
    fuzz("cifti_xml");
}

#[test]
fn tables_of_series_people_and_regions() {
    fuzz("tables");
}

#[test]
fn npy_arrays() {
    fuzz("npy");
}

#[test]
fn matlab_and_hdf5_files() {
    fuzz("mat");
}

#[test]
fn confound_tables() {
    fuzz("confounds");
}

#[test]
fn names_of_bids_files() {
    fuzz("bids_names");
}
