//! Functional connectivity: correlations of region series over time.

use bdo_data::cohort::Cohort;
use rayon::prelude::*;

use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow};
use crate::product::dot;

/// Correlations are kept this far from one before their inverse hyperbolic tangent, which is infinite there.
const MOST_CORRELATION: f64 = 1.0 - 1e-7;

/// Pearson correlation of every pair of columns of a row-major `[frames, regions]` series; 0 where a column is constant.
pub fn pearson(series: &[f32], regions: usize) -> Vec<f32> {
    let (columns, frames, _) = unit_columns(series, regions);
    let mut out = vec![0.0f32; regions * regions];
    for i in 0..regions {
        for j in 0..=i {
            let r = dot(&columns[i * frames..][..frames], &columns[j * frames..][..frames]) as f32;
            out[i * regions + j] = r;
            out[j * regions + i] = r;
        }
    }
    out
}

/// Fisher's z of the correlations above the diagonal, the inverse hyperbolic tangent, which has errors of equal size everywhere;
/// row by row. NaN where a region is missing or constant, so that a fit can put in what is usual among its training people
/// instead of a correlation of zero nobody measured.
///
/// A correlation does not change when a region is centred or scaled, so raw and scaled scans give the same.
pub fn fisher_z(series: &[f32], regions: usize) -> Vec<f64> {
    let (columns, frames, valid) = unit_columns(series, regions);
    let mut out = Vec::with_capacity(regions * regions.saturating_sub(1) / 2);
    for i in 0..regions {
        for j in i + 1..regions {
            if !(valid[i] && valid[j]) {
                out.push(f64::NAN);
                continue;
            }
            let r = dot(&columns[i * frames..][..frames], &columns[j * frames..][..frames]);
            out.push(r.clamp(-MOST_CORRELATION, MOST_CORRELATION).atanh());
        }
    }
    out
}

/// The connectivity of every scan of a cohort, scans in parallel.
pub fn connectivity_table(cohort: &Cohort) -> Result<FeatureTable, EvalError> {
    let regions = cohort.regions().len();
    let rows = (0..cohort.len())
        .into_par_iter()
        .map(|i| Ok(fisher_z(&cohort.scan(i)?.series, regions)))
        .collect::<Result<Vec<_>, EvalError>>()?;
    let scans = cohort.index().iter().map(ScanRow::of).collect();
    let width = regions * regions.saturating_sub(1) / 2;
    FeatureTable::new(scans, width, rows.concat())
}

/// Columns as contiguous unit vectors, so that every correlation is one dot product; their length; which are not constant.
pub(crate) fn unit_columns(series: &[f32], regions: usize) -> (Vec<f64>, usize, Vec<bool>) {
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
        let norm = dot(column, column).sqrt();
        *valid &= norm > 0.0;
        column.iter_mut().for_each(|x| *x = if *valid { *x / norm } else { 0.0 });
    }
    (columns, frames, valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns: a ramp, its negative, a series uncorrelated with both, a constant.
    fn series() -> Vec<f32> {
        [[1.0, -1.0, 1.0, 5.0], [2.0, -2.0, -2.0, 5.0], [3.0, -3.0, 1.0, 5.0]].concat()
    }

    #[test]
    fn correlations_of_known_series() {
        let r = pearson(&series(), 4);
        let expected = [1.0, -1.0, 0.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for (i, (a, b)) in r.iter().zip(expected).enumerate() {
            assert!((a - b).abs() < 1e-6, "{i}: {a} against {b}");
        }
    }

    #[test]
    fn the_upper_triangle_leaves_out_what_is_missing() {
        let z = fisher_z(&series(), 4);
        assert_eq!(z.len(), 6);
        assert!((z[0] + MOST_CORRELATION.atanh()).abs() < 1e-6, "{}", z[0]);
        assert!(z[1].abs() < 1e-9 && z[3].abs() < 1e-9);
        assert!(z[2].is_nan() && z[4].is_nan() && z[5].is_nan(), "a constant region has no correlation");
        let mut missing = series();
        missing.iter_mut().skip(1).step_by(4).for_each(|x| *x = f32::NAN);
        assert!(fisher_z(&missing, 4)[0].is_nan());
    }
}
