//! Whether a feature is the person's or the day's: agreement of two scans of the same people.

use bdo_train::evaluate::pearson;
use serde::{Deserialize, Serialize};

/// Agreement of features over two scans a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// People with two scans.
    pub people: usize,
    /// ICC(1,1), the share of variance between people, of every feature: its median over features.
    pub icc_median: f64,
    /// A quarter of the features have less.
    pub icc_lower_quartile: f64,
    /// A quarter of the features have more.
    pub icc_upper_quartile: f64,
    /// Share of people whose second scan is nearest (by correlation) to their own first among all first scans.
    pub identified: f64,
    pub chance: f64,
    /// Mean correlation of a person's two features.
    pub same_person: f64,
    /// Mean correlation of features of different people.
    pub different_people: f64,
}

/// One-way random effects, single measure, from a pair a person.
pub fn icc_of_pairs(first: &[f64], second: &[f64]) -> f64 {
    let n = first.len() as f64;
    let grand = first.iter().chain(second).sum::<f64>() / (2.0 * n);
    let mut between = 0.0;
    let mut within = 0.0;
    for (a, b) in first.iter().zip(second) {
        let mean = 0.5 * (a + b);
        between += 2.0 * (mean - grand) * (mean - grand);
        within += 0.5 * (a - b) * (a - b);
    }
    let (between, within) = (between / (n - 1.0), within / n);
    if between + within > 0.0 { (between - within) / (between + within) } else { 0.0 }
}

/// Row-major features [people, width] of the first and of the second scan, person by person. `None` under three people.
pub fn reliability(first: &[f32], second: &[f32], width: usize) -> Option<Reliability> {
    let people = first.len() / width.max(1);
    if people < 3 {
        return None;
    }
    let column =
        |values: &[f32], c: usize| -> Vec<f64> { (0..people).map(|p| f64::from(values[p * width + c])).collect() };
    let mut icc: Vec<f64> = (0..width).map(|c| icc_of_pairs(&column(first, c), &column(second, c))).collect();
    icc.sort_by(f64::total_cmp);
    // Features have very different means; a correlation over raw features would be that of the means. Their scales stay: how far
    // to trust a number is part of a feature.
    let mean = |c: usize| [column(first, c), column(second, c)].concat().iter().sum::<f64>() / (2 * people) as f64;
    let means: Vec<f64> = (0..width).map(mean).collect();
    let centred = |values: &[f32]| -> Vec<f64> {
        values.iter().enumerate().map(|(k, x)| f64::from(*x) - means[k % width]).collect()
    };
    let (first, second) = (centred(first), centred(second));
    let (mut identified, mut same, mut different) = (0usize, 0.0, 0.0);
    for (p, own) in second.chunks_exact(width).enumerate() {
        let alike: Vec<f64> = first.chunks_exact(width).map(|other| correlation(own, other)).collect();
        let best = (0..people).max_by(|a, b| alike[*a].total_cmp(&alike[*b]))?;
        identified += usize::from(best == p);
        same += alike[p];
        different += (alike.iter().sum::<f64>() - alike[p]) / (people - 1) as f64;
    }
    let n = people as f64;
    Some(Reliability {
        people,
        icc_median: icc[width / 2],
        icc_lower_quartile: icc[width / 4],
        icc_upper_quartile: icc[(3 * width / 4).min(width - 1)],
        identified: identified as f64 / n,
        chance: 1.0 / n,
        same_person: same / n,
        different_people: different / n,
    })
}

/// Pearson correlation; 0 if either is constant.
pub fn correlation(x: &[f64], y: &[f64]) -> f64 {
    pearson(x, y, 0.0).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn icc_by_hand() {
        // Analysis of variance of three pairs: mean squares between 8.6667, within 0.6667; (8 / 9.3333).
        let icc = icc_of_pairs(&[1.0, 3.0, 5.0], &[2.0, 4.0, 4.0 + 2.0]);
        let between = 2.0 * (1.5f64 - 3.5).powi(2) + 0.0 + 2.0 * (5.5f64 - 3.5).powi(2);
        let within = 0.5 * 3.0;
        let (between, within) = (between / 2.0, within / 3.0);
        assert!((icc - (between - within) / (between + within)).abs() < 1e-12);
        assert!(icc_of_pairs(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) < 0.0);
        assert!((icc_of_pairs(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn people_are_found_again_by_what_stays() {
        let feature = |person: usize, day: usize, c: usize, stable: f32| {
            let noise = ((person * 31 + day * 17 + c * 7) % 13) as f32 / 13.0;
            let own = ((person * 5 + c * 11) % 17) as f32 / 17.0;
            100.0 * c as f32 + stable * own + (1.0 - stable) * noise
        };
        let table = |day: usize, stable: f32| -> Vec<f32> {
            (0..10).flat_map(|p| (0..40).map(move |c| feature(p, day, c, stable))).collect()
        };
        let stable = reliability(&table(0, 0.9), &table(1, 0.9), 40).unwrap();
        assert!(stable.identified == 1.0 && stable.icc_median > 0.8, "{stable:?}");
        assert!(reliability(&[0.0; 8], &[0.0; 8], 4).is_none());
    }
}
