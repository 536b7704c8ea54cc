//! How good the scans of a cohort are: numbers from its index and series.

use crate::cohort::{Cohort, CohortError};
use crate::shard::evenly;

/// Scans read for the measures that need the series; more would not change the picture.
const MOST_SCANS_READ: usize = 400;

#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    pub read: Vec<usize>,
    /// Per region, the share of those scans in which it has a signal.
    pub valid_share: Vec<f64>,
    /// Per region, the mean share of its voxels inside the image, where scans say it.
    pub coverage: Vec<Option<f64>>,
    /// Per scan, the median over regions of mean over standard deviation in time; `None` where the mean was taken out.
    pub tsnr: Vec<Option<f64>>,
}

impl Quality {
    /// Reads up to 400 scans, evenly spread over the cohort.
    pub fn measure(cohort: &Cohort) -> Result<Self, CohortError> {
        let read: Vec<usize> = evenly(cohort.len(), MOST_SCANS_READ).collect();
        let regions = cohort.regions().len();
        let mut valid = vec![0_usize; regions];
        let mut coverage = vec![(0.0, 0_usize); regions];
        let mut tsnr = vec![];
        for i in &read {
            let scan = cohort.scan(*i)?;
            for (count, is) in valid.iter_mut().zip(scan.valid_regions()) {
                *count += usize::from(is);
            }
            for ((sum, n), share) in coverage.iter_mut().zip(scan.coverage.iter().flatten()) {
                *sum += f64::from(*share);
                *n += 1;
            }
            tsnr.push(median_tsnr(&scan.series, regions));
        }
        let share = |n: usize| n as f64 / read.len().max(1) as f64;
        Ok(Self {
            valid_share: valid.into_iter().map(share).collect(),
            coverage: coverage.into_iter().map(|(sum, n)| (n > 0).then(|| sum / n as f64)).collect(),
            tsnr,
            read,
        })
    }
}

/// Mean over standard deviation in time, median over regions; nothing where the series are centred.
fn median_tsnr(series: &[f32], regions: usize) -> Option<f64> {
    let mut ratios: Vec<f64> = vec![];
    for r in 0..regions {
        let column = || series.iter().skip(r).step_by(regions).map(|x| f64::from(*x));
        let n = column().count() as f64;
        let mean = column().sum::<f64>() / n;
        let deviation = (column().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        if deviation > 0.0 && mean.is_finite() {
            ratios.push(mean.abs() / deviation);
        }
    }
    ratios.sort_by(f64::total_cmp);
    // A mean within the spread is what centring and filtering leave, not a signal level: that of BOLD series is tens of times it.
    ratios.get(ratios.len() / 2).copied().filter(|x| *x > 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsnr_is_mean_over_spread_and_absent_for_centred_series() {
        // Two regions around 100 and 50 with a spread of 1, and a missing one.
        let series: Vec<f32> = (0..10)
            .flat_map(|t| {
                let s = if t % 2 == 0 { 1.0 } else { -1.0 };
                [100.0 + s, 100.0 - s, f32::NAN]
            })
            .collect();
        assert_eq!(median_tsnr(&series, 3), Some(100.0));
        let centred: Vec<f32> = series.iter().map(|x| x - 100.0).collect();
        assert_eq!(median_tsnr(&centred, 3), None);
        // Centred before frames were dropped, say: a small mean is left.
        let nearly: Vec<f32> = centred.iter().map(|x| x + 0.04).collect();
        assert_eq!(median_tsnr(&nearly, 3), None);
    }
}
