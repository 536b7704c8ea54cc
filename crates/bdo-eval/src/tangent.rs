//! Connectivity as covariance matrices in their own geometry: the tangent space at the log-Euclidean mean of training people
//! (`fc-tangent`), and matrix square roots, whose distances are those of the power-Euclidean metric (`fc-power`).
//!
//! Every scan has the Ledoit-Wolf covariance of its z-scored regions, whose diagonal is 1: a correlation matrix that can be
//! inverted. A region that is missing or constant in a scan has no entries there. Where a matrix must be whole, what the scan
//! does not say is completed from the mean covariance of the training people, given what it does say; the features of such
//! a region stay missing, so that a fit puts in the mean of its training people as for other connectivity.

use std::f64::consts::SQRT_2;

use bdo_data::cohort::Cohort;
use bdo_data::division::TrainPeople;
use bdo_kernels::linalg::{inverse, product, spectral};
use faer::Mat;
use rayon::prelude::*;

use crate::connectivity::unit_columns;
use crate::covariance::ledoit_wolf;
use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow};

/// Eigenvalues below this are rounding: shrinkage keeps those of a correlation matrix far above.
const LEAST_EIGENVALUE: f64 = 1e-10;

#[derive(Debug)]
pub struct CovarianceSet {
    rows: Vec<ScanRow>,
    regions: usize,
    scans: Vec<ScanCovariance>,
}

#[derive(Debug)]
struct ScanCovariance {
    /// Regions with a signal, in order.
    valid: Vec<usize>,
    /// Over those regions: upper triangle with the diagonal, row by row.
    covariance: Vec<f64>,
    /// The logarithm of it in the same form, where no region is missing.
    log: Option<Vec<f64>>,
}

impl CovarianceSet {
    /// Of all scans of a cohort, in parallel.
    pub fn of_cohort(cohort: &Cohort) -> Result<Self, EvalError> {
        let regions = cohort.regions().len();
        let scan = |i: usize| ScanCovariance::of(&cohort.scan(i)?.series, regions);
        let scans = (0..cohort.len()).into_par_iter().map(scan).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { rows: cohort.index().iter().map(ScanRow::of).collect(), regions, scans })
    }

    /// Matrix square roots of the correlation matrices over the regions with a signal: upper triangles row by row with the
    /// diagonal, off-diagonals times the root of 2, NaN where a region is missing.
    pub fn square_roots(&self) -> Result<FeatureTable, EvalError> {
        self.table(|scan| scan.spectral(&|x| x.max(0.0).sqrt()))
    }

    /// One row a scan, of a matrix over the scan's regions with a signal.
    fn table(
        &self,
        matrix: impl Fn(&ScanCovariance) -> Result<Mat<f64>, EvalError> + Sync,
    ) -> Result<FeatureTable, EvalError> {
        let n = self.regions;
        let rows = (self.scans.par_iter())
            .map(|scan| Ok(spread_triangle(&matrix(scan)?, &scan.valid, n)))
            .collect::<Result<Vec<_>, EvalError>>()?;
        FeatureTable::new(self.rows.clone(), n * (n + 1) / 2, rows.concat())
    }
}

impl ScanCovariance {
    /// From a row-major `[frames, regions]` series.
    fn of(series: &[f32], regions: usize) -> Result<Self, EvalError> {
        let (columns, frames, has_signal) = unit_columns(series, regions);
        let valid: Vec<usize> = (0..regions).filter(|r| has_signal[*r]).collect();
        let size = (frames as f64).sqrt();
        let z: Vec<f64> = (0..frames)
            .flat_map(|t| valid.iter().map(move |r| (t, r)))
            .map(|(t, r)| columns[r * frames + t] * size)
            .collect();
        let n = valid.len();
        let shrunk = ledoit_wolf(&z, frames, n).covariance;
        let covariance = (0..n).flat_map(|i| shrunk[i * n + i..(i + 1) * n].to_vec()).collect();
        let mut scan = Self { valid, covariance, log: None };
        if n == regions {
            scan.log = Some(triangle(&scan.spectral(&log)?));
        }
        Ok(scan)
    }

    fn matrix(&self) -> Mat<f64> {
        square(&self.covariance, self.valid.len())
    }

    /// A function of the covariance over the regions with a signal.
    fn spectral(&self, function: &dyn Fn(f64) -> f64) -> Result<Mat<f64>, EvalError> {
        function_of(&self.matrix(), function)
    }
}

/// The tangent space at the log-Euclidean mean of training people.
#[derive(Debug, Clone)]
pub struct FittedTangent {
    /// Mean covariance: what completes scans with missing regions.
    mean: Mat<f64>,
    /// The inverse square root of exp(mean log C).
    whitener: Mat<f64>,
}

