//! Softmax over rows.

use crate::isa::{Isa, vectorised};
use crate::threads::{ELEMENTS_PER_TASK, expect_len, filled, map_chunks};
use crate::vector::Vector;
use crate::vector::elementary::exp;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Softmax of each row of `x: [rows, width]`.
pub fn forward(isa: Isa, x: &[f32], width: usize) -> Vec<f32> {
    check(x, width);
    map_chunks(x, ELEMENTS_PER_TASK.div_ceil(width) * width, |x, y| forward_rows(isa, x, y, width))
}

/// Gradient with respect to the input, from the output `y` and its gradient.
pub fn backward(isa: Isa, y: &[f32], dy: &[f32], width: usize) -> Vec<f32> {
    check(y, width);
    expect_len("dy", dy.len(), y.len());
    let chunk = ELEMENTS_PER_TASK.div_ceil(width) * width;
    // SAFETY: each task writes the whole of its chunk.
    unsafe {
        filled(y.len(), |dx| {
            dx.par_chunks_mut(chunk)
                .zip(y.par_chunks(chunk).zip(dy.par_chunks(chunk)))
                .for_each(|(dx, (y, dy))| backward_rows(isa, y, dy, dx, width));
        })
    }
}

fn check(x: &[f32], width: usize) {
    assert!(width > 0, "width: expected at least 1, found 0");
    assert_eq!(x.len() % width, 0, "x: expected rows of {width} values, found {} values", x.len());
}

vectorised! {
    fn forward_rows<V>(x: &[f32], y: &mut [MaybeUninit<f32>], width: usize) {
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
            let mut top = V::splat(x[0]);
            let mut i = 0;
            while i + V::LANES <= width {
                top = top.max(V::read(x, i));
                i += V::LANES;
            }
            let mut largest = top.largest();
            for &v in &x[i..] {
                largest = if v > largest { v } else { largest };
            }
            let top = V::splat(largest);
            let mut sum = V::zero();
            for i in (0..width).step_by(V::LANES) {
                let [e] = exp([V::read(x, i).sub(top)]);
                e.write_new(y, i);
                // Lanes beyond the row must not count.
                let left = (width - i).min(V::LANES);
                sum = sum.add(if left == V::LANES { e } else { first_lanes(e, left) });
            }
            let scale = V::splat(1.0 / sum.sum());
            // SAFETY: the loop above wrote the whole row.
            let y = unsafe { &mut *(std::ptr::from_mut::<[MaybeUninit<f32>]>(y) as *mut [f32]) };
            for i in (0..width).step_by(V::LANES) {
                V::read(y, i).mul(scale).write(y, i);
            }
        }
    }
}

/// The first `n` lanes, zero in the others.
#[inline(always)]
fn first_lanes<V: Vector>(v: V, n: usize) -> V {
    let mut lanes = [0.0f32; 16];
    v.write(&mut lanes[..n], 0);
    V::read(&lanes, 0)
}

vectorised! {
    fn backward_rows<V>(y: &[f32], dy: &[f32], dx: &mut [MaybeUninit<f32>], width: usize) {
        for ((y, dy), dx) in y.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width)) {
            let mut dot = V::zero();
            for i in (0..width).step_by(V::LANES) {
                dot = V::read(y, i).fma(V::read(dy, i), dot);
            }
            let dot = V::splat(dot.sum());
            for i in (0..width).step_by(V::LANES) {
                V::read(y, i).mul(V::read(dy, i).sub(dot)).write_new(dx, i);
            }
        }
    }
}
