//! Standardised training rows in the coordinates of their own eigenvectors.
//!
//! A penalty on the length of the weights does not change when features are rotated, so every penalised fit happens in at most
//! as many coordinates as there are rows: the 19,900 correlations of 200 regions cost one decomposition of people x people, which
//! then serves every penalty. Where there are fewer features than rows, the features' own covariance is decomposed instead.

use std::ops::Deref;

use bdo_kernels::linalg::{self, leading_eigen};
use faer::{Mat, MatRef};
use rayon::prelude::*;

use crate::error::EvalError;
use crate::features::Features;
use crate::standardise::FittedStandardiser;

/// Columns standardised at once: a block of them fits the cache of a core beside a strip of the result.
const BLOCK_COLUMNS: usize = 512;
/// Rows of the result that one thread computes; fixed, so that sums do not depend on the number of threads.
const STRIP_ROWS: usize = 96;

/// Training rows as `[rows, rank]` scores whose columns are orthogonal: all that a penalised fit needs to know of them.
#[derive(Debug)]
pub struct Coordinates {
    rows: usize,
    /// Row-major `[rows, rank]`.
    scores: Vec<f64>,
    /// Squared length of each column of the scores, largest first.
    eigenvalues: Vec<f64>,
}

/// The design of a fit: coordinates of standardised features.
#[derive(Debug)]
pub struct Design<'a> {
    features: &'a Features,
    rows: &'a [usize],
    standardiser: FittedStandardiser,
    coordinates: Coordinates,
    /// Features x rank where there are fewer features than rows.
    rotation: Option<Mat<f64>>,
}

impl Coordinates {
    /// Of rows that are known by their products with each other.
    pub fn of_products(products: &Mat<f64>) -> Result<Self, EvalError> {
        let (eigenvalues, vectors) = eigen(products)?;
        let mut scores = row_major(vectors.as_ref());
        for row in scores.chunks_exact_mut(eigenvalues.len().max(1)) {
            row.iter_mut().zip(&eigenvalues).for_each(|(x, l)| *x *= l.sqrt());
        }
        Ok(Self { rows: products.nrows(), scores, eigenvalues })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of coordinates: the rank of the standardised features.
    pub fn rank(&self) -> usize {
        self.eigenvalues.len()
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.scores[i * self.rank()..][..self.rank()]
    }

    /// Squared lengths of the coordinates' columns, largest first.
    pub fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }

    /// Mean squared length of a row: what a penalty is measured by. 1 where all features are constant.
    pub fn mean_square(&self) -> f64 {
        let mean = self.eigenvalues.iter().sum::<f64>() / self.rows.max(1) as f64;
        if mean > 0.0 { mean } else { 1.0 }
    }

    /// Weights of the coordinates as weights of products with the training rows.
    pub fn row_weights(&self, weights: &[f64]) -> Vec<f64> {
        let scaled: Vec<f64> = weights.iter().zip(&self.eigenvalues).map(|(w, l)| w / l).collect();
        (0..self.rows).map(|i| self.row(i).iter().zip(&scaled).map(|(s, w)| s * w).sum()).collect()
    }
}

impl Deref for Design<'_> {
    type Target = Coordinates;

    fn deref(&self) -> &Coordinates {
        &self.coordinates
    }
}

impl<'a> Design<'a> {
    /// Standardises on these rows and decomposes.
    pub fn new(features: &'a Features, rows: &'a [usize]) -> Result<Self, EvalError> {
        let standardiser = FittedStandardiser::fit(features, rows);
        if features.width() < rows.len() {
            let all = standardised(features, rows, &standardiser, 0, features.width());
            let mut covariance = Mat::zeros(features.width(), features.width());
            add_product(&mut covariance, all.transpose());
            let (eigenvalues, rotation) = eigen(&covariance)?;
            let scores = row_major(linalg::product(all.as_ref(), rotation.as_ref()).as_ref());
            let coordinates = Coordinates { rows: rows.len(), scores, eigenvalues };
            return Ok(Self { features, rows, standardiser, coordinates, rotation: Some(rotation) });
        }
        let coordinates = Coordinates::of_products(&products(features, rows, &standardiser))?;
        Ok(Self { features, rows, standardiser, coordinates, rotation: None })
    }

    /// Weights in the coordinates as weights of the standardised features.
    pub fn feature_weights(&self, weights: &[f64]) -> Vec<f64> {
        let width = self.features.width();
        if let Some(rotation) = &self.rotation {
            return (0..width).map(|j| weights.iter().enumerate().map(|(k, w)| rotation[(j, k)] * w).sum()).collect();
        }
        let mut out = vec![0.0; width];
        for (&row, a) in self.rows.iter().zip(self.row_weights(weights)) {
            for (j, (o, x)) in out.iter_mut().zip(self.features.row(row)).enumerate() {
                *o += a * self.standardiser.value(j, *x);
            }
        }
        out
    }