impl FittedTangent {
    pub fn fit(set: &CovarianceSet, people: &TrainPeople) -> Result<Self, EvalError> {
        let scans = set.rows.iter().zip(&set.scans).filter(|(row, _)| people.contains(&row.subject));
        Self::of_scans(&scans.map(|(_, scan)| scan).collect::<Vec<_>>(), set.regions)
    }

    fn of_scans(scans: &[&ScanCovariance], regions: usize) -> Result<Self, EvalError> {
        let mean = mean_covariance(scans, regions)?;
        let mut sum = vec![0.0; regions * (regions + 1) / 2];
        let completed = (scans.par_iter().filter(|scan| scan.log.is_none()))
            .map(|scan| Ok(triangle(&function_of(&completed(scan, &mean), &log)?)))
            .collect::<Result<Vec<_>, EvalError>>()?;
        for of_scan in scans.iter().filter_map(|scan| scan.log.as_ref()).chain(&completed) {
            sum.iter_mut().zip(of_scan).for_each(|(s, x)| *s += x);
        }
        let n = scans.len().max(1) as f64;
        sum.iter_mut().for_each(|s| *s /= n);
        let whitener = function_of(&square(&sum, regions), &|x| (-0.5 * x).exp())?;
        Ok(Self { mean, whitener })
    }

    /// The tangent vector of every scan of the set: upper triangle with the diagonal of log(R^-1/2 C R^-1/2), row by row,
    /// off-diagonals times the root of 2; NaN where a region is missing.
    pub fn table(&self, set: &CovarianceSet) -> Result<FeatureTable, EvalError> {
        set.table(|scan| {
            let tangent = self.tangent(scan)?;
            Ok(Mat::from_fn(scan.valid.len(), scan.valid.len(), |i, j| tangent[(scan.valid[i], scan.valid[j])]))
        })
    }

    fn tangent(&self, scan: &ScanCovariance) -> Result<Mat<f64>, EvalError> {
        let whitener = self.whitener.as_ref();
        let whole = completed(scan, &self.mean);
        function_of(&product(product(whitener, whole.as_ref()).as_ref(), whitener), &log)
    }
}

/// Mean over the scans in which both regions have a signal; 1 on the diagonal and 0 beside it where none has.
fn mean_covariance(scans: &[&ScanCovariance], regions: usize) -> Result<Mat<f64>, EvalError> {
    let mut sums = Mat::<f64>::zeros(regions, regions);
    let mut counts = Mat::<f64>::zeros(regions, regions);
    for scan in scans {
        let mut values = scan.covariance.iter();
        for (k, &i) in scan.valid.iter().enumerate() {
            for (&j, x) in scan.valid[k..].iter().zip(values.by_ref()) {
                sums[(i, j)] += x;
                counts[(i, j)] += 1.0;
            }
        }
    }
    let mean = Mat::from_fn(regions, regions, |a, b| {
        let (i, j) = (a.min(b), a.max(b));
        if counts[(i, j)] > 0.0 { sums[(i, j)] / counts[(i, j)] } else { f64::from(u8::from(i == j)) }
    });
    // Entries over different scans need not form a positive matrix.
    let all_there = scans.iter().all(|scan| scan.valid.len() == regions);
    if all_there { Ok(mean) } else { function_of(&mean, &|x| x.max(LEAST_EIGENVALUE.sqrt())) }
}

/// The covariance of a scan over all regions: with `v` the regions it has, `m` those it lacks and M the mean covariance,
/// `B = M_mv M_vv^-1` predicts what is missing, so that `C_mv = B C_vv` and `C_mm = M_mm - B M_vm + B C_vv B^T`. Positive as M and C
/// are.
fn completed(scan: &ScanCovariance, mean: &Mat<f64>) -> Mat<f64> {
    let regions = mean.nrows();
    let (known, v) = (scan.matrix(), &scan.valid);
    let m: Vec<usize> = (0..regions).filter(|r| v.binary_search(r).is_err()).collect();
    if m.is_empty() {
        return known;
    }
    let part =
        |rows: &[usize], columns: &[usize]| Mat::from_fn(rows.len(), columns.len(), |i, j| mean[(rows[i], columns[j])]);
    let mut out = Mat::zeros(regions, regions);
    v.iter().enumerate().for_each(|(i, &r)| v.iter().enumerate().for_each(|(j, &s)| out[(r, s)] = known[(i, j)]));
    let mut rest = part(&m, &m);
    if !v.is_empty() {
        let b = product(part(&m, v).as_ref(), inverse(part(v, v)).as_ref());
        let cross = product(b.as_ref(), known.as_ref());
        for (i, &r) in m.iter().enumerate() {
            for (j, &s) in v.iter().enumerate() {
                out[(r, s)] = cross[(i, j)];
                out[(s, r)] = cross[(i, j)];
            }
        }
        rest += product(cross.as_ref(), b.transpose()) - product(b.as_ref(), part(v, &m).as_ref());
    }
    for (i, &r) in m.iter().enumerate() {
        // Both halves the same to the last digit.
        m.iter().enumerate().for_each(|(j, &s)| out[(r, s)] = f64::midpoint(rest[(i, j)], rest[(j, i)]));
    }
    out
}

