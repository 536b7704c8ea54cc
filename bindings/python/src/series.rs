//! Arrays of one call as scans: views of the memory of numpy for as long as the call lasts.

use bdo_data::cohort::CohortError;
use bdo_data::scan::{Scan, ScanId, SeriesView, Source};
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

/// What a scan is called, and its frames where they lie.
#[derive(Clone)]
pub(crate) struct Named<'a> {
    pub(crate) id: ScanId,
    site: Option<&'a str>,
    pub(crate) view: SeriesView<'a>,
}

impl Given<'_> {
    /// The scan, checked by the rules of scans at rest.
    pub(crate) fn named(&self) -> Result<Named<'_>, Failure> {
        let (values, times) = (self.values.as_slice(), self.times.as_slice());
        let (Ok(series), Ok(frame_times_seconds), true) = (values, times, self.values.is_c_contiguous()) else {
            return Err(Failure::of_data(format!("scan {}: expected arrays in C order, found others", self.subject)));
        };
        let id = ScanId { session: self.session.clone(), ..ScanId::of_subject(&self.subject) };
        let view = SeriesView { tr_seconds: self.tr, frame_times_seconds, series };
        let site = self.site.as_deref();
        match id.validate(site).and_then(|()| view.validate(self.values.shape()[1])) {
            Ok(()) => Ok(Named { id, site, view }),
            Err(source) => Err(CohortError::Scan { scan: id.to_string(), source }.into()),
        }
    }
}

impl Named<'_> {
    /// A scan of its own, for what outlives the call.
    pub(crate) fn scan(&self) -> Scan {
        Scan {
            id: self.id.clone(),
            site: self.site.map(str::to_owned),
            tr_seconds: self.view.tr_seconds,
            frame_times_seconds: self.view.frame_times_seconds.to_vec(),
            series: self.view.series.to_vec(),
            framewise_displacement_mm: None,
            coverage: None,
            source: Source { name: "memory".into(), ..Source::default() },
        }
    }
}

/// All scans, or what is wrong with the first bad one.
pub(crate) fn named<'a>(py: Python<'_>, given: &'a [Given<'_>]) -> PyResult<Vec<Named<'a>>> {
    given.iter().map(Given::named).collect::<Result<_, _>>().map_err(|failure| failure.into_exception(py))
}
