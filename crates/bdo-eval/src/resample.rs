//! How sure a score is: intervals by resampling people, chance by permuting labels, comparisons that respect overlap.

use bdo_data::quantile::quantile;
use bdo_data::random;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An interval that holds the middle share of resampled scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// The [`quantile`] of the finite values among these.
pub fn percentile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, q)
}

/// Percentile interval of a score over resamples of `people` with replacement.
///
/// `score` gets the drawn people (numbers below `people`, some several times) and says nothing where it is undefined.
pub fn bootstrap(
    people: usize,
    resamples: usize,
    level: f64,
    seed: u64,
    score: impl Fn(&[usize]) -> Option<f64> + Sync,
) -> Option<Interval> {
    if people == 0 {
        return None;
    }
    let scores: Vec<f64> = (0..resamples)
        .into_par_iter()
        .filter_map(|k| {
            let mut rng = random::stream("bootstrap", &[seed, k as u64]);
            let drawn: Vec<usize> = (0..people).map(|_| random::below(&mut rng, people as u64) as usize).collect();
            score(&drawn)
        })
        .collect();
    // An interval of the few resamples in which a score happens to be defined would describe those, not the score.
    if scores.len() * 2 < resamples {
        return None;
    }
    let tail = (1.0 - level) / 2.0;
    Some(Interval { low: percentile(&scores, tail)?, high: percentile(&scores, 1.0 - tail)? })
}

/// Chance of a score at least as high when labels have nothing to do with predictions: (1 + as high) / (1 + permutations).
///
/// `score` gets for every person whose label to use; higher is better. None where the observed score is undefined.
pub fn permutation_p(
    people: usize,
    permutations: usize,
    seed: u64,
    score: impl Fn(&[usize]) -> Option<f64> + Sync,
) -> Option<f64> {
    let in_place: Vec<usize> = (0..people).collect();
    let observed = score(&in_place)?;
    let as_high: usize = (0..permutations)
        .into_par_iter()
        .filter(|k| {
            let mut order = in_place.clone();
            random::shuffle(&mut order, &mut random::stream("permutation", &[seed, *k as u64]));
            // A sum in another order may round differently; equal up to that counts as equal.
            score(&order).is_some_and(|s| s >= observed - 1e-12 * observed.abs())
        })
        .count();
    Some((1 + as_high) as f64 / (1 + permutations) as f64)
}

/// Errors of two predictors at the same scans, compared over people.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairedErrors {
    /// Mean over people of the first minus the second.
    pub difference: f64,
    /// 95 % interval of the difference, people drawn with replacement; none of fewer than two.
    pub interval: Option<Interval>,
    /// Share of people with a smaller error by the first.
    pub lower: f64,
}

/// Compares the errors of scans, each with its person; a person with several scans counts once. None without scans.
pub fn paired_errors(people: &[&str], first: &[f64], second: &[f64]) -> Option<PairedErrors> {
    const RESAMPLES: usize = 2000;
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (person, (a, b)) in people.iter().zip(first.iter().zip(second)) {
        let (sum, count) = sums.entry(person).or_default();
        *sum += a - b;
        *count += 1.0;
    }
    let differences: Vec<f64> = sums.into_values().map(|(sum, count)| sum / count).collect();
    let count = Some(differences.len() as f64).filter(|n| *n > 0.0)?;
    let mean = |drawn: &[usize]| Some(drawn.iter().map(|&k| differences[k]).sum::<f64>() / count);
    Some(PairedErrors {
        difference: differences.iter().sum::<f64>() / count,
        interval: (count > 1.0).then(|| bootstrap(differences.len(), RESAMPLES, 0.95, 0, mean)).flatten(),
        lower: differences.iter().filter(|d| **d < 0.0).count() as f64 / count,
    })
}

impl std::fmt::Display for PairedErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:+.4}", self.difference)?;
        if let Some(Interval { low, high }) = self.interval {
            write!(f, " [{low:+.4}, {high:+.4}]")?;
        }
        write!(f, ", lower in {:.1} % of people", 100.0 * self.lower)
    }
}

/// Two methods compared over the same repeated splits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Mean difference, first minus second.
    pub difference: f64,
    /// Corrected t statistic; none where all differences are equal.
    pub t: Option<f64>,
    /// Two-sided p; 1 where all differences are zero, none where they are equal but not zero.
    pub p: Option<f64>,
}

/// Nadeau and Bengio's corrected t-test: repeated splits share people, so the variance of the mean difference is that of the
/// differences times 1/splits + test/train, not 1/splits alone. None with fewer than two splits.
pub fn corrected_comparison(differences: &[f64], test_over_train: f64) -> Option<Comparison> {
    let n = differences.len() as f64;
    if differences.len() < 2 {
        return None;
    }
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if variance <= (mean.abs() * 1e-12).powi(2) {
        return Some(Comparison { difference: mean, t: None, p: (mean == 0.0).then_some(1.0) });
    }
    let t = mean / (variance * (1.0 / n + test_over_train)).sqrt();
    Some(Comparison { difference: mean, t: Some(t), p: Some(two_sided_p(t, n - 1.0)) })
}

