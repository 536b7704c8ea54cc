//! One step after another, vectors across the width, tasks across samples and parts of the width.

use super::phi::{decay_and_phi1, phi1_slope};
use super::{Moments, ScanGradients, ScanInput, ScanShape};
use crate::isa::{Isa, vectorised};
use crate::threads::{Shared, filled, for_each_task, shared};
use crate::vector::Vector;

/// Columns per task: whole vectors of every instruction set, whole cache lines.
const COLUMNS_PER_TASK: usize = 64;

/// Mean and variance after every step.
pub fn forward(isa: Isa, shape: ScanShape, input: ScanInput<'_>) -> Moments {
    input.check(shape);
    let len = shape.batch * shape.steps * shape.width;
    let mut mean = Vec::new();
    // SAFETY: the tasks cover every step of every column of every sample.
    let variance = unsafe {
        filled(len, |variance| {
            let variance = shared(variance);
            mean = filled(len, |mean| {
                let mean = shared(mean);
                for_each_column_block(shape, |sample, columns| {
                    forward_columns(isa, shape, &input, sample, columns, mean, variance);
                });
            });
        })
    };
    Moments { mean, variance }
}

/// Gradients from those of all means and variances; step gradients are added up at their context token.
pub fn backward(
    isa: Isa,
    shape: ScanShape,
    input: ScanInput<'_>,
    moments: &Moments,
    dmean: &[f32],
    dvariance: &[f32],
) -> ScanGradients {
    input.check(shape);
    let ScanShape { batch, contexts, steps, width } = shape;
    let len = batch * steps * width;
    for (name, found) in [
        ("mean", moments.mean.len()),
        ("variance", moments.variance.len()),
        ("dmean", dmean.len()),
        ("dvariance", dvariance.len()),
    ] {
        assert_eq!(found, len, "{name}: expected {len} values, found {found}");
    }
    let mut dalphahat = vec![0.0; batch * contexts * width];
    let mut dlambda = vec![0.0; batch * contexts * width];
    let mut starts = vec![0.0; 2 * batch * width];
    let out = [&mut dalphahat, &mut dlambda, &mut starts].map(|buffer| Shared(buffer.as_mut_ptr()));
    for_each_column_block(shape, |sample, columns| {
        backward_columns(isa, shape, &input, sample, columns, moments, (dmean, dvariance), out);
    });
    let (mut dmean0, mut dvariance0) = (vec![0.0; width], vec![0.0; width]);
    for sample in starts.chunks_exact(2 * width.max(1)) {
        for i in 0..width {
            dmean0[i] += sample[i];
            dvariance0[i] += sample[width + i];
        }
    }
    ScanGradients { dalphahat, dlambda, dmean0, dvariance0 }
}

fn for_each_column_block(shape: ScanShape, task: impl Fn(usize, (usize, usize)) + Sync + Send) {
    let blocks = shape.width.div_ceil(COLUMNS_PER_TASK);
    for_each_task(shape.batch * blocks, |index| {
        let first = index % blocks * COLUMNS_PER_TASK;
        task(index / blocks, (first, (first + COLUMNS_PER_TASK).min(shape.width)));
    });
}

/// How far ahead the backward pass asks for its rows.
const STEPS_AHEAD: usize = 8;

/// Lanes `i..` of a row that ends before column `end` of the task.
#[inline(always)]
unsafe fn lanes<V: Vector>(row: *const f32, i: usize, end: usize) -> V {
    // SAFETY: the caller promises the row has `end` columns.
    unsafe { if end - i >= V::LANES { V::load(row.add(i)) } else { V::load_partial(row.add(i), end - i) } }
}

/// Stores what [`lanes`] would load.
#[inline(always)]
unsafe fn put<V: Vector>(value: V, row: *mut f32, i: usize, end: usize) {
    // SAFETY: the caller promises the row has `end` columns and is this task's own.
    unsafe { if end - i >= V::LANES { value.store(row.add(i)) } else { value.store_partial(row.add(i), end - i) } }
}

