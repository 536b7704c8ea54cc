//! An activation as the last step of a matrix product.

use super::{Activation, value, value_and_slope};
use crate::gemm::blocked::{Finish, Strip};
use crate::threads::Shared;
use crate::vector::Vector;
use crate::vector::elementary::TOGETHER;

/// Applies an activation to finished strips, into the same or another matrix of the same shape; with `keep` the strip itself
/// becomes the derivative.
#[derive(Clone, Copy)]
pub(crate) struct Activate {
    pub(crate) activation: Activation,
    pub(crate) out: Shared,
    pub(crate) keep: bool,
}

impl Activate {
    /// `K` rows of at most a vector of columns.
    #[inline(always)]
    unsafe fn rows<V: Vector, const K: usize>(self, strip: *mut f32, out: *mut f32, stride: usize, columns: usize) {
        let mut x = [V::zero(); K];
        // SAFETY: the caller promises K rows of these columns in both.
        unsafe {
            for (r, x) in x.iter_mut().enumerate() {
                let from = strip.add(r * stride);
                *x = if columns == V::LANES { V::load(from) } else { V::load_partial(from, columns) };
            }
            if self.keep {
                let (y, slope) = value_and_slope(self.activation, x);
                put(y, out, stride, columns);
                put(slope, strip, stride, columns);
            } else {
                put(value(self.activation, x), out, stride, columns);
            }
        }
    }
}

/// Writes `K` rows of at most a vector.
#[inline(always)]
unsafe fn put<V: Vector, const K: usize>(values: [V; K], to: *mut f32, stride: usize, columns: usize) {
    for (r, value) in values.into_iter().enumerate() {
        // SAFETY: the caller promises K writable rows of these columns.
        unsafe {
            let to = to.add(r * stride);
            if columns == V::LANES {
                value.store(to);
            } else {
                value.store_partial(to, columns);
            }
        }
    }
}

impl Finish for Activate {
    #[inline(always)]
    unsafe fn finish<V: Vector>(self, strip: Strip) {
        let Strip { at: strip, stride, rows, columns, first } = strip;
        // SAFETY: the strip is part of the product, and the output has the product's shape.
        unsafe {
            let out = self.out.0.add(first.0 * stride + first.1);
            let mut j = 0;
            while j < columns {
                let lanes = (columns - j).min(V::LANES);
                let mut r = 0;
                while r < rows {
                    let at = r * stride + j;
                    if r + TOGETHER <= rows {
                        self.rows::<V, TOGETHER>(strip.add(at), out.add(at), stride, lanes);
                        r += TOGETHER;
                    } else {
                        self.rows::<V, 1>(strip.add(at), out.add(at), stride, lanes);
                        r += 1;
                    }
                }
                j += V::LANES;
            }
        }
    }
}
