//! Eigenvectors of a small symmetric matrix, with a fixed order of operations.
//!
//! A library that picks its instructions by machine would round differently from machine to machine.

/// `matrix = Vᵀ diag(values) V` where row k of `vectors` (V) is the k-th eigenvector.
pub(super) struct Eigen {
    /// Eigenvalues, in no particular order.
    pub(super) values: Vec<f64>,
    /// Row-major n x n; rows are unit eigenvectors.
    pub(super) vectors: Vec<f64>,
}

/// Householder tridiagonalisation, then QL with implicit shifts. `matrix` is row-major n x n, symmetric.
pub(super) fn symmetric_eigen(mut matrix: Vec<f64>, n: usize) -> Eigen {
    debug_assert_eq!(matrix.len(), n * n);
    let mut vectors = vec![0.0; n * n];
    for i in 0..n {
        vectors[i * n + i] = 1.0;
    }
    let mut off_diagonal = tridiagonalise(&mut matrix, &mut vectors, n);
    let mut values: Vec<f64> = (0..n).map(|i| matrix[i * n + i]).collect();
    diagonalise(&mut values, &mut off_diagonal, &mut vectors, n);
    Eigen { values, vectors }
}

/// Reduces `a` to tridiagonal form by reflections, applies them to the rows of `vectors`, returns the off-diagonal.
fn tridiagonalise(a: &mut [f64], vectors: &mut [f64], n: usize) -> Vec<f64> {
    let mut off_diagonal = vec![0.0; n];
    let mut v = vec![0.0; n];
    let mut w = vec![0.0; n];
    for k in 0..n.saturating_sub(1) {
        // The matrix is symmetric: row k right of the diagonal is the column to be cleared.
        let start = k + 1;
        v[start..].copy_from_slice(&a[k * n + start..(k + 1) * n]);
        let tail: f64 = v[start + 1..].iter().map(|x| x * x).sum();
        if tail == 0.0 {
            off_diagonal[k] = v[start];
            continue;
        }
        let norm = (v[start] * v[start] + tail).sqrt();
        let alpha = if v[start] > 0.0 { -norm } else { norm };
        v[start] -= alpha;
        off_diagonal[k] = alpha;
        let beta = 2.0 / (v[start] * v[start] + tail);
        let mut v_dot_p = 0.0;
        for i in start..n {
            w[i] = beta * dot(&a[i * n + start..(i + 1) * n], &v[start..]);
            v_dot_p += v[i] * w[i];
        }
        for i in start..n {
            w[i] -= 0.5 * beta * v_dot_p * v[i];
        }
        for i in start..n {
            let (vi, wi) = (v[i], w[i]);
            for ((x, vj), wj) in a[i * n + start..(i + 1) * n].iter_mut().zip(&v[start..]).zip(&w[start..]) {
                *x -= vi * wj + wi * vj;
            }
        }
        // vectors <- (I - beta v vᵀ) vectors, row by row so that memory is walked in order.
        let projection = &mut w;
        projection.fill(0.0);
        for i in start..n {
            add_scaled(projection, beta * v[i], &vectors[i * n..(i + 1) * n]);
        }
        for i in start..n {
            add_scaled(&mut vectors[i * n..(i + 1) * n], -v[i], projection);
        }
    }
    off_diagonal
}

/// Turns the tridiagonal (d, e) into eigenvalues in d, rotating the rows of `vectors` along.
fn diagonalise(d: &mut [f64], e: &mut [f64], vectors: &mut [f64], n: usize) {
    for l in 0..n {
        loop {
            let m = (l..n)
                .find(|&m| m + 1 == n || e[m].abs() <= f64::EPSILON * (d[m].abs() + d[m + 1].abs()))
                .unwrap_or(n - 1);
            if m == l {
                break;
            }
            let half = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let root = (half * half + 1.0).sqrt();
            let mut g = d[m] - d[l] + e[l] / (half + if half < 0.0 { -root } else { root });
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut split = false;
            for i in (l..m).rev() {
                let f = s * e[i];
                let b = c * e[i];
                let r = (f * f + g * g).sqrt();
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    split = true;
                    break;
                }
                s = f / r;
                c = g / r;
                g = d[i + 1] - p;
                let t = (d[i] - g) * s + 2.0 * c * b;
                p = s * t;
                d[i + 1] = g + p;
                g = c * t - b;
                let (upper, lower) = vectors[i * n..(i + 2) * n].split_at_mut(n);
                for (x, y) in upper.iter_mut().zip(lower) {
                    let old = *y;
                    *y = s * *x + c * old;
                    *x = c * *x - s * old;
                }
            }
            if !split {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four partial sums in a fixed order: as reproducible as one, and four times as fast.
    let mut sums = [0.0; 4];
    let (a_quads, a_rest) = a.as_chunks::<4>();
    let (b_quads, b_rest) = b.as_chunks::<4>();
    for (x, y) in a_quads.iter().zip(b_quads) {
        for lane in 0..4 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

fn add_scaled(target: &mut [f64], scale: f64, source: &[f64]) {
    for (x, y) in target.iter_mut().zip(source) {
        *x += scale * y;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::stream::{Purpose, Stream};

    fn check(matrix: &[f64], n: usize) {
        let eigen = symmetric_eigen(matrix.to_vec(), n);
        // Backward error of Householder + QL: a modest multiple of n * epsilon * norm.
        let norm = matrix.iter().map(|x| x * x).sum::<f64>().sqrt().max(1.0);
        let tolerance = 10.0 * n as f64 * f64::EPSILON * norm;
        for i in 0..n {
            for j in 0..n {
                let rows = |k: usize| (eigen.vectors[k * n + i], eigen.vectors[k * n + j]);
                let rebuilt: f64 = (0..n).map(|k| eigen.values[k] * rows(k).0 * rows(k).1).sum();
                let identity: f64 = (0..n).map(|k| rows(k).0 * rows(k).1).sum();
                assert!((rebuilt - matrix[i * n + j]).abs() < tolerance, "n {n}, entry {i},{j}");
                assert!((identity - f64::from(u8::from(i == j))).abs() < tolerance);
            }
        }
    }

    #[test]
    fn rebuilds_the_matrix_it_was_given() {
        let mut stream = Stream::new(7, Purpose::Group, 0, 0);
        for n in [1, 2, 3, 5, 12, 40] {
            let mut matrix = vec![0.0; n * n];
            for i in 0..n {
                for j in 0..=i {
                    let value = stream.normal();
                    matrix[i * n + j] = value;
                    matrix[j * n + i] = value;
                }
            }
            check(&matrix, n);
        }
    }

    #[test]
    fn handles_diagonal_repeated_and_zero_matrices() {
        check(&[0.0; 9], 3);
        check(&[2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0], 3);
        check(&[1.0; 25], 5);
    }
}
