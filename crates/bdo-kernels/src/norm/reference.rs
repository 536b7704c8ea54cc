//! The slow twin in double precision.

/// One row: (normalised output, mean, rstd).
pub fn forward_row(x: &[f64], gamma: &[f64], beta: &[f64], eps: f64) -> (Vec<f64>, f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    let rstd = 1.0 / (variance + eps).sqrt();
    (x.iter().zip(gamma.iter().zip(beta)).map(|(v, (g, b))| (v - mean) * rstd * g + b).collect(), mean, rstd)
}
