//! GELU (exact, by the error function) and `ReLU`.

use crate::threads::Shared;
use crate::vector::Vector;
use crate::vector::elementary::{TOGETHER, normal_tail};

/// A pointwise non-linearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x Phi(x)`.
    Gelu,
    /// `max(x, 0)`.
    Relu,
}

/// The activation of some vectors and its derivative there; for `ReLU` the activated value serves as well.
#[inline(always)]
pub(crate) fn value_and_slope<V: Vector, const K: usize>(activation: Activation, x: [V; K]) -> ([V; K], [V; K]) {
    let (mut y, mut slope) = (x, x);
    match activation {
        Activation::Gelu => {
            let (tail, bell) = normal_tail(x);
            for k in 0..K {
                // x Phi(x) = max(x, 0) - |x| Phi(-|x|), which is accurate on both sides.
                y[k] = V::zero().max(x[k]).sub(x[k].abs().mul(tail[k]));
                let cdf = x[k].select_less(V::zero(), tail[k], V::splat(1.0).sub(tail[k]));
                // The density is the bell over sqrt(2 pi).
                slope[k] = x[k].mul(bell[k]).fma(V::splat(0.398_942_3), cdf);
            }
        }
        Activation::Relu => {
            for k in 0..K {
                y[k] = V::zero().max(x[k]);
                slope[k] = V::zero().select_less(x[k], V::splat(1.0), V::zero());
            }
        }
    }
    (y, slope)
}

/// Applies an activation to finished strips, into the same or another matrix of the same shape; with `keep` the strip itself
/// becomes the derivative.
#[derive(Clone, Copy)]
pub(crate) struct Activate {
    pub(crate) activation: Activation,
    pub(crate) out: Shared,
    pub(crate) keep: bool,
}

impl Activate {
    /// `K` rows of some columns, of which a vector's are taken.
    #[inline(always)]
    unsafe fn rows<V: Vector, const K: usize>(self, strip: *mut f32, out: *mut f32, stride: usize, columns: usize) {
        let mut x = [V::zero(); K];
        // SAFETY: the caller promises K rows of these columns in both.
        unsafe {
            for (r, x) in x.iter_mut().enumerate() {
                *x = V::load_up_to(strip.add(r * stride), columns);
            }
            if self.keep {
                let (y, slope) = value_and_slope(self.activation, x);
                put(y, out, stride, columns);
                put(slope, strip, stride, columns);
            } else {
                put(value_and_slope(self.activation, x).0, out, stride, columns);
            }
        }
    }

    /// Of rows and columns of a product from `first` on, which lie at `strip`, `stride` values apart.
    ///
    /// # Safety
    /// The strip is part of a product of the output's shape, and writable.
    #[inline(always)]
    pub(crate) unsafe fn finish<V: Vector>(
        self,
        (strip, stride): (*mut f32, usize),
        (rows, columns): (usize, usize),
        first: (usize, usize),
    ) {
        // SAFETY: the strip is part of the product, and the output has the product's shape.
        unsafe {
            let out = self.out.0.add(first.0 * stride + first.1);
            for j in (0..columns).step_by(V::LANES) {
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
            }
        }
    }
}

/// Writes `K` rows of at most a vector each.
#[inline(always)]
unsafe fn put<V: Vector, const K: usize>(values: [V; K], to: *mut f32, stride: usize, columns: usize) {
    for (r, value) in values.into_iter().enumerate() {
        // SAFETY: the caller promises K writable rows of these columns.
        unsafe { value.store_up_to(to.add(r * stride), columns) };
    }
}
