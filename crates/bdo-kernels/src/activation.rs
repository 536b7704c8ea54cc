//! GELU (exact, by the error function) and `ReLU`.

pub mod reference;

use crate::isa::{Isa, vectorised};
use crate::threads::{ELEMENTS_PER_TASK, filled};
use crate::vector::Vector;
use crate::vector::elementary::normal;
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

/// The activation of one vector.
#[inline(always)]
pub(crate) fn value<V: Vector>(activation: Activation, x: V) -> V {
    match activation {
        Activation::Gelu => x.mul(normal(x).0),
        Activation::Relu => V::zero().max(x),
    }
}

/// Its derivative at the pre-activation.
#[inline(always)]
pub(crate) fn slope<V: Vector>(activation: Activation, x: V) -> V {
    match activation {
        Activation::Gelu => {
            let (cdf, bell) = normal(x);
            // The density is the bell over sqrt(2 pi).
            x.mul(bell).fma(V::splat(0.398_942_3), cdf)
        }
        Activation::Relu => V::zero().select_less(x, V::splat(1.0), V::zero()),
    }
}

vectorised! {
    fn forward_chunk<V>(activation: Activation, x: &[f32], y: &mut [MaybeUninit<f32>]) {
        let mut i = 0;
        while i < x.len() {
            value(activation, V::read(x, i)).write_new(y, i);
            i += V::LANES;
        }
    }
}

vectorised! {
    fn backward_chunk<V>(activation: Activation, x: &[f32], dy: &[f32], dx: &mut [MaybeUninit<f32>]) {
        let mut i = 0;
        while i < x.len() {
            slope(activation, V::read(x, i)).mul(V::read(dy, i)).write_new(dx, i);
            i += V::LANES;
        }
    }
}
