//! The inverse of a covariance, on one thread and in a fixed order: the same bytes on any number of threads.

use bdo_eval::product::dot;

/// Inverse of a positive definite row-major n x n matrix. A pivot that is not positive is raised to the smallest positive
/// share of its diagonal entry, so that a covariance without any shrinkage still gives finite numbers.
pub(super) fn inverse(matrix: &[f64], n: usize) -> Vec<f64> {
    let factor = lower_factor(matrix, n);
    // Rows of the inverse of L, kept as columns so that every product below runs over neighbours.
    let mut inverse_factor = vec![0.0; n * n];
    for j in 0..n {
        let column = &mut inverse_factor[j * n..][..n];
        column[j] = 1.0 / factor[j * n + j];
        for i in j + 1..n {
            let sum = dot(&factor[i * n + j..][..i - j], &column[j..i]);
            column[i] = -sum / factor[i * n + i];
        }
    }
    let mut out = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            // (L^-T L^-1)_ij: columns i and j of L^-1 have entries from i on.
            let value = dot(&inverse_factor[i * n + i..][..n - i], &inverse_factor[j * n + i..][..n - i]);
            out[i * n + j] = value;
            out[j * n + i] = value;
        }
    }
    out
}

fn lower_factor(matrix: &[f64], n: usize) -> Vec<f64> {
    let mut factor = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let (done, row) = factor.split_at_mut(i * n);
            let sum = if i == j { dot(&row[..j], &row[..j]) } else { dot(&row[..j], &done[j * n..][..j]) };
            let rest = matrix[i * n + j] - sum;
            row[j] = if i == j {
                rest.max(f64::EPSILON * matrix[i * n + i].abs().max(f64::MIN_POSITIVE)).sqrt()
            } else {
                rest / done[j * n + j]
            };
        }
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_with_the_inverse_is_the_identity() {
        let n = 19;
        let a: Vec<f64> = (0..n * n).map(|k| ((k * 7919 + 13) % 101) as f64 / 50.0 - 1.0).collect();
        let mut m = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                let product: f64 = (0..n).map(|k| a[i * n + k] * a[j * n + k]).sum();
                m[i * n + j] = product + if i == j { 1.0 } else { 0.0 };
            }
        }
        let inverse = inverse(&m, n);
        for i in 0..n {
            for j in 0..n {
                let product: f64 = (0..n).map(|k| m[i * n + k] * inverse[k * n + j]).sum();
                let expected = f64::from(u8::from(i == j));
                assert!((product - expected).abs() < 1e-10, "{i} {j}: {product}");
            }
        }
    }
}
