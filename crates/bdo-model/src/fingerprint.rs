//! The correlations of a visit in a few coordinates: along the principal axes in which training people differ, each scaled to
//! unit variance among them. Fitted without labels. The fingerprint term teaches the mean control to tell the coordinates of
//! the very frames it saw: a function of the input, not of the person, so that it cannot be learned by heart.

use bdo_kernels::linalg::{add_product, leading_eigen, product};
use faer::Mat;
use rayon::prelude::*;

/// Scans the axes are fitted on at most: what bounds memory and time in large cohorts.
pub const MOST_SCANS: usize = 1000;
/// Coordinates are cut here: a damaged scan can lie hundreds of standard deviations away.
const FARTHEST: f32 = 4.0;
/// Correlations multiplied at a time.
const BLOCK: usize = 2048;

/// Principal axes of correlations.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedFingerprint {
    /// Of each pair of regions, in the order of [`correlations`].
    mean: Vec<f32>,
    /// Scaled so that coordinates have unit variance; at most `width`.
    axes: Vec<Vec<f32>>,
    width: usize,
}

impl FittedFingerprint {
    /// Fits `width` axes on the correlations of training people's scans, NaN where a region is missing. Fewer than that many
    /// plus one scans leave the last coordinates 0. `None` if nothing differs between them.
    pub fn fit(mut scans: Vec<Vec<f32>>, width: usize) -> Option<Self> {
        let (n, pairs) = (scans.len(), scans.first()?.len());
        let mean: Vec<f32> = (0..pairs)
            .into_par_iter()
            .map(|k| {
                let known = scans.iter().map(|scan| f64::from(scan[k])).filter(|x| x.is_finite());
                let (sum, count) = known.fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
                (sum / count.max(1) as f64) as f32
            })
            .collect();
        let centre = |scan: &mut Vec<f32>| {
            scan.iter_mut().zip(&mean).for_each(|(x, m)| *x = if x.is_finite() { *x - m } else { 0.0 });
        };
        scans.par_iter_mut().for_each(centre);
        let block = |from: usize| Mat::from_fn(n, BLOCK.min(pairs - from), |i, j| f64::from(scans[i][from + j]));
        let mut gram = Mat::<f64>::zeros(n, n);
        for from in (0..pairs).step_by(BLOCK) {
            let some = block(from);
            add_product(gram.as_mut(), some.as_ref(), some.transpose());
        }
        let (values, directions) = leading_eigen(gram.as_ref())?;
        let least = values.first().copied().filter(|most| *most > 0.0)? * 1e-9;
        let kept = values.iter().take(width.min(n.saturating_sub(1))).take_while(|value| **value > least).count();
        // X^T v / w times the root of n: coordinates of the fitted scans are then the root of n times v.
        let scaled = Mat::from_fn(n, kept, |i, k| directions[(i, k)] * (n as f64).sqrt() / values[k]);
        let mut axes = vec![vec![0.0f32; pairs]; kept];
        for from in (0..pairs).step_by(BLOCK) {
            let some = product(scaled.transpose(), block(from).as_ref());
            for (k, axis) in axes.iter_mut().enumerate() {
                (0..some.ncols()).for_each(|j| axis[from + j] = some[(k, j)] as f32);
            }
        }
        Some(Self { mean, axes, width })
    }

    /// Number of coordinates.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The coordinates of a row-major [frames, regions] series.
    pub fn coordinates(&self, series: &[f32], regions: usize) -> Vec<f32> {
        let found = correlations(series, regions);
        let from_mean: Vec<f32> =
            found.iter().zip(&self.mean).map(|(x, m)| if x.is_finite() { x - m } else { 0.0 }).collect();
        let mut told: Vec<f32> =
            self.axes.iter().map(|axis| dot(&from_mean, axis).clamp(-FARTHEST, FARTHEST)).collect();
        told.resize(self.width, 0.0);
        told
    }
}

/// Correlations of a row-major [frames, regions] series: the upper triangle without its diagonal, row by row. NaN where a
/// region is constant or not finite.
pub fn correlations(series: &[f32], regions: usize) -> Vec<f32> {
    let frames = series.len().checked_div(regions).unwrap_or(0);
    let unit = |region: usize| -> Vec<f32> {
        let column = || (0..frames).map(|frame| f64::from(series[frame * regions + region]));
        let mean = column().sum::<f64>() / frames.max(1) as f64;
        let norm = column().map(|x| (x - mean) * (x - mean)).sum::<f64>().sqrt();
        // Rounding of a constant series is not a signal.
        let signal = norm.is_finite() && norm > 1e-6 * (mean.abs() * (frames as f64).sqrt()).max(1e-30);
        column().map(|x| if signal { ((x - mean) / norm) as f32 } else { f32::NAN }).collect()
    };
    let columns: Vec<Vec<f32>> = (0..regions).map(unit).collect();
    (0..regions)
        .flat_map(|i| (i + 1..regions).map(move |j| (i, j)))
        .map(|(i, j)| dot(&columns[i], &columns[j]))
        .collect()
}

/// Sixteen running sums, which the compiler keeps in vector registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (x, y) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = x.remainder().iter().zip(y.remainder()).map(|(a, b)| a * b).sum();
    for (x, y) in x.zip(y) {
        sums.iter_mut().zip(x).zip(y).for_each(|((sum, a), b)| *sum += a * b);
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::Stream;

    /// People who differ along one pattern of coupling get coordinates of unit variance along it, in their order.
    #[test]
    fn people_are_told_apart_along_the_axis_they_differ_in() {
        let (frames, regions) = (400, 5);
        let person = |coupling: f64| -> Vec<f32> {
            let mut stream = Stream::named(7, &coupling.to_string());
            (0..frames)
                .flat_map(|_| {
                    let shared = stream.normal();
                    let own: Vec<f64> = (0..regions).map(|_| stream.normal()).collect();
                    own.into_iter().enumerate().map(move |(r, x)| x + if r < 2 { coupling * shared } else { 0.0 })
                })
                .map(|x| x as f32)
                .collect()
        };
        let people: Vec<Vec<f32>> = (0..20).map(|k| person(0.1 * f64::from(k))).collect();
        let scans: Vec<Vec<f32>> = people.iter().map(|series| correlations(series, regions)).collect();
        let fitted = FittedFingerprint::fit(scans, 8).expect("people differ");
        let told: Vec<Vec<f32>> = people.iter().map(|series| fitted.coordinates(series, regions)).collect();
        assert_eq!(told[0].len(), 8);
        let first: Vec<f64> = told.iter().map(|row| f64::from(row[0])).collect();
        let mean = first.iter().sum::<f64>() / 20.0;
        let variance = first.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 20.0;
        assert!(mean.abs() < 1e-4 && (variance - 1.0).abs() < 1e-3, "mean {mean}, variance {variance}");
        let ends = (first[..5].iter().sum::<f64>() - first[15..].iter().sum::<f64>()).abs() / 5.0;
        assert!(ends > 1.5, "{first:?}");
    }

    #[test]
    fn a_constant_region_has_no_correlations_and_counts_as_the_mean() {
        let series = |x: f32| vec![1.0, 2.0, x, 2.0, 1.0, x, 3.0, 5.0, x, 4.0, 0.0, x];
        let found = correlations(&series(3.0), 3);
        assert!(found[0].is_finite() && found[1].is_nan() && found[2].is_nan(), "{found:?}");
    }
}
