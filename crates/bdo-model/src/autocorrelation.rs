//! How alike two frames of a region are, by the time between them: pooled over regions and training scans. All that
//! the best linear interpolation (kriging) needs to know.

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::random::{shuffle, stream};
use bdo_data::scaler::FittedRobustScaler;
use bdo_kernels::linalg::solve_positive;
use faer::Mat;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Scans looked at; more would not change the second digit.
const MOST_SCANS: usize = 64;
/// Lags beyond this count as uncorrelated.
const LONGEST_SECONDS: f64 = 100.0;

/// Autocorrelation at multiples of a lag; 1 at lag 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autocorrelation {
    /// Distance of two entries.
    pub lag_seconds: f64,
    /// Entries from lag 0 on.
    pub values: Vec<f64>,
}

impl Autocorrelation {
    /// From scans of training people, a sample of them where there are many.
    pub fn of_scans(cohort: &Cohort, scans: &[usize], scaler: &FittedRobustScaler) -> Result<Self, CohortError> {
        let mut scans = scans.to_vec();
        shuffle(&mut scans, &mut stream("autocorrelation", &[0]));
        scans.truncate(MOST_SCANS);
        let shortest = scans.iter().map(|&i| cohort.index()[i].tr_seconds).fold(f64::INFINITY, f64::min);
        // Half of the shortest repetition time: scans of different ones do not share bins by rounding.
        let lag_seconds = shortest / 2.0;
        let bins = (LONGEST_SECONDS / lag_seconds) as usize + 1;
        let scaled = |&i: &usize| {
            let scan = scaler.apply(&cohort.scan(i)?);
            Ok((scan.times_seconds, scan.values))
        };
        let series = scans.par_iter().map(scaled).collect::<Result<Vec<_>, CohortError>>()?;
        Ok(Self::pooled(&series, cohort.regions().len(), lag_seconds, bins))
    }

    /// Pooled over series of so many columns, each with the times of its rows.
    pub fn pooled(series: &[(Vec<f64>, Vec<f32>)], columns: usize, lag_seconds: f64, bins: usize) -> Self {
        let one = |(times, values): &(Vec<f64>, Vec<f32>)| products(times, values, columns, lag_seconds, bins);
        let sums: Vec<Vec<(f64, f64)>> = series.par_iter().map(one).collect();
        let total =
            |bin: usize| sums.iter().fold((0.0, 0.0), |(sum, count), scan| (sum + scan[bin].0, count + scan[bin].1));
        let means: Vec<Option<f64>> =
            (0..bins).map(total).map(|(sum, count)| (count > 0.0).then(|| sum / count)).collect();
        Self { lag_seconds, values: positive(&filled(&means)) }
    }

    /// Weights [visible, times] of visible frames in the best linear prediction of others, around a mean of 0. An estimated
    /// autocorrelation need not be positive definite, so as little as suffices is added to the diagonal.
    pub fn kriging(&self, visible_seconds: &[f64], times_seconds: &[f64]) -> Mat<f64> {
        let between = |a: &[f64], b: &[f64]| Mat::from_fn(a.len(), b.len(), |i, j| self.at(a[i] - b[j]));
        let (mut known, asked) = (between(visible_seconds, visible_seconds), between(visible_seconds, times_seconds));
        let mut added = 1e-6;
        loop {
            (0..visible_seconds.len()).for_each(|i| known[(i, i)] = self.at(0.0) + added);
            if let Some(weights) = solve_positive(&known, &asked) {
                return weights;
            }
            added *= 4.0;
        }
    }

    /// Between two frames this far apart.
    pub fn at(&self, seconds: f64) -> f64 {
        // Nothing is known beyond the last lag, however far: times may be as large as numbers are.
        let place = (seconds.abs() / self.lag_seconds).min(self.values.len() as f64);
        let (bin, share) = (place.floor() as usize, place.fract());
        let value = |bin: usize| self.values.get(bin).copied().unwrap_or(0.0);
        value(bin) * (1.0 - share) + value(bin + 1) * share
    }
}

/// Sums and counts of products over regions of pairs of frames, by lag; each scan scaled to variance 1.
fn products(times: &[f64], values: &[f32], regions: usize, lag: f64, bins: usize) -> Vec<(f64, f64)> {
    let row = |i: usize| &values[i * regions..(i + 1) * regions];
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(x * y)).sum::<f64>();
    let mut found = vec![(0.0f64, 0.0f64); bins];
    for i in 0..times.len() {
        for j in i..times.len() {
            let bin = ((times[j] - times[i]) / lag).round() as usize;
            if bin >= bins {
                break;
            }
            found[bin].0 += dot(row(i), row(j));
            found[bin].1 += 1.0;
        }
    }
    let variance = found[0].0 / found[0].1.max(1.0);
    for (sum, _) in &mut found {
        *sum /= variance.max(f64::MIN_POSITIVE);
    }
    found
}

/// Least power at any frequency, as a share of the mean.
const LEAST_POWER: f64 = 1e-3;

