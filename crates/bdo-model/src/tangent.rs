//! Connectivity as covariance matrices in their own geometry. Every scan has the Ledoit-Wolf covariance of its z-scored regions,
//! whose diagonal is 1: a correlation matrix that can be inverted. A region that is missing or constant in a scan has no entries
//! there. Where a matrix must be whole, what the scan does not say is completed from the mean covariance of the people the
//! tangent space is fitted on, given what it does say.

use crate::covariance::ledoit_wolf;
use bdo_kernels::linalg::{inverse, product, spectral};
use faer::Mat;
use rayon::prelude::*;

/// Eigenvalues below this are rounding: shrinkage keeps those of a correlation matrix far above.
const LEAST_EIGENVALUE: f64 = 1e-10;

/// The eigenvalues of a matrix were not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("eigenvalues of a {size} x {size} matrix were not found: a value is not finite")]
pub struct SpectrumError {
    /// Rows of the matrix.
    pub size: usize,
}

/// The covariance of one scan.
#[derive(Clone, Debug)]
pub struct ScanCovariance {
    /// Regions with a signal, in order.
    valid: Vec<usize>,
    /// Over those regions: upper triangle with the diagonal, row by row.
    covariance: Vec<f64>,
    /// The logarithm of it in the same form, where no region is missing.
    log: Option<Vec<f64>>,
}

impl ScanCovariance {
    /// From a row-major `[frames, regions]` series.
    pub fn of(series: &[f32], regions: usize) -> Result<Self, SpectrumError> {
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

    /// Regions with a signal, in order.
    pub fn valid(&self) -> &[usize] {
        &self.valid
    }

    /// A function of the covariance over the regions with a signal.
    pub fn spectral(&self, function: &dyn Fn(f64) -> f64) -> Result<Mat<f64>, SpectrumError> {
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
    /// Fits on scans, which must be those of training people.
    pub fn of_scans(scans: &[&ScanCovariance], regions: usize) -> Result<Self, SpectrumError> {
        let mean = mean_covariance(scans, regions)?;
        let mut sum = vec![0.0; regions * (regions + 1) / 2];
        let completed = (scans.par_iter().filter(|scan| scan.log.is_none()))
            .map(|scan| Ok(triangle(&function_of(&completed(scan, &mean), &log)?)))
            .collect::<Result<Vec<_>, SpectrumError>>()?;
        for of_scan in scans.iter().filter_map(|scan| scan.log.as_ref()).chain(&completed) {
            sum.iter_mut().zip(of_scan).for_each(|(s, x)| *s += x);
        }
        let n = scans.len().max(1) as f64;
        sum.iter_mut().for_each(|s| *s /= n);
        let whitener = function_of(&square(&sum, regions), &|x| (-0.5 * x).exp())?;
        Ok(Self { mean, whitener })
    }

    /// log(R^-1/2 C R^-1/2) over all regions.
    pub fn tangent(&self, scan: &ScanCovariance) -> Result<Mat<f64>, SpectrumError> {
        let whitener = self.whitener.as_ref();
        let whole = completed(scan, &self.mean);
        function_of(&product(product(whitener, whole.as_ref()).as_ref(), whitener), &log)
    }
}

/// Mean over the scans in which both regions have a signal; 1 on the diagonal and 0 beside it where none has.
fn mean_covariance(scans: &[&ScanCovariance], regions: usize) -> Result<Mat<f64>, SpectrumError> {
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
/// B = M_mv M_vv^-1 predicts what is missing, so that C_mv = B C_vv and C_mm = M_mm - B M_vm + B C_vv B^T. Positive as M and C are.
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

fn function_of(matrix: &Mat<f64>, function: &dyn Fn(f64) -> f64) -> Result<Mat<f64>, SpectrumError> {
    spectral(matrix.as_ref(), function).ok_or(SpectrumError { size: matrix.nrows() })
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

/// Columns as contiguous unit vectors, so that every correlation is one dot product; their length; which are not constant.
pub fn unit_columns(series: &[f32], regions: usize) -> (Vec<f64>, usize, Vec<bool>) {
    let frames = series.len().checked_div(regions).unwrap_or(0);
    let mut columns = vec![0.0f64; regions * frames];
    let mut valid = vec![false; regions];
    for (r, valid) in valid.iter_mut().enumerate() {
        let column = &mut columns[r * frames..][..frames];
        for (t, x) in column.iter_mut().enumerate() {
            *x = f64::from(series[t * regions + r]);
        }
        let (first, mean) = (column.first().copied(), column.iter().sum::<f64>() / frames.max(1) as f64);
        *valid = mean.is_finite() && column.iter().any(|x| Some(*x) != first);
        column.iter_mut().for_each(|x| *x -= mean);
        let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
        *valid &= norm > 0.0;
        column.iter_mut().for_each(|x| *x = if *valid { *x / norm } else { 0.0 });
    }
    (columns, frames, valid)
}

