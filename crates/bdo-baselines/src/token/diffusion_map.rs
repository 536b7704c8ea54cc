//! Functional gradients: the axes along which the connectivity of regions changes most, by a diffusion map of the group's
//! connectivity (Coifman and Lafon 2006), as Brain-JEPA places regions where the atlas brings no table.

use rayon::prelude::*;

/// Share of each row's connections that is kept.
const KEPT: f64 = 0.1;
/// Rounds of the eigensolver; convergence is quick because only the leading vectors are wanted.
const MOST_ROUNDS: usize = 1000;
/// Change of an eigenvalue below which it is final.
const CHANGE: f64 = 1e-12;

/// Coordinates of regions.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffusionMap {
    /// Axes.
    pub components: usize,
    /// Row-major [regions, components]; axes beyond what the regions allow are zero.
    pub values: Vec<f64>,
    /// Eigenvalue of each axis.
    pub eigenvalues: Vec<f64>,
}

impl DiffusionMap {
    /// From a mean connectivity matrix, row-major n x n: the top tenth of each row, the normalised angle between rows as
    /// affinity, half of the density divided out, axes scaled by lambda / (1 - lambda).
    pub fn of_connectivity(connectivity: &[f64], n: usize, components: usize) -> Self {
        let affinity = normalised_angle(&top_of_rows(connectivity, n), n);
        let density: Vec<f64> =
            (0..n).map(|i| affinity[i * n..][..n].iter().sum::<f64>().max(f64::MIN_POSITIVE)).collect();
        let mut kernel = affinity;
        for i in 0..n {
            for j in 0..n {
                // Density to the power of minus one half on either side.
                kernel[i * n + j] /= (density[i] * density[j]).sqrt();
            }
        }
        let degree: Vec<f64> =
            (0..n).map(|i| kernel[i * n..][..n].iter().sum::<f64>().max(f64::MIN_POSITIVE)).collect();
        // The walk D^-1 K has the eigenvectors of D^-1/2 K D^-1/2, divided by the root of the degree.
        for i in 0..n {
            for j in 0..n {
                kernel[i * n + j] /= (degree[i] * degree[j]).sqrt();
            }
        }
        let wanted = (components + 1).min(n);
        let (eigenvalues, vectors) = leading_eigenvectors(&kernel, n, wanted);
        let mut map = Self { components, values: vec![0.0; n * components], eigenvalues: vec![0.0; components] };
        for k in 1..wanted {
            let lambda = eigenvalues[k] / eigenvalues[0];
            // Dividing by the first vector, which is the root of the degree, undoes the symmetrisation.
            let mut axis: Vec<f64> = (0..n).map(|i| vectors[k * n + i] / vectors[i]).collect();
            let most = axis.iter().copied().fold(0.0, |a: f64, x| if x.abs() > a.abs() { x } else { a });
            let scale = most.signum() * lambda / (1.0 - lambda).max(1e-9);
            axis.iter_mut().for_each(|x| *x *= scale);
            (0..n).for_each(|i| map.values[i * components + k - 1] = axis[i]);
            map.eigenvalues[k - 1] = lambda;
        }
        map
    }
}

/// Keeps the largest tenth of each row (at least one), and nothing below zero.
fn top_of_rows(matrix: &[f64], n: usize) -> Vec<f64> {
    let keep = ((n as f64 * KEPT).round() as usize).max(1);
    let mut out = vec![0.0; n * n];
    for (row, out) in matrix.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
        for &j in order.iter().take(keep) {
            out[j] = row[j].max(0.0);
        }
    }
    out
}

/// 1 - angle / pi between every two rows.
fn normalised_angle(rows: &[f64], n: usize) -> Vec<f64> {
    let length: Vec<f64> = rows.chunks_exact(n).map(|r| r.iter().map(|x| x * x).sum::<f64>().sqrt()).collect();
    let mut out = vec![0.0; n * n];
    out.par_chunks_mut(n).enumerate().for_each(|(i, out)| {
        for (j, value) in out.iter_mut().enumerate() {
            let product: f64 = rows[i * n..][..n].iter().zip(&rows[j * n..][..n]).map(|(x, y)| x * y).sum();
            let cosine = if length[i] * length[j] > 0.0 { product / (length[i] * length[j]) } else { 0.0 };
            *value = if i == j { 1.0 } else { 1.0 - cosine.clamp(-1.0, 1.0).acos() / std::f64::consts::PI };
        }
    });
    out
}

