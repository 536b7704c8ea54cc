//! Exponential moving average of parameters, in place.

use crate::isa::{Isa, vectorised};
use crate::threads::{ELEMENTS_PER_TASK, expect_len};
use rayon::prelude::*;

/// `average = momentum * average + (1 - momentum) * current`; a momentum of 1 leaves the average untouched.
pub fn update(isa: Isa, momentum: f64, average: &mut [f32], current: &[f32]) {
    expect_len("current", current.len(), average.len());
    if momentum == 1.0 {
        return;
    }
    let (keep, take) = (momentum as f32, (1.0 - momentum) as f32);
    average
        .par_chunks_mut(ELEMENTS_PER_TASK)
        .zip(current.par_chunks(ELEMENTS_PER_TASK))
        .for_each(|(average, current)| update_chunk(isa, keep, take, average, current));
}

vectorised! {
    fn update_chunk<V>(keep: f32, take: f32, average: &mut [f32], current: &[f32]) {
        for i in (0..average.len()).step_by(V::LANES) {
            V::splat(keep).fma(V::read(average, i), V::splat(take).mul(V::read(current, i))).write(average, i);
        }
    }
}
