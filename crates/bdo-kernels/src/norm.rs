//! Layer normalisation over the last dimension.

use crate::isa::{Isa, vectorised};
use crate::threads::{Shared, expect_len, filled, for_each_range, shared};
use std::mem::MaybeUninit;

/// Rows per task; also the group whose parameter gradients are summed before the groups are, in order.
const ROWS_PER_TASK: usize = 64;

/// A normalised batch and what its backward pass needs.
pub struct Normalised {
    /// `[rows, width]`
    pub y: Vec<f32>,
    /// Mean of each row.
    pub mean: Vec<f32>,
    /// One over the standard deviation of each row.
    pub rstd: Vec<f32>,
}

/// Gradients of [`forward`].
pub struct NormGradients {
    /// `[rows, width]`
    pub dx: Vec<f32>,
    /// `[width]`
    pub dgamma: Vec<f32>,
    /// `[width]`
    pub dbeta: Vec<f32>,
}

/// `(x - mean) * rstd * gamma + beta` for each row of `x: [rows, width]`.
pub fn forward(isa: Isa, x: &[f32], gamma: &[f32], beta: &[f32], eps: f32) -> Normalised {
    let width = gamma.len();
    let rows = check(x, width);
    expect_len("beta", beta.len(), width);
    let (mut mean, mut rstd) = (vec![0.0; rows], vec![0.0; rows]);
    let (mean_at, rstd_at) = (Shared(mean.as_mut_ptr()), Shared(rstd.as_mut_ptr()));
    // SAFETY: the tasks write all rows of y, and each task only its own rows of all three.
    let y = unsafe {
        filled(rows * width, |y| {
            let y = shared(y);
            for_each_range(rows, ROWS_PER_TASK, |from, to| {
                let out = [y.at(from * width), mean_at.at(from), rstd_at.at(from)];
                forward_rows(isa, &x[from * width..to * width], gamma, beta, eps, out);
            });
        })
    };
    Normalised { y, mean, rstd }
}

/// Gradients with respect to the input and both parameters.
pub fn backward(isa: Isa, x: &[f32], gamma: &[f32], mean: &[f32], rstd: &[f32], dy: &[f32]) -> NormGradients {
    let width = gamma.len();
    let rows = check(x, width);
    expect_len("dy", dy.len(), x.len());
    assert_eq!((mean.len(), rstd.len()), (rows, rows), "mean, rstd: expected {rows} values each");
    let mut partial = vec![0.0; rows.div_ceil(ROWS_PER_TASK) * 2 * width];
    let partial_at = Shared(partial.as_mut_ptr());
    // SAFETY: the tasks write all rows of dx, and each task only its own rows and its own partial sums.
    let dx = unsafe {
        filled(rows * width, |dx| {
            let dx = shared(dx);
            for_each_range(rows, ROWS_PER_TASK, |from, to| {
                let sums = std::slice::from_raw_parts_mut(partial_at.at(from / ROWS_PER_TASK * 2 * width), 2 * width);
                let range = from * width..to * width;
                let saved = (&mean[from..to], &rstd[from..to]);
                backward_rows(isa, &x[range.clone()], gamma, saved, &dy[range], sums, dx.at(from * width));
            });
        })
    };
    let mut dgamma = vec![0.0; width];
    let mut dbeta = vec![0.0; width];
    for sums in partial.chunks_exact(2 * width.max(1)) {
        for j in 0..width {
            dgamma[j] += sums[j];
            dbeta[j] += sums[width + j];
        }
    }
    NormGradients { dx, dgamma, dbeta }
}

fn check(x: &[f32], width: usize) -> usize {
    assert!(width > 0, "width: expected at least 1, found 0");
    assert_eq!(x.len() % width, 0, "x: expected rows of {width} values, found {} values", x.len());
    x.len() / width
}

