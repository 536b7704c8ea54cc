//! Cohorts at rest.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bdo_data::cohort::{self, Plan, Provenance, Tables};
use bdo_data::participants::Participants;
use bdo_data::region::Region;
use bdo_data::synth::PART_MIB;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use serde_json::json;

use crate::failure::Failure;
use crate::series::{Given, named};
use crate::work::{Watch, outside};

/// A cohort that is open.
#[pyclass(frozen, module = "bdo._core")]
pub(crate) struct Cohort {
    pub(crate) inner: Arc<cohort::Cohort>,
}

/// Series of a scan, its frame times and its repetition time.
type ScanArrays<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray1<f64>>, f64);

#[pymethods]
impl Cohort {
    #[new]
    fn open(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let inner = outside(py, None, |_| Ok(cohort::Cohort::open(&folder)?))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    #[getter]
    fn folder(&self) -> PathBuf {
        self.inner.folder().to_path_buf()
    }

    #[getter]
    fn regions(&self) -> Vec<&str> {
        self.inner.regions().iter().map(|region| region.name.as_str()).collect()
    }

    /// One JSON object per scan, in their order.
    fn index(&self) -> String {
        json!(self.inner.index()).to_string()
    }

    /// Names of the scans, in their order.
    fn names(&self) -> Vec<String> {
        self.inner.index().iter().map(|entry| entry.id.to_string()).collect()
    }

    /// The table of people: names of its columns and, for each person, name and labels.
    #[allow(clippy::type_complexity)] // Python takes it apart at once.
    fn participants(&self) -> (Vec<String>, Vec<(String, Vec<Option<String>>)>) {
        let people = self.inner.participants();
        let columns = people.columns().to_vec();
        let labels = |row: usize| columns.iter().map(|c| people.get(row, c).map(str::to_owned)).collect();
        let rows = people.subjects().enumerate().map(|(row, name)| (name.to_owned(), labels(row))).collect();
        (columns, rows)
    }

    /// One scan by its number.
    fn scan<'py>(&self, py: Python<'py>, number: usize) -> PyResult<ScanArrays<'py>> {
        if number >= self.inner.len() {
            return Err(PyIndexError::new_err(format!("expected a scan below {}, found {number}", self.inner.len())));
        }
        let inner = &self.inner;
        let scan = outside(py, None, |_| Ok(inner.scan(number)?))?;
        let shape = [scan.frames(), inner.regions().len()];
        let series = PyArray1::from_vec(py, scan.series).reshape(shape)?;
        Ok((series, PyArray1::from_vec(py, scan.frame_times_seconds), scan.tr_seconds))
    }

    /// What is wrong with its bytes; nothing where they agree with their checksums.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let folder = self.inner.folder();
        let damages = outside(py, None, |_| Ok(cohort::verify(folder)?))?;
        Ok(damages.into_iter().map(|damage| damage.message).collect())
    }
}

/// Stores arrays as a cohort; people are given with their labels, in the order of `columns`.
#[pyfunction]
#[allow(clippy::type_complexity)] // Made by one caller.
pub(crate) fn store(
    py: Python<'_>,
    folder: PathBuf,
    given: Vec<Given<'_>>,
    regions: Vec<String>,
    atlas: String,
    columns: Vec<String>,
    people: Vec<(String, Vec<Option<String>>)>,
) -> PyResult<()> {
    let mut scans = named(py, &given)?;
    scans.sort_by(|a, b| a.id.cmp(&b.id));
    let mut participants = Participants::with_columns(columns);
    people.into_iter().for_each(|(name, labels)| participants.insert(name, labels));
    let contents: BTreeMap<String, String> = scans.iter().map(|s| (s.id.to_string(), s.view.blake3())).collect();
    let plan = Plan {
        provenance: Provenance::of("store", json!({"scans": contents, "people": participants.to_tsv()})),
        atlas_name: atlas,
        regions: regions.into_iter().map(Region::named).collect(),
        items: scans.len(),
        part_bytes: PART_MIB << 20,
    };
    outside(py, None, |host| {
        let observer = Watch::start(host, "store", scans.len());
        let tables = |_: &cohort::BuildReport| Tables { participants, ..Tables::default() };
        let report = cohort::build(&folder, &plan, |i| Ok(scans[i].scan()), tables, &observer)?;
        report.rejected.first().map_or(Ok(()), |r| {
            Err(Failure::of_data(format!("{}: {}: expected {}, found {}", r.file, r.reason, r.expected, r.found)))
        })
    })
}
