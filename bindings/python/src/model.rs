//! Frozen models: features, and questions to the posterior.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bdo_data::cohort::CohortError;
use bdo_data::problem::Problem;
use bdo_data::scan::ScanId;
use bdo_eval::infer::calibration::Calibration;
use bdo_eval::infer::output::Block;
use bdo_eval::infer::scan_answer::{Answerer, ScanPlan};
use bdo_eval::predict::Trusting;
use bdo_model::control::{Encoded, encode_cohort, encode_each};
use bdo_model::familiarity::{Familiarity, ScanFacts, Trust};
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Intake;
use bdo_model::pooling::Pooling;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::rows::RowKind;
use bdo_model::posterior::spread::Uncertainty;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use serde_json::json;

use crate::cohort::Cohort;
use crate::failure::Failure;
use crate::series::{Given, named};
use crate::work::{Watch, outside, threads};

/// States drawn where nothing else is said, as `bdo infer` does.
const DRAWS: usize = 32;

/// A model directory that was read.
#[pyclass(frozen, module = "bdo._core")]
pub(crate) struct Model {
    frozen: Arc<FrozenModel>,
    familiarity: Option<Familiarity>,
}

/// Features, one row per scan, and for scans that are not like those the model knows: number, trust and reasons.
type Embedded<'py> = (Bound<'py, PyArray2<f32>>, Vec<(usize, &'static str, String)>);
/// Times, kinds, means and standard deviations of the rows of an answer.
type Answered<'py> =
    (Bound<'py, PyArray1<f64>>, Vec<&'static str>, Bound<'py, PyArray2<f32>>, Bound<'py, PyArray2<f32>>);

#[pymethods]
impl Model {
    #[new]
    fn read(py: Python<'_>, folder: PathBuf, same_atlas: bool) -> PyResult<Self> {
        outside(py, None, |_| {
            let trusting = Trusting { same_atlas, ..Trusting::default() };
            let frozen = trusting.applied(FrozenModel::read(&folder)?);
            let familiarity = Familiarity::read(&frozen.folder, &frozen.blake3)?;
            Ok(Self { frozen: Arc::new(frozen), familiarity })
        })
    }

    #[getter]
    fn folder(&self) -> PathBuf {
        self.frozen.folder.clone()
    }

    #[getter]
    fn blake3(&self) -> &str {
        &self.frozen.blake3
    }

    #[getter]
    fn regions(&self) -> Vec<String> {
        self.frozen.contract.roi_names.clone()
    }

    /// Facts for people: JSON.
    fn facts(&self) -> String {
        let (config, contract) = (self.frozen.model.config(), &self.frozen.contract);
        json!({"width": config.width, "regions": config.regions, "atlas": contract.atlas_name,
               "scans": contract.scan_count, "readout": self.frozen.readout.is_some()})
        .to_string()
    }

    /// Numbers per scan.
    fn feature_width(&self, py: Python<'_>, pooling: &str) -> PyResult<usize> {
        let pooling = self.pooling(pooling).map_err(|failure| failure.into_exception(py))?;
        Ok(self.frozen.feature_width(pooling))
    }

    /// Features of arrays.
    fn embed<'py>(
        &self,
        py: Python<'py>,
        given: Vec<Given<'py>>,
        regions: Vec<String>,
        pooling: &str,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<Embedded<'py>> {
        let scans = named(py, &given)?;
        let found = outside(py, listener, |host| {
            let pooling = self.pooling(pooling)?;
            let intake = Intake::of_names(&self.frozen.contract, &regions)?;
            let mut found = Found::new(self, pooling, scans.len());
            let numbers: Vec<usize> = (0..scans.len()).collect();
            let watch = Watch::start(host, "embed", scans.len());
            let scaled = |i: usize| Ok(intake.scale(scans[i].view));
            let visit = |i: usize, encoded: Encoded<'_>| found.add(i, scans[i].view.tr_seconds, None, &encoded);
            let passed_over = threads()?
                .install(|| encode_each(&self.frozen, &numbers, |i| scans[i].view.frames(), scaled, &watch, visit))?;
            passed_over.first().map_or(Ok(()), |&i| Err(unusable(&scans[i].id)))?;
            Ok(found)
        })?;
        found.arrays(py)
    }

    /// Features of a cohort; NaN for scans without a usable region.
    fn embed_cohort<'py>(
        &self,
        py: Python<'py>,
        cohort: &Cohort,
        pooling: &str,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<Embedded<'py>> {
        let cohort = &cohort.inner;
        let found = outside(py, listener, |host| {
            let mut found = Found::new(self, self.pooling(pooling)?, cohort.len());
            let numbers: Vec<usize> = (0..cohort.len()).collect();
            let watch = Watch::start(host, "embed", cohort.len());
            let visit = |i: usize, encoded: Encoded<'_>| {
                let entry = &cohort.index()[i];
                found.add(i, entry.tr_seconds, entry.mean_fd_mm, &encoded);
            };
            let passed_over = threads()?.install(|| encode_cohort(&self.frozen, cohort, &numbers, &watch, visit))?;
            found.strange.extend(passed_over.into_iter().map(|i| (i, ("none", "it has no usable region".to_owned()))));
            Ok(found)
        })?;
        found.arrays(py)
    }

    /// Mean and standard deviation of every region at the frames of one scan and at further times. `question` is what is asked:
    /// `reconstruct`, `impute` or `forecast`; `number` decides the draws, as the place of a scan in its cohort does.
    #[allow(clippy::too_many_arguments)] // Named in Python.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        given: Given<'py>,
        regions: Vec<String>,
        question: &str,
        further: Vec<f64>,
        hidden: Option<Vec<bool>>,
        horizon: u64,
        calibration: Option<PathBuf>,
        seed: [u64; 2],
    ) -> PyResult<Answered<'py>> {
        let named = given.named().map_err(|failure| failure.into_exception(py))?;
        let (id, scan) = (&named.id, named.view);
        let all = outside(py, None, |_| {
            let intake = Intake::of_names(&self.frozen.contract, &regions)?;
            let calibration = calibration.map(|path| self.calibration(&path)).transpose()?;
            let answerer = Answerer {
                engine: Engine::new(&self.frozen),
                calibration: calibration.as_ref(),
                uncertainty: calibration.as_ref().map_or(Uncertainty::Sampled { draws: DRAWS }, |c| c.uncertainty),
                keep_observed: question == "impute",
            };
            let n = intake.regions();
            let mut plan = match question {
                "impute" => ScanPlan::filled(scan, n),
                "forecast" => ScanPlan::ahead(scan, n, horizon),
                _ => ScanPlan::whole(scan, n),
            };
            plan.further.extend(further.iter().map(|t| (t - scan.frame_times_seconds[0], RowKind::Asked)));
            if let Some(hidden) = hidden {
                if hidden.len() != scan.frames() {
                    let problem = Problem::new("hidden", format!("{} values", scan.frames()), hidden.len());
                    return Err(Failure::of_data(problem));
                }
                plan.hidden = hidden;
            }
            let mut all = Block { lists: vec![Vec::new(), Vec::new()], ..Block::default() };
            let take = |block: Block, _| -> Result<(), Failure> {
                all.times_seconds.extend(block.times_seconds);
                all.kinds.extend(block.kinds);
                all.lists.iter_mut().zip(block.lists).for_each(|(to, from)| to.extend(from));
                Ok(())
            };
            let answered = threads()?.install(|| answerer.answer(scan, &intake, &plan, seed, take))?;
            if answered { Ok(all) } else { Err(unusable(id)) }
        })?;
        let Block { times_seconds, kinds, mut lists } = all;
        let shape = [times_seconds.len(), self.frozen.contract.roi_names.len()];
        let sd = PyArray1::from_vec(py, lists.pop().unwrap_or_default()).reshape(shape)?;
        let mean = PyArray1::from_vec(py, lists.pop().unwrap_or_default()).reshape(shape)?;
        Ok((PyArray1::from_vec(py, times_seconds), kinds, mean, sd))
    }
}