vectorised! {
    fn forward_rows<V>(x: &[f32], gamma: &[f32], beta: &[f32], eps: f32, out: [*mut f32; 3]) {
        let width = gamma.len();
        let one_over = 1.0 / width as f32;
        for r in 0..x.len() / width {
            let row = &x[r * width..(r + 1) * width];
            // Four sums side by side: one alone would wait for its own last addition.
            let (mut sums, mut squares) = ([V::zero(); 4], [V::zero(); 4]);
            let mut i = 0;
            while i + 4 * V::LANES <= width {
                for (k, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.add(V::read(row, i + k * V::LANES));
                }
                i += 4 * V::LANES;
            }
            for i in (i..width).step_by(V::LANES) {
                sums[0] = sums[0].add(V::read(row, i));
            }
            let mean_value = sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum() * one_over;
            let mean = V::splat(mean_value);
            i = 0;
            while i + 4 * V::LANES <= width {
                for (k, square) in squares.iter_mut().enumerate() {
                    let v = V::read(row, i + k * V::LANES).sub(mean);
                    *square = v.fma(v, *square);
                }
                i += 4 * V::LANES;
            }
            let mut squares = squares[0].add(squares[1]).add(squares[2].add(squares[3]));
            while i + V::LANES <= width {
                let v = V::read(row, i).sub(mean);
                squares = v.fma(v, squares);
                i += V::LANES;
            }
            let mut rest = 0.0;
            for &v in &row[i..] {
                let v = v - mean_value;
                rest += v * v;
            }
            let rstd = 1.0 / ((squares.sum() + rest) * one_over + eps).sqrt();
            let scale = V::splat(rstd);
            // SAFETY: `out` has a row, a mean and an rstd for every row of x.
            unsafe {
                *out[1].add(r) = mean_value;
                *out[2].add(r) = rstd;
                let y = std::slice::from_raw_parts_mut(out[0].add(r * width).cast::<MaybeUninit<f32>>(), width);
                for i in (0..width).step_by(V::LANES) {
                    let v = V::read(row, i).sub(mean).mul(scale);
                    v.fma(V::read(gamma, i), V::read(beta, i)).write_new(y, i);
                }
            }
        }
    }
}

vectorised! {
    fn backward_rows<V>(
        x: &[f32], gamma: &[f32], saved: (&[f32], &[f32]), dy: &[f32], sums: &mut [f32], dx: *mut f32,
    ) {
        let width = gamma.len();
        let (dgamma, dbeta) = sums.split_at_mut(width);
        let one_over = 1.0 / width as f32;
        for r in 0..x.len() / width {
            let (row, dy) = (&x[r * width..(r + 1) * width], &dy[r * width..(r + 1) * width]);
            let (mean, rstd) = (V::splat(saved.0[r]), V::splat(saved.1[r]));
            let (mut s1, mut s2) = (V::zero(), V::zero());
            for i in (0..width).step_by(V::LANES) {
                // Lanes beyond the row have dy = 0 and gamma = 0, so they add nothing to either sum.
                let d = V::read(dy, i);
                let normed = V::read(row, i).sub(mean).mul(rstd);
                let a = d.mul(V::read(gamma, i));
                s1 = s1.add(a);
                s2 = a.fma(normed, s2);
                d.fma(normed, V::read(dgamma, i)).write(dgamma, i);
                d.add(V::read(dbeta, i)).write(dbeta, i);
            }
            let (m1, m2) = (V::splat(s1.sum() * one_over), V::splat(-s2.sum() * one_over));
            // SAFETY: `dx` has a row for every row of x.
            let out = unsafe { std::slice::from_raw_parts_mut(dx.add(r * width).cast::<MaybeUninit<f32>>(), width) };
            for i in (0..width).step_by(V::LANES) {
                let normed = V::read(row, i).sub(mean).mul(rstd);
                let a = V::read(dy, i).mul(V::read(gamma, i));
                rstd.mul(normed.fma(m2, a).sub(m1)).write_new(out, i);
            }
        }
    }
}
