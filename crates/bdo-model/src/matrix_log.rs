//! The logarithm of a covariance matrix. A scan has fewer independent frames than a control has coordinates, so its
//! covariance is shrunk towards a multiple of the identity first; without that the logarithm of zero would decide.

use bdo_kernels::linalg::symmetric_eigen;
use faer::Mat;

/// Weight of the identity.
pub(crate) const SHRINKAGE: f64 = 0.1;
/// A covariance whose mean variance is below this is that of a control that never moves.
const LEAST_VARIANCE: f64 = 1e-12;

/// Upper triangle with the diagonal -> upper triangle of the logarithm, off-diagonals times the root of 2.
pub(crate) fn log_covariance(triangle: &[f32], d: usize) -> Vec<f32> {
    let mut matrix = Mat::<f64>::zeros(d, d);
    let mut values = triangle.iter();
    for i in 0..d {
        for j in i..d {
            let value = values.next().copied().map_or(0.0, f64::from) * (1.0 - SHRINKAGE);
            matrix[(i, j)] = value;
            matrix[(j, i)] = value;
        }
    }
    let mean = (0..d).map(|i| matrix[(i, i)]).sum::<f64>() / (d as f64 * (1.0 - SHRINKAGE));
    for i in 0..d {
        matrix[(i, i)] += SHRINKAGE * mean.max(LEAST_VARIANCE);
    }
    let (eigenvalues, vectors) = symmetric_eigen(matrix.as_ref()).expect("a finite symmetric matrix has eigenvalues");
    let smallest = SHRINKAGE * mean.max(LEAST_VARIANCE) * 0.5;
    // log C = (V log S) V^T; rounding may push an eigenvalue below what shrinkage allows.
    let scaled = Mat::from_fn(d, d, |i, k| vectors[(i, k)] * eigenvalues[k].max(smallest).ln());
    let log = &scaled * vectors.transpose();
    let mut out = Vec::with_capacity(triangle.len());
    for i in 0..d {
        for j in i..d {
            out.push(if i == j { log[(i, j)] } else { log[(i, j)] * std::f64::consts::SQRT_2 } as f32);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_of_a_known_matrix() {
        // [[a, b], [b, a]] has eigenvalues a + b and a - b on the diagonals of the square.
        let (a, b) = (2.0f64, 1.0f64);
        let (shrunk_b, shrunk_a) = (b * (1.0 - SHRINKAGE), a);
        let (high, low): (f64, f64) = ((shrunk_a + shrunk_b).ln(), (shrunk_a - shrunk_b).ln());
        let found = log_covariance(&[a as f32, b as f32, a as f32], 2);
        let middle = f64::midpoint(high, low);
        let expected = [middle, (high - low) * std::f64::consts::FRAC_1_SQRT_2, middle];
        // Rounding of f32 at values near 1.
        assert!(found.iter().zip(expected).all(|(f, e)| (f64::from(*f) - e).abs() < 1e-6), "{found:?} {expected:?}");
    }

    #[test]
    fn a_control_that_never_moves_is_finite() {
        assert!(log_covariance(&[0.0; 6], 3).iter().all(|x| x.is_finite()));
    }
}