/// Chance of a value of Student's t distribution at least as far from zero as `t`, with `degrees` of freedom.
pub fn two_sided_p(t: f64, degrees: f64) -> f64 {
    // The tail of t is the regularised incomplete beta function of degrees / (degrees + t^2).
    regularised_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)
}

/// Incomplete beta function by its continued fraction, evaluated as Lentz does.
fn regularised_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly only below the mean; above it the complement does.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - regularised_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    let away_from_zero = |x: f64| if x.abs() < 1e-300 { 1e-300 } else { x };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    front * fraction
}

/// Logarithm of the gamma function of a positive number: shifted up, then Stirling's series.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 12.0 {
        shift += x.ln();
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

/// Benjamini and Hochberg's adjusted p-values: the smallest false discovery rate at which each would be called.
pub fn false_discovery(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut adjusted = vec![0.0; p.len()];
    let mut lowest = 1.0f64;
    for (above, &i) in order.iter().enumerate() {
        let rank = p.len() - above;
        lowest = lowest.min(p[i] * p.len() as f64 / rank as f64);
        adjusted[i] = lowest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bootstrap_of_a_mean_has_the_width_theory_says() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 20)).collect();
        let mean = |drawn: &[usize]| Some(drawn.iter().map(|i| values[*i]).sum::<f64>() / drawn.len() as f64);
        let interval = bootstrap(values.len(), 4000, 0.95, 1, mean).unwrap();
        // Uniform over 0..19: variance 33.25, so the mean of 400 has a standard error of 0.2883. The ends of an interval of
        // 4000 resamples are known to about 0.0105 each; six of those on the width.
        let width = 2.0 * 1.959_964 * (33.25f64 / 400.0).sqrt();
        assert!((interval.high - interval.low - width).abs() < 0.09, "{interval:?}, expected width {width}");
        assert!(interval.low < 9.5 && 9.5 < interval.high);
    }

    #[test]
    fn permutations_find_what_is_there_and_nothing_else() {
        let truth: Vec<f64> = (0..40).map(f64::from).collect();
        let related: Vec<f64> = truth.iter().map(|t| t + (t * 1.7).sin() * 5.0).collect();
        let p = |predicted: &[f64]| {
            permutation_p(40, 999, 0, |order| {
                let labels: Vec<f64> = order.iter().map(|i| truth[*i]).collect();
                crate::metric::pearson(&labels, predicted)
            })
        };
        assert_eq!(p(&related), Some(0.001));
        assert_eq!(p(&[1.0; 40]), None);
        // Under independence p is uniform: the mean of 200 is 0.5 +- 0.02.
        let mean = (0..200).map(|s| {
            let mut noise: Vec<f64> = truth.clone();
            random::shuffle(&mut noise, &mut random::stream("test", &[s]));
            p(&noise).unwrap()
        });
        let mean = mean.sum::<f64>() / 200.0;
        assert!((mean - 0.5).abs() < 0.1, "{mean}");
    }

    #[test]
    fn degenerate_comparisons_are_said() {
        assert_eq!(corrected_comparison(&[0.1], 0.3), None);
        assert_eq!(corrected_comparison(&[0.0, 0.0, 0.0], 0.3).unwrap().p, Some(1.0));
        assert_eq!(corrected_comparison(&[0.1, 0.1], 0.3).unwrap().p, None);
    }

    /// One person with three scans counts once; the interval is that of the mean over people.
    #[test]
    fn errors_are_compared_over_people() {
        let people = ["a", "a", "a", "b", "c"];
        let found = paired_errors(&people, &[1.0, 2.0, 3.0, 1.0, 5.0], &[4.0, 4.0, 4.0, 2.0, 4.0]).unwrap();
        assert!((found.difference - (-2.0 - 1.0 + 1.0) / 3.0).abs() < 1e-12 && (found.lower - 2.0 / 3.0).abs() < 1e-12);
        let interval = found.interval.unwrap();
        assert!(interval.low < -1.5 && interval.high > 0.0, "{interval:?}");
        let far: Vec<String> = (0..40).map(|k| k.to_string()).collect();
        let names: Vec<&str> = far.iter().map(String::as_str).collect();
        let second: Vec<f64> = (0..40).map(|k| 2.0 + 0.1 * f64::from(k % 5)).collect();
        let told = paired_errors(&names, &[1.0; 40], &second).unwrap();
        let interval = told.interval.unwrap();
        assert!(interval.low < -1.2 && -1.2 < interval.high && interval.high - interval.low < 0.1, "{interval:?}");
        assert_eq!(paired_errors(&["a"], &[1.0], &[2.0]).unwrap().interval, None);
        assert_eq!(paired_errors(&[], &[], &[]), None);
    }

    #[test]
    fn tails_of_student_are_the_closed_forms() {
        // One degree of freedom is Cauchy's distribution; two have an algebraic tail.
        for t in [0.1, 1.0, 3.7, 40.0] {
            let cauchy = 1.0 - 2.0 / std::f64::consts::PI * f64::atan(t);
            assert!((two_sided_p(t, 1.0) - cauchy).abs() < 1e-12, "{t}");
            let two = 1.0 - t / f64::sqrt(2.0 + t * t);
            assert!((two_sided_p(t, 2.0) - two).abs() < 1e-12, "{t}");
        }
        assert_eq!(two_sided_p(0.0, 5.0), 1.0);
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-13);
    }
}
