//! Shrunk covariances against scikit-learn, and regions without signal.

use crate::reference::{Golden, relative};
use bdo_baselines::connectivity::{partial_correlation, shrunk_fisher};
use bdo_eval::connectivity::pearson;
use bdo_eval::covariance::ledoit_wolf;

#[test]
fn ledoit_wolf_is_that_of_scikit_learn() {
    let golden = Golden::read("covariance");
    for case in ["long", "short"] {
        let array = &golden.0[&format!("{case}.series")];
        let (frames, n) = (array.shape[0], array.shape[1]);
        let mut standard = vec![0.0f64; frames * n];
        for r in 0..n {
            let column: Vec<f64> = (0..frames).map(|t| f64::from(array.values[t * n + r])).collect();
            let mean = column.iter().sum::<f64>() / frames as f64;
            let deviation = (column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / frames as f64).sqrt();
            (0..frames).for_each(|t| standard[t * n + r] = (column[t] - mean) / deviation);
        }
        let fit = ledoit_wolf(&standard, frames, n);
        let narrow = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
        // Both sides are computed in double precision and stored in single.
        let tolerance = 3e-7;
        assert!(relative(&[fit.shrinkage as f32], golden.values(&format!("{case}.shrinkage"))) < tolerance, "{case}");
        assert!(relative(&narrow(&fit.covariance), golden.values(&format!("{case}.covariance"))) < tolerance, "{case}");
        let partial = partial_correlation(&fit.covariance, n);
        assert!(relative(&narrow(&partial), golden.values(&format!("{case}.partial"))) < tolerance, "{case}");

        assert!(relative(&pearson(&array.values, n), golden.values(&format!("{case}.pearson"))) < tolerance, "{case}");
        let (nodes, edges) = shrunk_fisher(&array.values, frames, &vec![true; n]);
        let fisher = |name: &str, sign: fn(f64) -> f64| -> Vec<f32> {
            let values = golden.values(&format!("{case}.{name}"));
            let z = |(k, r): (usize, &f32)| if k / n == k % n { 0.0 } else { sign(f64::from(*r).atanh()) as f32 };
            values.iter().enumerate().map(z).collect()
        };
        // The derivative of atanh is 1 / (1 - r^2): single-precision r near 0.9 costs a factor of five.
        assert!(relative(&nodes, &fisher("correlation", |x| x)) < 2e-6, "{case}");
        assert!(relative(&edges, &fisher("partial", f64::abs)) < 2e-6, "{case}");
    }
}

#[test]
fn regions_without_signal_are_zero_and_change_nothing_else() {
    let (frames, n) = (20, 5);
    let value = |t: usize, r: usize| ((t * 31 + r * 17 + t * t * (r + 1)) % 23) as f32;
    let all: Vec<f32> = (0..frames).flat_map(|t| (0..n).map(move |r| value(t, r))).collect();
    let mut broken = all.clone();
    for t in 0..frames {
        broken[t * n + 1] = f32::NAN;
        broken[t * n + 3] = 2.5;
    }
    let valid = [true, false, true, false, true];
    let (whole, part) = (pearson(&all, n), pearson(&broken, n));
    for i in 0..n {
        for j in 0..n {
            let expected = if valid[i] && valid[j] { whole[i * n + j] } else { 0.0 };
            assert_eq!(part[i * n + j], expected, "{i} {j}");
        }
    }
    let (nodes, edges) = shrunk_fisher(&broken, frames, &valid);
    assert!(nodes.iter().chain(&edges).all(|x| x.is_finite()));
    assert!((0..n).all(|j| nodes[n + j] == 0.0 && edges[j * n + 3] == 0.0));
    assert!(shrunk_fisher(&broken, frames, &[false; 5]).0.iter().all(|x| *x == 0.0));
}
