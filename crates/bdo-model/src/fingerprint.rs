//! The connectivity of a scan in a few coordinates: its tangent vector along the principal axes of the training people, each
//! scaled to unit variance among them. Fitted without labels; the fingerprint term teaches the mean control to tell them.

use crate::tangent::{FittedTangent, ScanCovariance, SpectrumError};
use bdo_kernels::linalg::{add_product, leading_eigen, product};
use faer::Mat;
use rayon::prelude::*;
use std::f64::consts::SQRT_2;

/// Scans the axes are fitted on at most: what bounds memory and time in large cohorts.
pub const MOST_SCANS: usize = 1000;
/// Coordinates are cut here: a damaged scan can lie hundreds of standard deviations away.
const FARTHEST: f64 = 4.0;
/// Entries of tangent vectors multiplied at a time.
const BLOCK: usize = 2048;

/// Principal axes of connectivity.
#[derive(Clone, Debug)]
pub struct FittedFingerprint {
    tangent: FittedTangent,
    mean: Vec<f32>,
    /// Row-major [axes, entries], scaled so that coordinates have unit variance.
    axes: Vec<Vec<f32>>,
    width: usize,
}

impl FittedFingerprint {
    /// Fits `width` axes on scans of training people; fewer than that many plus one scans leave the last coordinates 0.
    pub fn fit(scans: &[&ScanCovariance], regions: usize, width: usize) -> Result<Self, SpectrumError> {
        let tangent = FittedTangent::of_scans(scans, regions)?;
        let mut vectors =
            scans.par_iter().map(|scan| vector(&tangent, scan)).collect::<Result<Vec<_>, SpectrumError>>()?;
        let (n, entries) = (vectors.len(), regions * (regions + 1) / 2);
        let mean: Vec<f32> = (0..entries)
            .into_par_iter()
            .map(|k| (vectors.iter().map(|v| f64::from(v[k])).sum::<f64>() / n.max(1) as f64) as f32)
            .collect();
        vectors.par_iter_mut().for_each(|v| v.iter_mut().zip(&mean).for_each(|(x, m)| *x -= m));
        let block = |from: usize| {
            Mat::from_fn(n, BLOCK.min(entries - from), |i, j| f64::from(vectors[i][from + j]))
        };
        let mut gram = Mat::<f64>::zeros(n, n);
        for from in (0..entries).step_by(BLOCK) {
            let some = block(from);
            add_product(gram.as_mut(), some.as_ref(), some.transpose());
        }
        let (values, directions) = leading_eigen(gram.as_ref()).ok_or(SpectrumError { size: n })?;
        let least = values.first().copied().unwrap_or(0.0).max(0.0) * 1e-9;
        let kept = values.iter().take(width.min(n.saturating_sub(1))).take_while(|value| **value > least).count();
        // X^T v / w times the root of n: coordinates of the fitted scans are then the root of n times v.
        let scaled = Mat::from_fn(n, kept, |i, k| directions[(i, k)] * (n as f64).sqrt() / values[k]);
        let mut axes = vec![vec![0.0f32; entries]; kept];
        for from in (0..entries).step_by(BLOCK) {
            let some = product(scaled.transpose(), block(from).as_ref());
            for (k, axis) in axes.iter_mut().enumerate() {
                (0..some.ncols()).for_each(|j| axis[from + j] = some[(k, j)] as f32);
            }
        }
        Ok(Self { tangent, mean, axes, width })
    }

    /// The coordinates of a scan.
    pub fn coordinates(&self, scan: &ScanCovariance) -> Result<Vec<f32>, SpectrumError> {
        let vector = vector(&self.tangent, scan)?;
        let along = |axis: &Vec<f32>| {
            let entries = vector.iter().zip(&self.mean).zip(axis);
            let sum: f64 = entries.map(|((x, m), a)| f64::from(x - m) * f64::from(*a)).sum();
            sum.clamp(-FARTHEST, FARTHEST) as f32
        };
        let mut found: Vec<f32> = self.axes.iter().map(along).collect();
        found.resize(self.width, 0.0);
        Ok(found)
    }
}

/// The upper triangle of the tangent matrix with its diagonal, off-diagonals times the root of 2.
fn vector(tangent: &FittedTangent, scan: &ScanCovariance) -> Result<Vec<f32>, SpectrumError> {
    let matrix = tangent.tangent(scan)?;
    let n = matrix.nrows();
    let entry = |(i, j): (usize, usize)| if i == j { matrix[(i, j)] } else { SQRT_2 * matrix[(i, j)] } as f32;
    Ok((0..n).flat_map(|i| (i..n).map(move |j| (i, j))).map(entry).collect())
}