vectorised! {
    fn forward_columns<V>(
        shape: ScanShape, input: &ScanInput<'_>, sample: usize, columns: (usize, usize), mean: Shared, variance: Shared,
    ) {
        let end = columns.1;
        let half = V::splat(0.5);
        let mut i = columns.0;
        while i < end {
            // SAFETY: the input was checked against the shape, every driver against the tokens; this task owns these
            // columns of this sample.
            unsafe {
                let mut m: V = lanes(input.mean0.as_ptr(), i, end);
                let mut p: V = lanes(input.variance0.as_ptr(), i, end);
                for step in 0..shape.steps {
                    let delta = input.delta_of(shape, sample, step);
                    let token = input.token_at(shape, sample, step);
                    if delta != 0.0 {
                        let lambda: V = lanes(input.lambda.as_ptr().add(token), i, end);
                        let alphahat: V = lanes(input.alphahat.as_ptr().add(token), i, end);
                        let d = V::splat(delta);
                        let (a, phi1) = decay_and_phi1(d.mul(lambda));
                        // phi1(2 x) = phi1(x) (1 + e^-x) / 2: no second exponential.
                        let phi2 = phi1.mul(a.fma(half, half));
                        m = a.fma(m, d.mul(phi1).mul(alphahat));
                        p = a.mul(a).fma(p, V::splat(input.diffusion * delta).mul(phi2));
                    }
                    let row = (sample * shape.steps + step) * shape.width;
                    put(m, mean.0.add(row), i, end);
                    put(p, variance.0.add(row), i, end);
                }
            }
            i += V::LANES;
        }
    }
}

vectorised! {
    fn backward_columns<V>(
        shape: ScanShape, input: &ScanInput<'_>, sample: usize, columns: (usize, usize), moments: &Moments,
        gradients: (&[f32], &[f32]), out: [Shared; 3],
    ) {
        let end = columns.1;
        let half = V::splat(0.5);
        let [dalphahat, dlambda, starts] = out;
        let mut i = columns.0;
        while i < end {
            // SAFETY: as in `forward_columns`; tokens belong to one sample, so no other task adds to these columns.
            unsafe {
                // Gradients with respect to the state after the current step, carried backward.
                let (mut gm, mut gp) = (V::zero(), V::zero());
                for step in (0..shape.steps).rev() {
                    let row = (sample * shape.steps + step) * shape.width;
                    // Rows lie too far apart for the hardware to see what comes next.
                    let ahead = (row + i).wrapping_sub(STEPS_AHEAD * shape.width);
                    for stream in [gradients.0, gradients.1, &moments.mean, &moments.variance] {
                        V::prefetch(stream.as_ptr().wrapping_add(ahead));
                    }
                    gm = gm.add(lanes(gradients.0.as_ptr().add(row), i, end));
                    gp = gp.add(lanes(gradients.1.as_ptr().add(row), i, end));
                    let delta = input.delta_of(shape, sample, step);
                    if delta == 0.0 {
                        continue;
                    }
                    let token = input.token_at(shape, sample, step);
                    let lambda: V = lanes(input.lambda.as_ptr().add(token), i, end);
                    let alphahat: V = lanes(input.alphahat.as_ptr().add(token), i, end);
                    let (before_m, before_p): (V, V) = if step == 0 {
                        (lanes(input.mean0.as_ptr(), i, end), lanes(input.variance0.as_ptr(), i, end))
                    } else {
                        let before = row - shape.width;
                        (
                            lanes(moments.mean.as_ptr().add(before), i, end),
                            lanes(moments.variance.as_ptr().add(before), i, end),
                        )
                    };
                    let d = V::splat(delta);
                    let x = d.mul(lambda);
                    let (a, phi1) = decay_and_phi1(x);
                    let phi2 = phi1.mul(a.fma(half, half));
                    let aa = a.mul(a);
                    let twice = x.add(x);
                    // d/dLambda of (a m + b) is Delta (Delta phi1'(x) alphahat - a m), and of (A P + B) is
                    // 2 Delta (sigma^2 Delta phi1'(2 x) - A P).
                    let by_mean = d.mul(phi1_slope(x, a, phi1)).mul(alphahat).sub(a.mul(before_m));
                    let noise = V::splat(input.diffusion * delta);
                    let by_variance = noise.mul(phi1_slope(twice, aa, phi2)).sub(aa.mul(before_p));
                    let to_lambda = d.mul(gm.mul(by_mean).add(gp.add(gp).mul(by_variance)));
                    let at = dlambda.0.add(token);
                    put(lanes::<V>(at, i, end).add(to_lambda), at, i, end);
                    let at = dalphahat.0.add(token);
                    put(gm.fma(d.mul(phi1), lanes::<V>(at, i, end)), at, i, end);
                    gm = gm.mul(a);
                    gp = gp.mul(aa);
                }
                put(gm, starts.0.add(2 * sample * shape.width), i, end);
                put(gp, starts.0.add((2 * sample + 1) * shape.width), i, end);
            }
            i += V::LANES;
        }
    }
}