fn log(x: f64) -> f64 {
    x.max(LEAST_EIGENVALUE).ln()
}

fn function_of(matrix: &Mat<f64>, function: &dyn Fn(f64) -> f64) -> Result<Mat<f64>, EvalError> {
    spectral(matrix.as_ref(), function).ok_or(EvalError::Eigenvalues { size: matrix.nrows() })
}

/// Upper triangle with the diagonal, row by row.
fn triangle(matrix: &Mat<f64>) -> Vec<f64> {
    let n = matrix.nrows();
    (0..n).flat_map(|i| (i..n).map(move |j| (i, j))).map(|(i, j)| matrix[(i, j)]).collect()
}

/// The symmetric matrix of an upper triangle.
fn square(triangle: &[f64], n: usize) -> Mat<f64> {
    let mut out = Mat::zeros(n, n);
    let mut values = triangle.iter();
    for i in 0..n {
        for (j, x) in (i..n).zip(values.by_ref()) {
            out[(i, j)] = *x;
            out[(j, i)] = *x;
        }
    }
    out
}

/// The upper triangle over all regions of a matrix over some, off-diagonals times the root of 2; NaN elsewhere.
fn spread_triangle(matrix: &Mat<f64>, valid: &[usize], regions: usize) -> Vec<f64> {
    let mut place = vec![None; regions];
    valid.iter().enumerate().for_each(|(i, r)| place[*r] = Some(i));
    let value = |(r, s): (usize, usize)| match (place[r], place[s]) {
        (Some(i), Some(j)) if i == j => matrix[(i, j)],
        (Some(i), Some(j)) => matrix[(i, j)] * SQRT_2,
        _ => f64::NAN,
    };
    (0..regions).flat_map(|r| (r..regions).map(move |s| (r, s))).map(value).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;

    /// scikit-learn and scipy: see `tools/reference/make_connectivity_goldens.py`.
    fn golden() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/connectivity.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// Numbers, NaN for null.
    fn floats(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap_or(f64::NAN)).collect()
    }

    fn set(case: &Value) -> CovarianceSet {
        let regions = case["regions"].as_u64().unwrap() as usize;
        let series = case["series"].as_array().unwrap();
        let narrow = |x: &Value| floats(x).into_iter().map(|x| x as f32).collect::<Vec<f32>>();
        let row = |k: usize| ScanRow { scan: k.to_string(), subject: k.to_string(), session: None };
        CovarianceSet {
            rows: (0..series.len()).map(row).collect(),
            regions,
            scans: series.iter().map(|x| ScanCovariance::of(&narrow(x), regions).unwrap()).collect(),
        }
    }

    fn same(found: &FeatureTable, expected: &Value, what: &str) {
        for (k, expected) in expected.as_array().unwrap().iter().enumerate() {
            let (found, expected) = (found.features.row(k), floats(expected));
            assert_eq!(found.len(), expected.len());
            for (f, e) in found.iter().zip(&expected) {
                // Eigenvalues of scipy's logm and ours differ by rounding alone.
                assert!((f.is_nan() && e.is_nan()) || (f - e).abs() < 1e-9, "{what}, scan {k}: {f} against {e}");
            }
        }
    }

    #[test]
    fn tangent_and_power_as_scikit_learn_and_scipy() {
        for (name, case) in golden()["scans"].as_object().unwrap() {
            let set = set(case);
            same(&set.square_roots().unwrap(), &case["power"], &format!("{name}: power"));
            let train = case["train"].as_u64().unwrap() as usize;
            let scans: Vec<&ScanCovariance> = set.scans[..train].iter().collect();
            let fitted = FittedTangent::of_scans(&scans, set.regions).unwrap();
            same(&fitted.table(&set).unwrap(), &case["tangent"], &format!("{name}: tangent"));
        }
    }

    /// The vectors of the people the reference was fitted on have mean zero where matrices commute, and nearly so elsewhere;
    /// nobody else decides the reference.
    #[test]
    fn the_reference_is_that_of_the_given_scans_alone() {
        let set = set(&golden()["scans"]["long"]);
        let few: Vec<&ScanCovariance> = set.scans[..1].iter().collect();
        let fitted = FittedTangent::of_scans(&few, set.regions).unwrap();
        let own = fitted.table(&set).unwrap();
        assert!(own.features.row(0).iter().all(|x| x.abs() < 1e-10), "a single person is its own reference");
        assert!(own.features.row(1).iter().any(|x| x.abs() > 0.05));
    }
}