/// The nearest autocorrelation that a process can have: its spectrum is nowhere negative. Scans of several repetition times fill
/// different bins, and what they make together need not be one; kriging beyond the last frame then breaks down.
fn positive(values: &[f64]) -> Vec<f64> {
    let last = values.len().saturating_sub(1);
    if last == 0 {
        return values.to_vec();
    }
    // Of the even sequence with period 2 `last`: the same sum leads there and back, up to a factor.
    let turn = std::f64::consts::PI / last as f64;
    let transformed = |of: &[f64]| -> Vec<f64> {
        let share = |j: usize| if j == 0 || j == last { 1.0 } else { 2.0 };
        let at = |k: usize| (0..=last).map(|j| share(j) * of[j] * (turn * ((j * k) % (2 * last)) as f64).cos()).sum();
        (0..=last).map(at).collect()
    };
    let spectrum = transformed(values);
    let least = LEAST_POWER * spectrum.iter().sum::<f64>() / spectrum.len() as f64;
    let clipped: Vec<f64> = spectrum.iter().map(|power| power.max(least)).collect();
    let back = transformed(&clipped);
    back.iter().map(|x| x / back[0]).collect()
}

/// Empty bins get the line between their neighbours; after the last one there is nothing.
fn filled(means: &[Option<f64>]) -> Vec<f64> {
    let mut values = vec![0.0; means.len()];
    let mut last: Option<(usize, f64)> = None;
    for (bin, mean) in means.iter().enumerate() {
        let Some(mean) = *mean else { continue };
        values[bin] = mean;
        if let Some((from, before)) = last {
            for (step, value) in values[from + 1..bin].iter_mut().enumerate() {
                let share = (step + 1) as f64 / (bin - from) as f64;
                *value = before + share * (mean - before);
            }
        }
        last = Some((bin, mean));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames 1e300 seconds apart: the number of the bin overflowed.
    #[test]
    fn frames_however_far_apart_are_not_correlated() {
        let of = Autocorrelation { lag_seconds: 0.5, values: vec![1.0, 0.5, 0.25] };
        for seconds in [1.5, 1e300, -f64::MAX, f64::INFINITY] {
            assert_eq!(of.at(seconds), 0.0, "{seconds}");
        }
        assert_eq!((of.at(-0.25), of.at(1.25)), (0.75, 0.125));
        assert!(of.kriging(&[0.0, 1e300], &[1.0]).col(0).iter().all(|x| x.is_finite()));
    }

    #[test]
    fn bins_of_different_scanners_make_an_autocorrelation() {
        // Even bins of one scanner, odd ones of another with less correlated frames: no process has both.
        let jagged: Vec<f64> = (0..64).map(|k| 0.9f64.powi(k) * if k % 2 == 0 { 1.0 } else { 0.3 }).collect();
        let determinant_fails = |values: &[f64]| {
            let of = Autocorrelation { lag_seconds: 1.0, values: values.to_vec() };
            let times: Vec<f64> = (0..30).map(f64::from).collect();
            let whole = Mat::from_fn(30, 30, |i, j| of.at(times[i] - times[j]) + if i == j { 1e-6 } else { 0.0 });
            solve_positive(&whole, &Mat::zeros(30, 1)).is_none()
        };
        let mut wrong = jagged.clone();
        wrong[1] = 1.4;
        assert!(determinant_fails(&wrong));
        for values in [jagged, wrong] {
            let found = positive(&values);
            assert!((found[0] - 1.0).abs() < 1e-12 && !determinant_fails(&found), "{found:?}");
        }
        // One that is possible stays as it is, up to the least power.
        let decay: Vec<f64> = (0..64).map(|k| 0.8f64.powi(k)).collect();
        assert!(positive(&decay).iter().zip(&decay).all(|(a, b)| (a - b).abs() < 2e-3));
    }

    #[test]
    fn a_decaying_process_shows_its_rate() {
        // x' = 0.8 x + noise has autocorrelation 0.8^k.
        let mut noise = vec![0.0f32; 20_000];
        crate::noise::fill_normal(&mut stream("t", &[3]), &mut noise);
        let mut x = 0.0f32;
        let values: Vec<f32> = noise
            .iter()
            .map(|e| {
                x = 0.8 * x + 0.6 * e;
                x
            })
            .collect();
        let times: Vec<f64> = (0..values.len()).map(|i| i as f64 * 2.0).collect();
        let found = products(&times, &values, 1, 1.0, 12);
        let means: Vec<Option<f64>> = found.iter().map(|(s, n)| (*n > 0.0).then(|| s / n)).collect();
        let acf = Autocorrelation { lag_seconds: 1.0, values: filled(&means) };
        for k in 0..5 {
            // The standard error of an autocorrelation of 20,000 frames is below 0.02.
            assert!((acf.at(2.0 * f64::from(k)) - 0.8f64.powi(k)).abs() < 0.05, "{k}: {acf:?}");
        }
        assert!((acf.at(1.0) - 0.9).abs() < 0.03);
    }
}
