//! The process in plain double precision, written for trust and not for speed: the closed form of one coordinate and
//! an Euler-Maruyama simulation of the whole equation, which know nothing of each other.

use bdo_kernels::reference::phi1;

/// One step of the zero-order hold for one coordinate of the eigenbasis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldStep {
    /// Decay rate, Lambda.
    pub rate: f64,
    /// Control, alpha.
    pub control: f64,
    /// Scaled length, Delta.
    pub delta: f64,
}

/// Mean and variance after each step, by the closed form.
pub fn exact_moments(steps: &[HeldStep], mean0: f64, variance0: f64, diffusion: f64) -> Vec<(f64, f64)> {
    let (mut mean, mut variance) = (mean0, variance0);
    steps
        .iter()
        .map(|step| {
            let x = step.delta * step.rate;
            mean = (-x).exp() * mean + step.delta * phi1(x) * step.control;
            variance = (-2.0 * x).exp() * variance + diffusion * diffusion * step.delta * phi1(2.0 * x);
            (mean, variance)
        })
        .collect()
}

/// One path of dX = (-Lambda X + alpha) dt + diffusion dW, each held step cut into `substeps`; `normal` yields
/// standard normal draws. Returns the state after each held step.
pub fn euler_maruyama(
    steps: &[HeldStep],
    start: f64,
    diffusion: f64,
    substeps: usize,
    mut normal: impl FnMut() -> f64,
) -> Vec<f64> {
    let mut state = start;
    steps
        .iter()
        .map(|step| {
            let dt = step.delta / substeps as f64;
            for _ in 0..substeps {
                state += (step.control - step.rate * state) * dt + diffusion * dt.sqrt() * normal();
            }
            state
        })
        .collect()
}
