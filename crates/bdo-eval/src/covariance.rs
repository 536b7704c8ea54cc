//! Covariance, and its shrinkage towards a multiple of the identity as Ledoit and Wolf (2004) choose it.

/// A covariance that can be inverted even with fewer frames than regions.
#[derive(Clone, Debug, PartialEq)]
pub struct ShrunkCovariance {
    /// Row-major n x n.
    pub covariance: Vec<f64>,
    /// Weight of the identity, from 0 to 1.
    pub shrinkage: f64,
}

/// X^T X / frames of a centred row-major `[frames, n]` series.
fn empirical(series: &[f64], frames: usize, n: usize) -> Vec<f64> {
    let mut sums = vec![0.0; n * n];
    for row in series.chunks_exact(n.max(1)).take(frames) {
        for (i, x) in row.iter().enumerate() {
            for (sum, y) in sums[i * n..][..=i].iter_mut().zip(row) {
                *sum += x * y;
            }
        }
    }
    for i in 0..n {
        for j in 0..=i {
            let mean = sums[i * n + j] / frames as f64;
            sums[i * n + j] = mean;
            sums[j * n + i] = mean;
        }
    }
    sums
}

/// Shrunk covariance of a centred row-major `[frames, n]` series.
pub fn ledoit_wolf(series: &[f64], frames: usize, n: usize) -> ShrunkCovariance {
    let mut covariance = empirical(series, frames, n);
    let trace: f64 = (0..n).map(|i| covariance[i * n + i]).sum();
    let size = covariance.iter().map(|x| x * x).sum::<f64>();
    let mean = trace / n.max(1) as f64;
    // Mean squared distance of the frames' outer products from the covariance, against that of the covariance from the
    // identity: the sum over all entries of (X^2)^T (X^2) is that of the squared lengths of the frames, squared.
    let lengths: f64 = series.chunks_exact(n.max(1)).map(|row| row.iter().map(|x| x * x).sum::<f64>().powi(2)).sum();
    let noise = (lengths / frames as f64 - size) / frames as f64;
    let distance = size - 2.0 * mean * trace + n as f64 * mean * mean;
    let shrinkage = if distance > 0.0 && noise > 0.0 { (noise / distance).min(1.0) } else { 0.0 };
    covariance.iter_mut().for_each(|x| *x *= 1.0 - shrinkage);
    for i in 0..n {
        covariance[i * n + i] += shrinkage * mean;
    }
    ShrunkCovariance { covariance, shrinkage }
}
