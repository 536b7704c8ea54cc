//! GELU (exact, by the error function) and `ReLU`.

pub(crate) mod strip;

use crate::isa::{Isa, vectorised};
use crate::threads::{ELEMENTS_PER_TASK, filled};
use crate::vector::Vector;
use crate::vector::elementary::normal_tail;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// A pointwise non-linearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x Phi(x)`.
    Gelu,
    /// `max(x, 0)`.
    Relu,
}

/// The activation of every element.
pub fn forward(isa: Isa, activation: Activation, x: &[f32]) -> Vec<f32> {
    // SAFETY: each task writes the whole of its chunk.
    unsafe {
        filled(x.len(), |y| {
            y.par_chunks_mut(ELEMENTS_PER_TASK)
                .zip(x.par_chunks(ELEMENTS_PER_TASK))
                .for_each(|(y, x)| forward_chunk(isa, activation, x, y));
        })
    }
}

/// `dy` times the derivative at the pre-activation `x`; for `ReLU` the activated value serves as well.
pub fn backward(isa: Isa, activation: Activation, x: &[f32], dy: &[f32]) -> Vec<f32> {
    assert_eq!(dy.len(), x.len(), "dy: expected {} values, found {}", x.len(), dy.len());
    // SAFETY: each task writes the whole of its chunk.
    unsafe {
        filled(x.len(), |dx| {
            dx.par_chunks_mut(ELEMENTS_PER_TASK)
                .zip(x.par_chunks(ELEMENTS_PER_TASK).zip(dy.par_chunks(ELEMENTS_PER_TASK)))
                .for_each(|(dx, (x, dy))| backward_chunk(isa, activation, x, dy, dx));
        })
    }
}

/// The activation of some vectors.
#[inline(always)]
pub(crate) fn value<V: Vector, const K: usize>(activation: Activation, x: [V; K]) -> [V; K] {
    let mut y = x;
    match activation {
        Activation::Gelu => {
            let (tail, _) = normal_tail(x);
            for k in 0..K {
                y[k] = gelu(x[k], tail[k]);
            }
        }
        Activation::Relu => {
            for k in 0..K {
                y[k] = V::zero().max(x[k]);
            }
        }
    }
    y
}

/// x Phi(x) = max(x, 0) - |x| Phi(-|x|), which is accurate on both sides.
#[inline(always)]
fn gelu<V: Vector>(x: V, tail: V) -> V {
    V::zero().max(x).sub(x.abs().mul(tail))
}

/// The activation and its derivative at the pre-activation.
#[inline(always)]
pub(crate) fn value_and_slope<V: Vector, const K: usize>(activation: Activation, x: [V; K]) -> ([V; K], [V; K]) {
    let (mut y, mut slope) = (x, x);
    match activation {
        Activation::Gelu => {
            let (tail, bell) = normal_tail(x);
            for k in 0..K {
                y[k] = gelu(x[k], tail[k]);
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

vectorised! {
    fn forward_chunk<V>(activation: Activation, x: &[f32], y: &mut [MaybeUninit<f32>]) {
        let mut i = 0;
        while i < x.len() {
            value(activation, [V::read(x, i)])[0].write_new(y, i);
            i += V::LANES;
        }
    }
}

vectorised! {
    fn backward_chunk<V>(activation: Activation, x: &[f32], dy: &[f32], dx: &mut [MaybeUninit<f32>]) {
        let mut i = 0;
        while i < x.len() {
            value_and_slope(activation, [V::read(x, i)]).1[0].mul(V::read(dy, i)).write_new(dx, i);
            i += V::LANES;
        }
    }
}
