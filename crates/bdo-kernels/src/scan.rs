//! Moments of the latent process along the union grid: closed-form steps, chained.
//!
//! With x = Delta Lambda, all elementwise: a = e^-x, b = Delta phi1(x) alphahat, A = e^-2x, B = sigma^2 Delta phi1(2x);
//! `m_j = a_j m_{j-1} + b_j` and `P_j = A_j P_{j-1} + B_j`. Nothing divides by Lambda.

pub(crate) mod phi;
pub mod reference;
mod sequential;

pub use phi::{Function, apply_all};
pub use sequential::{backward, forward};

use crate::threads::expect_len;

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
    /// `[batch]`: steps of each sample that are not padding; later ones are the identity whatever their delta.
    pub lens: Option<&'a [usize]>,
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
        expect_len("lens", self.lens.map_or(batch, <[usize]>::len), batch);
        for &token in self.driver {
            assert!((token as usize) < contexts, "driver: expected a token below {contexts}, found {token}");
        }
    }

    /// Length of a step, zero in the padding.
    #[inline(always)]
    fn delta_of(&self, shape: ScanShape, sample: usize, step: usize) -> f32 {
        match self.lens {
            Some(lens) if step >= lens[sample] => 0.0,
            _ => self.delta[sample * shape.steps + step],
        }
    }

    /// Where the driver of a step starts in `alphahat` and `lambda`.
    #[inline(always)]
    fn token_at(&self, shape: ScanShape, sample: usize, step: usize) -> usize {
        (sample * shape.contexts + self.driver[sample * shape.steps + step] as usize) * shape.width
    }
}
