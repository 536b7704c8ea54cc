//! Columns to mean 0 and spread 1, each or all together, by the statistics of chosen rows only.

use serde::{Deserialize, Serialize};

use crate::features::Features;

/// A column that varies less than this, relative to its largest value, is constant up to rounding.
const LEAST_RELATIVE_SPREAD: f64 = 1e-12;
/// The same relative to the column that varies most: features of a model are f32, and where it has fewer training people than
/// latent dimensions the last ones hold nothing but rounding.
const LEAST_SHARE_OF_SPREADS: f64 = 1e-5;

/// Means and population spreads of columns, fitted on training rows; spreads are divided by the weights of the columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedStandardiser {
    means: Vec<f64>,
    /// 0 marks a column that is constant or missing in the training rows, or weighs nothing; it becomes 0.
    spreads: Vec<f64>,
}

impl FittedStandardiser {
    /// Fits on these rows; missing values are left out of the statistics.
    pub fn fit(features: &Features, rows: &[usize]) -> Self {
        let width = features.width();
        let (mut sums, mut counts, mut largest) = (vec![0.0; width], vec![0.0f64; width], vec![0.0f64; width]);
        for &i in rows {
            for (j, x) in features.row(i).iter().enumerate().filter(|(_, x)| !x.is_nan()) {
                sums[j] += x;
                counts[j] += 1.0;
                largest[j] = largest[j].max(x.abs());
            }
        }
        let means: Vec<f64> = sums.iter().zip(&counts).map(|(s, n)| s / n.max(1.0)).collect();
        let mut squares = vec![0.0; width];
        for &i in rows {
            for (j, x) in features.row(i).iter().enumerate().filter(|(_, x)| !x.is_nan()) {
                squares[j] += (x - means[j]).powi(2);
            }
        }
        let spread = |j: usize| (squares[j] / counts[j].max(1.0)).sqrt();
        let least = LEAST_SHARE_OF_SPREADS * (0..width).map(spread).fold(0.0, f64::max);
        let usable = |j: usize| spread(j) > (LEAST_RELATIVE_SPREAD * largest[j]).max(least);
        let mut spreads: Vec<f64> = (0..width).map(|j| if usable(j) { spread(j) } else { 0.0 }).collect();
        let alone = features.together() == 1;
        for run in spreads.chunks_mut(features.together()).filter(|_| !alone) {
            let used = run.iter().filter(|s| **s > 0.0).count().max(1) as f64;
            let together = (run.iter().map(|s| s * s).sum::<f64>() / used).sqrt();
            run.iter_mut().filter(|s| **s > 0.0).for_each(|s| *s = together);
        }
        for (run, weight) in spreads.chunks_mut(features.together()).zip(features.weights()) {
            run.iter_mut().for_each(|s| *s = if *weight > 0.0 { *s / weight } else { 0.0 });
        }
        Self { means, spreads }
    }

    pub fn width(&self) -> usize {
        self.means.len()
    }

    /// One value of column `j`; a missing one becomes the training mean, which is 0.
    #[inline]
    pub fn value(&self, j: usize, x: f64) -> f64 {
        if x.is_nan() || self.spreads[j] == 0.0 { 0.0 } else { (x - self.means[j]) / self.spreads[j] }
    }

    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// Spreads of the columns, 0 where constant.
    pub fn spreads(&self) -> &[f64] {
        &self.spreads
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::features::{FeatureTable, ScanRow, TableOrigin};
    use bdo_model::pooling::Pooling;

    #[test]
    fn statistics_come_from_the_given_rows_only() {
        let values = vec![1.0, 5.0, f64::NAN, 3.0, 5.0, 2.0, 100.0, 7.0, 4.0];
        let features = Features::new(3, 3, values).unwrap();
        let fitted = FittedStandardiser::fit(&features, &[0, 1]);
        assert_eq!(fitted.means(), [2.0, 5.0, 2.0]);
        assert_eq!(fitted.spreads(), [1.0, 0.0, 0.0]);
        assert_eq!(fitted.value(0, 100.0), 98.0);
        assert_eq!(fitted.value(1, 7.0), 0.0, "a column without spread in training says nothing");
        assert_eq!(fitted.value(0, f64::NAN), 0.0);
    }

    #[test]
    fn the_numbers_of_a_mean_keep_their_proportions() {
        let spreads = |pooling: Pooling| {
            let words = String::new;
            let origin = TableOrigin {
                version: words(),
                model_blake3: words(),
                readout_blake3: None,
                cohort_blake3: words(),
                pooling,
                shard: None,
            };
            let row = || ScanRow { scan: words(), subject: words(), session: None };
            let values = vec![3.0, 4.0, 7.0, -3.0, -4.0, 7.0];
            let table = FeatureTable::of_model(vec![row(), row()], 3, values, origin).unwrap();
            FittedStandardiser::fit(&table.features, &[0, 1]).spreads().to_vec()
        };
        assert_eq!(spreads(Pooling::Mean), [12.5f64.sqrt(), 12.5f64.sqrt(), 0.0]);
        assert_eq!(spreads(Pooling::Correlation), [3.0, 4.0, 0.0]);
        assert_eq!(spreads(Pooling::MeanMovement), [3.0, 4.0, 0.0], "one latent: a mean and two changes");
    }

    /// A model of 36 people has 35 coordinates of 192; rounding in the others was scaled up to unit variance and buried them.
    #[test]
    fn rounding_is_no_feature() {
        let values: Vec<f64> = (0..8).flat_map(|k| [f64::from(k % 3), 1e-8 * f64::from(k * k % 5)]).collect();
        let fitted = FittedStandardiser::fit(&Features::new(8, 2, values).unwrap(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(fitted.spreads()[0] > 0.5 && fitted.spreads()[1] == 0.0, "{:?}", fitted.spreads());
    }
}
