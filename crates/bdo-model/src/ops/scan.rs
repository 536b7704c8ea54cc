//! Closed-form moments of the held linear stochastic process, equations of section 3.5 of the method notes:
//! `m_j = a_j m_{j-1} + b_j` and `P_j = A_j P_{j-1} + B_j`, all elementwise.

use super::Kernels;
use super::fused::{self, FusedOp, constant, run, tensor, values};
use crate::device::upload;
use bdo_kernels::Isa;
use bdo_kernels::scan::{self as kernel, ScanGradients, ScanInput, ScanShape};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Float, Int, Shape, Tensor, activation};
use std::sync::Arc;

/// Drivers of the process: controls and rates per token, and which token acts on which step for how long.
#[derive(Clone, Debug)]
pub struct Drive {
    /// [B, C, d] control of each token, in the eigenbasis.
    pub control: Tensor<3>,
    /// [B, C, d] decay rates of each token.
    pub rates: Tensor<3>,
    /// [B * K] row of the flattened [B * C] tokens that acts on each step.
    pub driver: Vec<usize>,
    /// [B * K] scaled length of each step; 0 leaves the state as it is.
    pub delta: Vec<f32>,
}

/// Mean and variance of the state at every frame, in the eigenbasis.
#[derive(Clone, Debug)]
pub struct Moments {
    /// [B, K, d].
    pub mean: Tensor<3>,
    /// [B, K, d].
    pub variance: Tensor<3>,
}

/// Propagates initial moments [d] through K steps. `diffusion` is the standard deviation of the driving noise.
pub fn moment_scan(kernels: Kernels, drive: Drive, mean0: Tensor<1>, variance0: Tensor<1>, diffusion: f64) -> Moments {
    let [batch, tokens, width] = drive.control.dims();
    let frames = drive.delta.len() / batch;
    if fused::applies(kernels, &drive.control).is_some() {
        let token = |(step, row): (usize, &usize)| (row - step / frames * tokens) as u32;
        let driver = drive.driver.iter().enumerate().map(token).collect();
        let (control, rates) = (drive.control.into_dispatch(), drive.rates.into_dispatch());
        let tensors = [control, rates, mean0.into_dispatch(), variance0.into_dispatch()];
        let noise = (diffusion * diffusion) as f32;
        let inputs = Inputs { tensors: tensors.clone().map(constant::<Flex>), driver, delta: drive.delta, noise };
        let moments = kernel::forward(Isa::current(), inputs.shape(), inputs.view());
        let done = Arc::new((inputs, moments));
        let half = |is_mean| Half { is_mean, done: done.clone() };
        return Moments { mean: run(half(true), tensors.clone()), variance: run(half(false), tensors) };
    }
    #[cfg(feature = "cube")]
    if super::cube::applies(kernels, &drive.control) {
        let (mean, variance) = super::cube::moments(drive, mean0, variance0, diffusion * diffusion);
        return Moments { mean, variance };
    }
    let device = drive.control.device();
    let rows: Vec<i32> = drive.driver.iter().map(|&row| row as i32).collect();
    let rows = upload::<1, Int>(rows.as_slice(), &device);
    let held = |x: Tensor<3>| {
        x.reshape([batch * tokens, width]).select(0, rows.clone()).reshape([batch, frames, width]) // [B, K, d]
    };
    let delta =
        upload::<1, Float>(drive.delta.as_slice(), (&device, drive.control.dtype())).reshape([batch, frames, 1]); // [B, K, 1]
    let x = delta.clone() * held(drive.rates);
    let b = delta.clone() * phi1(x.clone()) * held(drive.control);
    let noise = delta * phi1(x.clone() * 2.0) * (diffusion * diffusion);
    let spread = |x0: Tensor<1>| x0.reshape([1, 1, width]).expand([batch, 1, width]); // [B, 1, d]
    Moments {
        mean: scan_parallel(&(-x.clone()).exp(), &b, spread(mean0)),
        variance: scan_parallel(&(x * -2.0).exp(), &noise, spread(variance0)),
    }
}

/// (1 - e^-x) / x for x >= 0, elementwise, with its limit 1 at 0.
pub fn phi1<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let small = x.clone().abs().lower_elem(1e-2);
    // The other branch never sees a zero, so that no 0/0 reaches the gradient through the selection.
    let safe = x.clone().mask_fill(small.clone(), 1.0);
    // 1 - e^-x = tanh(x/2) (1 + e^-x): the same number without the cancellation, as no expm1 is at hand.
    let direct = activation::tanh(safe.clone() * 0.5) * ((-safe.clone()).exp() + 1.0) / safe;
    let series = (((x.clone() * (1.0 / 120.0) - 1.0 / 24.0) * x.clone() + 1.0 / 6.0) * x.clone() - 0.5) * x + 1.0;
    direct.mask_where(small, series)
}

/// `x_j = a_j x_{j-1} + b_j` by a loop: a, b [B, K, d], x0 [B, 1, d] -> [B, K, d].
pub fn scan_sequential(a: &Tensor<3>, b: &Tensor<3>, x0: Tensor<3>) -> Tensor<3> {
    let frames = a.dims()[1];
    let mut state = x0;
    let states = (0..frames)
        .map(|j| {
            state = a.clone().narrow(1, j, 1) * state.clone() + b.clone().narrow(1, j, 1);
            state.clone()
        })
        .collect();
    Tensor::cat(states, 1)
}

