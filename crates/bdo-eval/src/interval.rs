//! Whether predicted spreads can be believed: coverage, sharpness, and where the truth falls in what was predicted.

use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The bands that are reported.
pub const LEVELS: [f64; 3] = [0.5, 0.8, 0.95];
/// Bars of a histogram of where the truth fell.
const PIT_BINS: usize = 20;

/// Chance that a standard normal number is below `z`.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// Half-width of a central band of a standard normal number.
pub fn normal_half_width(level: f64) -> f64 {
    // Bisection: the function is monotone and this is called a handful of times.
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if 2.0 * normal_cdf(middle) - 1.0 < level { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Continuous ranked probability score of a normal prediction: an absolute error that rewards honest spreads.
pub fn normal_crps(mean: f64, sd: f64, truth: f64) -> f64 {
    if sd <= 0.0 {
        return (truth - mean).abs();
    }
    let z = (truth - mean) / sd;
    let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    sd * (z * (2.0 * normal_cdf(z) - 1.0) + 2.0 * density - 1.0 / PI.sqrt())
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntervalTally {
    half_widths: [f64; 3],
    count: u64,
    squared_error: f64,
    covered: [u64; 3],
    width: [f64; 3],
    crps: f64,
    pit: [u64; PIT_BINS],
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalScore {
    pub count: u64,
    pub mse: f64,
    /// Share of truths inside the bands of 50, 80 and 95 %.
    pub coverage: [f64; 3],
    pub width: [f64; 3],
    /// Mean score of the normal predictions.
    pub crps: f64,
    /// Share of truths in each twentieth of the predicted distribution; even if the spreads are right.
    pub pit: Vec<f64>,
}

impl IntervalTally {
    /// Bands reach `half_widths` standard deviations to either side.
    pub fn new(half_widths: [f64; 3]) -> Self {
        Self { half_widths, ..Self::default() }
    }

    pub fn add(&mut self, mean: f64, sd: f64, truth: f64) {
        self.count += 1;
        self.squared_error += (truth - mean) * (truth - mean);
        for (level, half) in self.half_widths.iter().enumerate() {
            self.covered[level] += u64::from((truth - mean).abs() <= half * sd);
            self.width[level] += 2.0 * half * sd;
        }
        self.crps += normal_crps(mean, sd, truth);
        let place = if sd > 0.0 { normal_cdf((truth - mean) / sd) } else { f64::from(u8::from(truth > mean)) };
        self.pit[((place * PIT_BINS as f64) as usize).min(PIT_BINS - 1)] += 1;
    }

    pub fn score(&self) -> IntervalScore {
        let n = self.count.max(1) as f64;
        IntervalScore {
            count: self.count,
            mse: self.squared_error / n,
            coverage: self.covered.map(|c| c as f64 / n),
            width: self.width.map(|w| w / n),
            crps: self.crps / n,
            pit: self.pit.iter().map(|c| *c as f64 / n).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_the_tabulated_one() {
        // Values of scipy.stats.norm.
        assert!((normal_cdf(1.0) - 0.841_344_746_068_542_9).abs() < 1e-15);
        assert!((normal_cdf(-3.0) - 0.001_349_898_031_630_094_6).abs() < 1e-17);
        for (level, expected) in [(0.5, 0.674_489_750_196_081_7), (0.95, 1.959_963_984_540_054)] {
            assert!((normal_half_width(level) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn the_score_is_the_integral_it_stands_for() {
        // The score is the integral of (F(x) - [x >= truth])^2.
        let (mean, sd, truth) = (0.3, 0.7, 1.1);
        let step = 1e-3;
        let integral: f64 = (-8000..8000)
            .map(|i| {
                let x = (f64::from(i) + 0.5) * step;
                let gap = normal_cdf((x - mean) / sd) - f64::from(u8::from(x >= truth));
                gap * gap * step
            })
            .sum();
        assert!((normal_crps(mean, sd, truth) - integral).abs() < 1e-3 * step + 1e-6);
    }

    #[test]
    fn right_spreads_cover_what_they_say_and_wrong_ones_do_not() {
        let normal = |i: u32| {
            // Evenly spaced quantiles of a standard normal, found by bisection.
            let level = (f64::from(i) + 0.5) / 1000.0;
            if level < 0.5 { -normal_half_width(1.0 - 2.0 * level) } else { normal_half_width(2.0 * level - 1.0) }
        };
        let halves = LEVELS.map(normal_half_width);
        let (mut right, mut narrow) = (IntervalTally::new(halves), IntervalTally::new(halves));
        for i in 0..1000 {
            right.add(2.0, 3.0, 2.0 + 3.0 * normal(i));
            narrow.add(2.0, 1.5, 2.0 + 3.0 * normal(i));
        }
        let (right, narrow) = (right.score(), narrow.score());
        for (found, level) in right.coverage.iter().zip(LEVELS) {
            assert!((found - level).abs() < 2e-3, "{found} {level}");
        }
        assert!(right.pit.iter().all(|share| (share - 0.05).abs() < 2e-3));
        assert!(narrow.coverage[2] < 0.7 && narrow.crps > right.crps);
    }
}