    /// The standardisation, for the model that is made of the fit.
    pub fn standardiser(&self) -> &FittedStandardiser {
        &self.standardiser
    }
}

/// Products of standardised rows with each other.
pub(crate) fn products(features: &Features, rows: &[usize], by: &FittedStandardiser) -> Mat<f64> {
    let mut out = Mat::zeros(rows.len(), rows.len());
    for start in (0..features.width()).step_by(BLOCK_COLUMNS) {
        let end = (start + BLOCK_COLUMNS).min(features.width());
        add_product(&mut out, standardised(features, rows, by, start, end).as_ref());
    }
    out
}

fn standardised(features: &Features, rows: &[usize], by: &FittedStandardiser, start: usize, end: usize) -> Mat<f64> {
    Mat::from_fn(rows.len(), end - start, |i, j| by.value(start + j, features.row(rows[i])[start + j]))
}

/// Adds `a` times its transpose, strips in parallel and each in a fixed order.
fn add_product(out: &mut Mat<f64>, a: MatRef<'_, f64>) {
    let strips: Vec<_> = out.as_mut().par_row_chunks_mut(STRIP_ROWS).collect();
    strips.into_par_iter().enumerate().for_each(|(k, mut strip)| {
        let rows = a.subrows(k * STRIP_ROWS, strip.nrows());
        linalg::add_product(strip.as_mut(), rows, a.transpose());
    });
}

/// Eigenvalues above rounding, largest first, with their vectors as columns.
fn eigen(matrix: &Mat<f64>) -> Result<(Vec<f64>, Mat<f64>), EvalError> {
    let n = matrix.nrows();
    let (mut values, vectors) = leading_eigen(matrix.as_ref()).ok_or(EvalError::Eigenvalues { size: n })?;
    // Sums of n products round to about n times the last digit of the largest; below that a direction is not there.
    let least = values.first().copied().unwrap_or(0.0) * n as f64 * f64::EPSILON * 4.0;
    values.retain(|value| *value > least);
    let kept = vectors.subcols(0, values.len()).to_owned();
    Ok((values, kept))
}

fn row_major(matrix: MatRef<'_, f64>) -> Vec<f64> {
    let mut out = Vec::with_capacity(matrix.nrows() * matrix.ncols());
    for i in 0..matrix.nrows() {
        out.extend((0..matrix.ncols()).map(|j| matrix[(i, j)]));
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn made(rows: usize, width: usize) -> Features {
        let value = |i: usize| ((i * 7919 + 13) % 1009) as f64 / 1009.0 + ((i * 31) % 17) as f64 * 0.01;
        Features::new(rows, width, (0..rows * width).map(value).collect()).unwrap()
    }

    #[test]
    fn scores_keep_all_products_on_either_side() {
        for (n, p) in [(40, 7), (12, 30), (150, 700)] {
            let features = made(n, p);
            let rows: Vec<usize> = (0..n).collect();
            let design = Design::new(&features, &rows).unwrap();
            let by = design.standardiser();
            let exact = |a: usize, b: usize| -> f64 {
                let pairs = features.row(a).iter().zip(features.row(b)).enumerate();
                pairs.map(|(j, (x, y))| by.value(j, *x) * by.value(j, *y)).sum()
            };
            let dot = |a: usize, b: usize| -> f64 { design.row(a).iter().zip(design.row(b)).map(|(x, y)| x * y).sum() };
            for (a, b) in [(0, 0), (1, 5), (n - 1, 3)] {
                assert!((exact(a, b) - dot(a, b)).abs() < 1e-10 * p as f64, "{n} x {p}: rows {a} and {b}");
            }
        }
    }

    #[test]
    fn weights_of_features_predict_as_weights_of_scores() {
        for (n, p) in [(40, 7), (12, 30)] {
            let features = made(n, p);
            let rows: Vec<usize> = (0..n).collect();
            let design = Design::new(&features, &rows).unwrap();
            let weights: Vec<f64> = (0..design.rank()).map(|k| 1.0 / (k + 1) as f64).collect();
            let back = design.feature_weights(&weights);
            for i in 0..n {
                let direct: f64 = design.row(i).iter().zip(&weights).map(|(s, w)| s * w).sum();
                let x = features.row(i).iter().enumerate();
                let through: f64 = x.map(|(j, x)| back[j] * design.standardiser().value(j, *x)).sum();
                assert!((direct - through).abs() < 1e-10, "{n} x {p}: row {i}: {direct} against {through}");
            }
        }
    }
}
