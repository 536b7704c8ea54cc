//! Arrays of one call as scans.

use bdo_data::cohort::CohortError;
use bdo_data::scan::{Scan, ScanId, Source};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::failure::Failure;

/// One scan as `python/bdo/_series.py` prepares it: person, session, frames x regions in C order, repetition time, frame times.
#[derive(FromPyObject)]
pub(crate) struct Given<'py> {
    subject: String,
    session: Option<String>,
    site: Option<String>,
    values: PyReadonlyArray2<'py, f32>,
    tr: f64,
    times: PyReadonlyArray1<'py, f64>,
}

impl Given<'_> {
    /// The scan, checked by the rules of scans at rest.
    pub(crate) fn scan(&self) -> Result<Scan, Failure> {
        let (values, times) = (self.values.as_slice(), self.times.as_slice());
        let (Ok(values), Ok(times), true) = (values, times, self.values.is_c_contiguous()) else {
            return Err(Failure::of_data(format!("scan {}: expected arrays in C order, found others", self.subject)));
        };
        let scan = Scan {
            id: ScanId { session: self.session.clone(), ..ScanId::of_subject(&self.subject) },
            site: self.site.clone(),
            tr_seconds: self.tr,
            frame_times_seconds: times.to_vec(),
            series: values.to_vec(),
            framewise_displacement_mm: None,
            coverage: None,
            source: Source { name: "memory".into(), ..Source::default() },
        };
        let regions = self.values.shape()[1];
        match scan.validate(regions) {
            Ok(()) => Ok(scan),
            Err(source) => Err(CohortError::Scan { scan: scan.id.to_string(), source }.into()),
        }
    }
}

/// All scans, or what is wrong with the first bad one.
pub(crate) fn scans(py: Python<'_>, given: &[Given<'_>]) -> PyResult<Vec<Scan>> {
    given.iter().map(Given::scan).collect::<Result<_, _>>().map_err(|failure| failure.into_exception(py))
}
