//! Projection onto what the confounds cannot explain.

use crate::problem::{Problem, ensure};

/// Below this a direction is rounding, not a confound (nilearn: 100 times the machine precision).
const SMALLEST_DIRECTION: f64 = f64::EPSILON * 100.0;

/// Subtracts from every column its projection on the span of the confounds; returns the dimension of that span.
pub(super) fn project_out(
    columns: &mut [Option<Vec<f64>>],
    confounds: Vec<Vec<f64>>,
    frames: usize,
) -> Result<usize, Problem> {
    let basis = orthonormal(standardised(confounds));
    let expected = format_args!("more kept frames than the {} independent confounds, and a mean", basis.len());
    ensure(basis.len() + 2 <= frames, "degrees of freedom", expected, frames)?;
    for column in columns.iter_mut().flatten() {
        // All inner products first, then one subtraction: the same as the product with Q Q'.
        let shares: Vec<f64> = basis.iter().map(|q| dot(q, column)).collect();
        for (q, share) in basis.iter().zip(&shares) {
            for (x, q) in column.iter_mut().zip(q) {
                *x -= share * q;
            }
        }
    }
    Ok(basis.len())
}

/// Zero mean and unit sample variance; a constant confound becomes zero.
fn standardised(mut confounds: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for column in &mut confounds {
        let n = column.len() as f64;
        let mean = column.iter().sum::<f64>() / n;
        let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let deviation = if variance.sqrt() < f64::EPSILON { 1.0 } else { variance.sqrt() };
        for x in column {
            *x = (*x - mean) / deviation;
        }
    }
    confounds
}

/// An orthonormal basis of the span, largest remaining direction first; each is orthogonalised twice against those before.
fn orthonormal(mut columns: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = vec![];
    let largest = columns.iter().map(|c| norm(c)).fold(0.0, f64::max);
    let size = columns.len().max(columns.first().map_or(0, Vec::len)) as f64;
    let smallest = SMALLEST_DIRECTION.max(largest * size * f64::EPSILON);
    while let Some((i, length)) = columns.iter().map(|c| norm(c)).enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) {
        if length <= smallest {
            break;
        }
        let mut next = columns.swap_remove(i);
        for q in &basis {
            take_out(&mut next, q);
        }
        let length = norm(&next);
        if length <= smallest {
            continue;
        }
        for x in &mut next {
            *x /= length;
        }
        for column in &mut columns {
            take_out(column, &next);
        }
        basis.push(next);
    }
    basis
}

fn take_out(column: &mut [f64], direction: &[f64]) {
    let share = dot(column, direction);
    column.iter_mut().zip(direction).for_each(|(x, q)| *x -= share * q);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}