/// The same recurrence in O(log K) rounds and O(K) work.
pub fn scan_parallel(a: &Tensor<3>, b: &Tensor<3>, x0: Tensor<3>) -> Tensor<3> {
    let frames = a.dims()[1];
    // Folding the start into the first step leaves a scan whose additive part is the state itself.
    let first = a.clone().narrow(1, 0, 1) * x0 + b.clone().narrow(1, 0, 1);
    let b = if frames == 1 { first } else { Tensor::cat(vec![first, b.clone().narrow(1, 1, frames - 1)], 1) };
    prefix(a.clone(), b).1
}

/// Inclusive prefixes of (a, b) under `(a_p, b_p) then (a_q, b_q) = (a_p a_q, a_q b_p + b_q)`, by odd-even recursion:
/// scan the pairs, then fill in the elements between them.
fn prefix(a: Tensor<3>, b: Tensor<3>) -> (Tensor<3>, Tensor<3>) {
    let [batch, frames, width] = a.dims();
    if frames == 1 {
        return (a, b);
    }
    let pairs = frames / 2;
    let side = |x: &Tensor<3>, right: usize| {
        x.clone()
            .narrow(1, 0, 2 * pairs)
            .reshape([batch, pairs, 2, width])
            .narrow(2, right, 1)
            .reshape([batch, pairs, width])
    };
    let (left_a, left_b, right_a, right_b) = (side(&a, 0), side(&b, 0), side(&a, 1), side(&b, 1)); // [B, K/2, d]
    let pair_b = right_a.clone() * left_b + right_b;
    let (odd_a, odd_b) = prefix(left_a * right_a, pair_b); // prefixes ending at positions 1, 3, 5, ...
    let evens = frames - pairs; // positions 0, 2, 4, ...
    let (first_a, first_b) = (a.clone().narrow(1, 0, 1), b.clone().narrow(1, 0, 1));
    let (even_a, even_b) = if evens == 1 {
        (first_a, first_b)
    } else {
        let indices: Vec<i32> = (1..evens).map(|i| 2 * i as i32).collect();
        let indices = upload::<1, Int>(indices.as_slice(), &a.device());
        let (own_a, own_b) = (a.select(1, indices.clone()), b.select(1, indices)); // [B, evens - 1, d]
        let (before_a, before_b) = (odd_a.clone().narrow(1, 0, evens - 1), odd_b.clone().narrow(1, 0, evens - 1));
        (
            Tensor::cat(vec![first_a, own_a.clone() * before_a], 1),
            Tensor::cat(vec![first_b, own_a * before_b + own_b], 1),
        )
    };
    (interleave(even_a, odd_a), interleave(even_b, odd_b))
}

/// even [B, E, d], odd [B, O, d] with E = O or O + 1 -> [B, E + O, d].
fn interleave(even: Tensor<3>, odd: Tensor<3>) -> Tensor<3> {
    let [batch, evens, width] = even.dims();
    let odds = odd.dims()[1];
    let woven = Tensor::stack::<4>(vec![even.clone().narrow(1, 0, odds), odd], 2).reshape([batch, 2 * odds, width]);
    if evens == odds { woven } else { Tensor::cat(vec![woven, even.narrow(1, odds, 1)], 1) }
}

/// Everything the kernel reads.
#[derive(Debug)]
struct Inputs {
    /// Control, rates, initial mean, initial variance.
    tensors: [FlexTensor; 4],
    /// [B * K] token of the same sample.
    driver: Vec<u32>,
    /// [B * K] lengths.
    delta: Vec<f32>,
    /// Variance of the noise per unit of scaled time.
    noise: f32,
}

impl Inputs {
    fn shape(&self) -> ScanShape {
        let [batch, contexts, width] = self.tensors[0].shape().dims();
        ScanShape { batch, contexts, steps: self.delta.len() / batch, width }
    }

    fn view(&self) -> ScanInput<'_> {
        let [alphahat, lambda, mean0, variance0] = self.tensors.each_ref().map(values);
        let (driver, delta, diffusion) = (&self.driver, &self.delta, self.noise);
        ScanInput { alphahat, lambda, driver, delta, mean0, variance0, diffusion }
    }
}

/// The kernel. A node has one output, so mean and variance are two; each passes its own gradient and zeros for the other. The
/// process is linear in both, so the two halves add up to the whole.
#[derive(Debug)]
struct Half {
    is_mean: bool,
    done: Arc<(Inputs, kernel::Moments)>,
}

impl FusedOp<4> for Half {
    type On = Flex;
    type Saved = Self;

    fn forward(self, _: [FlexTensor; 4]) -> (FlexTensor, Self) {
        let (inputs, moments) = &*self.done;
        let ScanShape { batch, steps, width, .. } = inputs.shape();
        let found = if self.is_mean { &moments.mean } else { &moments.variance };
        (tensor(found.clone(), Shape::from([batch, steps, width])), self)
    }

    fn backward(saved: &Self, dy: FlexTensor, _: [bool; 4]) -> [Option<FlexTensor>; 4] {
        let none = vec![0.0; values(&dy).len()];
        let (dmean, dvariance) = if saved.is_mean { (values(&dy), &none[..]) } else { (&none[..], values(&dy)) };
        let (inputs, moments) = &*saved.done;
        let found = kernel::backward(Isa::current(), inputs.shape(), inputs.view(), moments, dmean, dvariance);
        let ScanGradients { dalphahat, dlambda, dmean0, dvariance0 } = found;
        let mut like = inputs.tensors.iter();
        [dalphahat, dlambda, dmean0, dvariance0].map(|gradient| like.next().map(|like| tensor(gradient, like.shape())))
    }
}