impl Model {
    /// A pooling by its name that this model can do on a single scan.
    fn pooling(&self, name: &str) -> Result<Pooling, Failure> {
        let pooling: Pooling = serde_json::from_value(json!(name)).map_err(|_| {
            Failure::of_data(Problem::new(
                "pooling",
                "mean, mean-std, mean-movement, covariance, correlation, log-covariance, regions or coupling",
                format!("{name:?}"),
            ))
        })?;
        if pooling == Pooling::Tangent {
            let hint = "tangent; hint: use log-covariance, or bdo.probe(..., pooling=\"tangent\")";
            return Err(Failure::of_data(Problem::new("pooling", "what a single scan decides", hint)));
        }
        self.frozen.able_to(pooling)?;
        Ok(pooling)
    }

    fn calibration(&self, path: &Path) -> Result<Calibration, Failure> {
        Ok(Calibration::read(path, &self.frozen.blake3, self.frozen.contract.roi_names.len())?)
    }
}

fn unusable(scan: &ScanId) -> Failure {
    let problem = Problem::new("series", "at least one region and frame the model can look at", "none");
    CohortError::Scan { scan: scan.to_string(), source: problem }.into()
}

/// Rows that fill up as scans are encoded.
struct Found<'a> {
    model: &'a Model,
    pooling: Pooling,
    width: usize,
    values: Vec<f32>,
    strange: BTreeMap<usize, (&'static str, String)>,
}

impl<'a> Found<'a> {
    fn new(model: &'a Model, pooling: Pooling, scans: usize) -> Self {
        let width = model.frozen.feature_width(pooling);
        Self { model, pooling, width, values: vec![f32::NAN; scans * width], strange: BTreeMap::new() }
    }

    fn add(&mut self, i: usize, tr_seconds: f64, motion_mm: Option<f64>, encoded: &Encoded<'_>) {
        self.values[i * self.width..][..self.width].copy_from_slice(&self.pooling.apply(encoded));
        let known = self.model.familiarity.as_ref();
        let verdict = known.and_then(|known| known.judge(&ScanFacts::of(tr_seconds, motion_mm, encoded)));
        if let Some(verdict) = verdict.filter(|verdict| verdict.trust != Trust::Usual) {
            self.strange.insert(i, (verdict.trust.name(), verdict.reasons.join("; ")));
        }
    }

    fn arrays(self, py: Python<'_>) -> PyResult<Embedded<'_>> {
        let rows = self.values.len() / self.width.max(1);
        let values = PyArray1::from_vec(py, self.values).reshape([rows, self.width])?;
        Ok((values, self.strange.into_iter().map(|(i, (trust, reasons))| (i, trust, reasons)).collect()))
    }
}
