//! Ridge regression: every penalty from one decomposition, chosen by leaving out one person at a time.

use crate::design::Coordinates;
use std::collections::BTreeMap;

/// A fit in the coordinates of a design.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearFit {
    pub weights: Vec<f64>,
    /// What is predicted at the training mean of all features.
    pub intercept: f64,
}

/// Minimises the squared error plus `penalty` times the squared length of the weights; the intercept is free.
pub fn ridge(design: &Coordinates, values: &[f64], penalty: f64) -> LinearFit {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mut products = vec![0.0; design.rank()];
    for (i, y) in values.iter().enumerate() {
        products.iter_mut().zip(design.row(i)).for_each(|(p, s)| *p += s * (y - mean));
    }
    let weights = products.iter().zip(design.eigenvalues()).map(|(p, l)| p / (l + penalty)).collect();
    LinearFit { weights, intercept: mean }
}

/// Residual of every row when its whole group (person) is left out of the fit, in closed form.
///
/// With the hat matrix H of the fit, the residuals of a left-out group are (I - H_gg)^-1 (y - H y)_g; the standardisation of the
/// features stays that of all training rows.
pub fn left_out_residuals(design: &Coordinates, values: &[f64], groups: &[usize], penalty: f64) -> Vec<f64> {
    let fit = ridge(design, values, penalty);
    let n = values.len();
    let shrink: Vec<f64> = design.eigenvalues().iter().map(|l| 1.0 / (l + penalty)).collect();
    let hat = |a: usize, b: usize| {
        let pairs = design.row(a).iter().zip(design.row(b)).zip(&shrink);
        1.0 / n as f64 + pairs.map(|((x, y), s)| x * y * s).sum::<f64>()
    };
    let residual = |i: usize| {
        let fitted: f64 = design.row(i).iter().zip(&fit.weights).map(|(s, w)| s * w).sum();
        values[i] - fit.intercept - fitted
    };
    let mut out = vec![0.0; n];
    let mut grouped: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    groups.iter().enumerate().for_each(|(i, group)| grouped.entry(*group).or_default().push(i));
    for members in grouped.into_values() {
        let m = members.len();
        let mut matrix: Vec<f64> = Vec::with_capacity(m * m);
        for &a in &members {
            matrix.extend(members.iter().map(|&b| f64::from(u8::from(a == b)) - hat(a, b)));
        }
        let mut right: Vec<f64> = members.iter().map(|&i| residual(i)).collect();
        eliminate(&mut matrix, &mut right);
        members.iter().zip(right).for_each(|(&i, e)| out[i] = e);
    }
    out
}

/// Solves a small symmetric positive system in place; I - H of a left-out group is positive for any positive penalty.
fn eliminate(matrix: &mut [f64], right: &mut [f64]) {
    let m = right.len();
    for k in 0..m {
        let pivot = matrix[k * m + k].max(f64::MIN_POSITIVE);
        for i in k + 1..m {
            let factor = matrix[i * m + k] / pivot;
            for j in k..m {
                matrix[i * m + j] -= factor * matrix[k * m + j];
            }
            right[i] -= factor * right[k];
        }
    }
    for k in (0..m).rev() {
        let above: f64 = (k + 1..m).map(|j| matrix[k * m + j] * right[j]).sum();
        right[k] = (right[k] - above) / matrix[k * m + k].max(f64::MIN_POSITIVE);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::design::Design;
    use crate::features::Features;

    /// Leaving a group out in closed form equals refitting without it on the same standardised features.
    #[test]
    fn left_out_groups_as_refitted() {
        let (n, p) = (14, 5);
        let values: Vec<f64> = (0..n * p).map(|i| ((i * 37 + 11) % 101) as f64 / 50.0 - 1.0).collect();
        let features = Features::new(n, p, values).unwrap();
        let rows: Vec<usize> = (0..n).collect();
        let y: Vec<f64> = (0..n).map(|i| ((i * 53) % 29) as f64 / 7.0).collect();
        let groups: Vec<usize> = (0..n).map(|i| i / 3).collect();
        let design = Design::new(&features, &rows).unwrap();
        let penalty = 1.7;
        let found = left_out_residuals(&design, &y, &groups, penalty);
        for g in 0..=groups[n - 1] {
            let kept: Vec<usize> = rows.iter().copied().filter(|i| groups[*i] != g).collect();
            // The normal equations of the kept rows with a free intercept, solved by elimination.
            let r = design.rank() + 1;
            let row = |i: usize| -> Vec<f64> { design.row(i).iter().copied().chain([1.0]).collect() };
            let (mut a, mut b) = (vec![0.0; r * r], vec![0.0; r]);
            for &i in &kept {
                let x = row(i);
                for u in 0..r {
                    b[u] += x[u] * y[i];
                    for v in 0..r {
                        a[u * r + v] += x[u] * x[v];
                    }
                }
            }
            (0..r - 1).for_each(|u| a[u * r + u] += penalty);
            eliminate(&mut a, &mut b);
            for i in rows.iter().copied().filter(|i| groups[*i] == g) {
                let predicted: f64 = row(i).iter().zip(&b).map(|(x, w)| x * w).sum();
                assert!((y[i] - predicted - found[i]).abs() < 1e-10, "row {i}");
            }
        }
    }
}
