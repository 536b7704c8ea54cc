//! Moments of the latent process along the union grid: closed-form steps, chained.
//!
//! With x = Delta Lambda, all elementwise: a = e^-x, b = Delta phi1(x) alphahat, A = e^-2x, B = sigma^2 Delta phi1(2x);
//! `m_j = a_j m_{j-1} + b_j` and `P_j = A_j P_{j-1} + B_j`. Nothing divides by Lambda.

pub use crate::vector::elementary::{Function, apply_all};

use crate::isa::{Isa, vectorised};
use crate::threads::{Shared, expect_len, filled, for_each_task, shared};
use crate::vector::elementary::{decay_and_phi1, phi1_slope};

/// Sizes of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanShape {
    /// Samples.
    pub batch: usize,
    /// Context tokens per sample.
    pub contexts: usize,
    /// Steps of the union grid per sample.
    pub steps: usize,
    /// Latent width.
    pub width: usize,
}

/// What drives a scan.
#[derive(Clone, Copy)]
pub struct ScanInput<'a> {
    /// `[batch, contexts, width]`: the control of each context token.
    pub alphahat: &'a [f32],
    /// `[batch, contexts, width]`: its rates.
    pub lambda: &'a [f32],
    /// `[batch, steps]`: the context token that drives each step.
    pub driver: &'a [u32],
    /// `[batch, steps]`: the length of each step; zero is the identity.
    pub delta: &'a [f32],
    /// `[width]`: mean before the first step.
    pub mean0: &'a [f32],
    /// `[width]`: variance before the first step.
    pub variance0: &'a [f32],
    /// Variance per unit of time of the driving noise; 1 for unit diffusion.
    pub diffusion: f32,
}

/// Mean and variance after every step, `[batch, steps, width]` each.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// m
    pub mean: Vec<f32>,
    /// P
    pub variance: Vec<f32>,
}

/// Gradients of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanGradients {
    /// `[batch, contexts, width]`
    pub dalphahat: Vec<f32>,
    /// `[batch, contexts, width]`
    pub dlambda: Vec<f32>,
    /// `[width]`
    pub dmean0: Vec<f32>,
    /// `[width]`, with respect to the variance itself, not its logarithm.
    pub dvariance0: Vec<f32>,
}

impl ScanInput<'_> {
    fn check(&self, shape: ScanShape) {
        let ScanShape { batch, contexts, steps, width } = shape;
        expect_len("alphahat", self.alphahat.len(), batch * contexts * width);
        expect_len("lambda", self.lambda.len(), batch * contexts * width);
        expect_len("driver", self.driver.len(), batch * steps);
        expect_len("delta", self.delta.len(), batch * steps);
        expect_len("mean0", self.mean0.len(), width);
        expect_len("variance0", self.variance0.len(), width);
        for &token in self.driver {
            assert!((token as usize) < contexts, "driver: expected a token below {contexts}, found {token}");
        }
    }

    /// Where the driver of a step starts in `alphahat` and `lambda`.
    #[inline(always)]
    pub(crate) fn token_at(&self, shape: ScanShape, sample: usize, step: usize) -> usize {
        (sample * shape.contexts + self.driver[sample * shape.steps + step] as usize) * shape.width
    }
}

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
    expect_len("mean", moments.mean.len(), len);
    expect_len("variance", moments.variance.len(), len);
    expect_len("dmean", dmean.len(), len);
    expect_len("dvariance", dvariance.len(), len);
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

vectorised! {
    fn forward_columns<V>(
        shape: ScanShape, input: &ScanInput<'_>, sample: usize, columns: (usize, usize), mean: Shared, variance: Shared,
    ) {
        let end = columns.1;
        let half = V::splat(0.5);
        for i in (columns.0..end).step_by(V::LANES) {
            let left = end - i;
            // SAFETY: the input was checked against the shape, every driver against the tokens; this task owns these
            // columns of this sample.
            unsafe {
                let mut m = V::load_up_to(input.mean0.as_ptr().add(i), left);
                let mut p = V::load_up_to(input.variance0.as_ptr().add(i), left);
                for step in 0..shape.steps {
                    let delta = input.delta[sample * shape.steps + step];
                    let token = input.token_at(shape, sample, step);
                    if delta != 0.0 {
                        let lambda = V::load_up_to(input.lambda.as_ptr().add(token + i), left);
                        let alphahat = V::load_up_to(input.alphahat.as_ptr().add(token + i), left);
                        let d = V::splat(delta);
                        let (a, phi1) = decay_and_phi1(d.mul(lambda));
                        // phi1(2 x) = phi1(x) (1 + e^-x) / 2: no second exponential.
                        let phi2 = phi1.mul(a.fma(half, half));
                        m = a.fma(m, d.mul(phi1).mul(alphahat));
                        p = a.mul(a).fma(p, V::splat(input.diffusion * delta).mul(phi2));
                    }
                    let row = (sample * shape.steps + step) * shape.width;
                    m.store_up_to(mean.0.add(row + i), left);
                    p.store_up_to(variance.0.add(row + i), left);
                }
            }
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
        for i in (columns.0..end).step_by(V::LANES) {
            let left = end - i;
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
                    gm = gm.add(V::load_up_to(gradients.0.as_ptr().add(row + i), left));
                    gp = gp.add(V::load_up_to(gradients.1.as_ptr().add(row + i), left));
                    let delta = input.delta[sample * shape.steps + step];
                    if delta == 0.0 {
                        continue;
                    }
                    let token = input.token_at(shape, sample, step);
                    let lambda = V::load_up_to(input.lambda.as_ptr().add(token + i), left);
                    let alphahat = V::load_up_to(input.alphahat.as_ptr().add(token + i), left);
                    let (m, p) = if step == 0 {
                        (input.mean0.as_ptr(), input.variance0.as_ptr())
                    } else {
                        let before = row - shape.width;
                        (moments.mean.as_ptr().add(before), moments.variance.as_ptr().add(before))
                    };
                    let (before_m, before_p) = (V::load_up_to(m.add(i), left), V::load_up_to(p.add(i), left));
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
                    let at = dlambda.0.add(token + i);
                    V::load_up_to(at, left).add(to_lambda).store_up_to(at, left);
                    let at = dalphahat.0.add(token + i);
                    gm.fma(d.mul(phi1), V::load_up_to(at, left)).store_up_to(at, left);
                    gm = gm.mul(a);
                    gp = gp.mul(aa);
                }
                gm.store_up_to(starts.0.add(2 * sample * shape.width + i), left);
                gp.store_up_to(starts.0.add((2 * sample + 1) * shape.width + i), left);
            }
        }
    }
}
