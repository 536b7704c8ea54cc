//! Error and correlation at hidden frames.

use bdo_model::intake::Masked;
use serde::Serialize;

/// How good a predictor is, averaged over scans.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Mean squared error over hidden frames and valid regions.
    pub mse: f64,
    /// Mean over regions of `rho_per_region`.
    pub rho: f64,
    /// Pearson correlation over a scan's hidden frames, averaged over the scans where it is defined.
    pub rho_per_region: Vec<Option<f64>>,
    /// Mean squared error of every scan as a share of the mean square of its visible frames: scans differ in size by factors of
    /// hundreds, and the mean of errors as they are is that of the largest.
    pub relative: Vec<f64>,
}

/// Sums over scans.
pub(super) struct Tally {
    mse: f64,
    rho: Vec<(f64, usize)>,
    relative: Vec<f64>,
}

impl Tally {
    pub(super) fn new(regions: usize) -> Self {
        Self { mse: 0.0, rho: vec![(0.0, 0); regions], relative: vec![] }
    }

    /// Adds a scan and returns the mean square of its hidden values.
    pub(super) fn add(&mut self, predicted: &[f32], masked: &Masked) -> f64 {
        let regions = masked.region_valid.len();
        let hidden: Vec<usize> = (0..masked.context.len()).filter(|&row| !masked.context[row]).collect();
        let (mut error, mut square, mut count) = (0.0, 0.0, 0usize);
        for region in (0..regions).filter(|&r| masked.region_valid[r]) {
            let column = |values: &[f32]| -> Vec<f64> {
                hidden.iter().map(|row| f64::from(values[row * regions + region])).collect()
            };
            let (x, y) = (column(predicted), column(&masked.values));
            error += x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
            square += y.iter().map(|y| y * y).sum::<f64>();
            count += hidden.len();
            if let Some(rho) = pearson(&x, &y, 1e-12) {
                self.rho[region].0 += rho;
                self.rho[region].1 += 1;
            }
        }
        let mse = error / count.max(1) as f64;
        self.mse += mse;
        self.relative.push(mse / masked.visible_mean_square().max(f64::MIN_POSITIVE));
        square / count.max(1) as f64
    }

    pub(super) fn score(&self) -> Score {
        let rho_per_region: Vec<Option<f64>> =
            self.rho.iter().map(|(sum, count)| (*count > 0).then(|| sum / *count as f64)).collect();
        let defined: Vec<f64> = rho_per_region.iter().flatten().copied().collect();
        Score {
            mse: self.mse / self.relative.len().max(1) as f64,
            rho: defined.iter().sum::<f64>() / defined.len().max(1) as f64,
            rho_per_region,
            relative: self.relative.clone(),
        }
    }
}

/// Pearson correlation; `None` unless the sums of squared deviations of both are above `least`.
pub fn pearson(x: &[f64], y: &[f64], least: f64) -> Option<f64> {
    let n = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (a, b) in x.iter().zip(y) {
        xy += (a - mx) * (b - my);
        xx += (a - mx) * (a - mx);
        yy += (b - my) * (b - my);
    }
    (xx > least && yy > least).then(|| xy / (xx * yy).sqrt())
}
