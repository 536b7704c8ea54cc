//! The slow twin in double precision.

use super::{ScanInput, ScanShape};

/// phi1 with the standard library's expm1.
pub fn phi1(x: f64) -> f64 {
    if x.abs() < 1e-5 { 1.0 - x / 2.0 + x * x / 6.0 } else { -(-x).exp_m1() / x }
}

/// phi1'.
pub fn phi1_slope(x: f64) -> f64 {
    if x.abs() < 1e-3 { -0.5 + x / 3.0 - x * x / 8.0 + x * x * x / 30.0 } else { ((-x).exp() - phi1(x)) / x }
}

/// Mean and variance after every step, by the recurrence as written; start and rates in double precision.
pub fn forward(
    shape: ScanShape,
    input: &ScanInput<'_>,
    (alphahat, lambda): (&[f64], &[f64]),
    (mean0, variance0): (&[f64], &[f64]),
) -> (Vec<f64>, Vec<f64>) {
    let (mut mean, mut variance) = (Vec::new(), Vec::new());
    for sample in 0..shape.batch {
        let (mut m, mut p) = (mean0.to_vec(), variance0.to_vec());
        for step in 0..shape.steps {
            let delta = f64::from(input.delta_of(shape, sample, step));
            let token = input.token_at(shape, sample, step);
            for i in 0..shape.width {
                let x = delta * lambda[token + i];
                m[i] = (-x).exp() * m[i] + delta * phi1(x) * alphahat[token + i];
                p[i] = (-2.0 * x).exp() * p[i] + f64::from(input.diffusion) * delta * phi1(2.0 * x);
            }
            mean.extend_from_slice(&m);
            variance.extend_from_slice(&p);
        }
    }
    (mean, variance)
}