/// Orthogonal iteration on (M + I) / 2, whose eigenvalues are all positive and in the order of those of M. Returns eigenvalues
/// of M in descending order and vectors as rows.
fn leading_eigenvectors(matrix: &[f64], n: usize, count: usize) -> (Vec<f64>, Vec<f64>) {
    // More vectors than wanted: the last ones converge slowly.
    let block = (count + 10).min(n);
    let mut vectors: Vec<Vec<f64>> = (0..block)
        .map(|k| (0..n).map(|i| if i % block == k { 1.0 } else { 0.1 / (1 + (i * 7 + k * 3) % 11) as f64 }).collect())
        .collect();
    let mut eigenvalues = vec![f64::INFINITY; block];
    for _ in 0..MOST_ROUNDS {
        vectors = vectors.par_iter().map(|v| shifted_product(matrix, n, v)).collect();
        orthonormalise(&mut vectors);
        let images: Vec<Vec<f64>> = vectors.par_iter().map(|v| shifted_product(matrix, n, v)).collect();
        let projected: Vec<f64> = (0..block * block).map(|k| dot(&vectors[k / block], &images[k % block])).collect();
        let (found, rotation) = jacobi(projected, block);
        vectors = (0..block)
            .map(|k| (0..n).map(|i| (0..block).map(|m| rotation[m * block + k] * vectors[m][i]).sum()).collect())
            .collect();
        let change = found.iter().zip(&eigenvalues).take(count).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        eigenvalues = found;
        if change < CHANGE {
            break;
        }
    }
    let values = eigenvalues.iter().take(count).map(|x| 2.0 * x - 1.0).collect();
    (values, vectors.into_iter().take(count).flatten().collect())
}

fn shifted_product(matrix: &[f64], n: usize, v: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(n).zip(v).map(|(row, x)| 0.5 * (dot(row, v) + x)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn orthonormalise(vectors: &mut [Vec<f64>]) {
    for k in 0..vectors.len() {
        let (before, rest) = vectors.split_at_mut(k);
        for _ in 0..2 {
            for other in before.iter() {
                let share = dot(&rest[0], other);
                rest[0].iter_mut().zip(other).for_each(|(x, o)| *x -= share * o);
            }
        }
        let length = dot(&rest[0], &rest[0]).sqrt().max(f64::MIN_POSITIVE);
        rest[0].iter_mut().for_each(|x| *x /= length);
    }
}

/// Eigenvalues of a small symmetric matrix in descending order, and vectors as columns, by Jacobi rotations.
fn jacobi(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut v = vec![0.0; n * n];
    (0..n).for_each(|i| v[i * n + i] = 1.0);
    for _ in 0..60 {
        let off: f64 = (0..n * n).filter(|k| k / n != k % n).map(|k| a[k] * a[k]).sum();
        if off < 1e-28 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                if a[p * n + q].abs() < 1e-300 {
                    continue;
                }
                let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let t = if theta == 0.0 { 1.0 } else { t };
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for k in 0..n {
                    let (x, y) = (a[k * n + p], a[k * n + q]);
                    a[k * n + p] = c * x - s * y;
                    a[k * n + q] = s * x + c * y;
                }
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    a[p * n + k] = c * x - s * y;
                    a[q * n + k] = s * x + c * y;
                }
                for k in 0..n {
                    let (x, y) = (v[k * n + p], v[k * n + q]);
                    v[k * n + p] = c * x - s * y;
                    v[k * n + q] = s * x + c * y;
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| a[j * n + j].total_cmp(&a[i * n + i]));
    let values = order.iter().map(|i| a[i * n + i]).collect();
    let vectors = (0..n * n).map(|k| v[(k / n) * n + order[k % n]]).collect();
    (values, vectors)
}
