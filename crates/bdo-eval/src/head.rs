//! What stands on top of frozen features: a linear map, or a learned query over the frames followed by one. Plain
//! loops with hand-written gradients; parameters are one flat vector, so one optimiser serves both.

use bdo_data::random::stream;
use bdo_model::control::ControlSequence;
use rand_chacha::rand_core::Rng;

/// A head that can be trained: one output a scan.
pub trait Head: Sync {
    /// What it reads of a scan.
    type Input: ?Sized + Sync;
    /// Number of parameters.
    fn parameters(&self) -> usize;
    /// Fresh parameters, a function of the seed.
    fn start(&self, seed: u64) -> Vec<f64>;
    /// The output for one scan.
    fn output(&self, parameters: &[f64], input: &Self::Input) -> f64;
    /// Adds `slope(output)` times the gradient of the output to `gradient`; returns the output.
    fn add_gradient(
        &self,
        parameters: &[f64],
        input: &Self::Input,
        slope: &dyn Fn(f64) -> f64,
        gradient: &mut [f64],
    ) -> f64;
}

/// `w . x + b`; parameters are w, then b.
#[derive(Clone, Copy, Debug)]
pub struct LinearHead {
    /// Length of x.
    pub width: usize,
}

impl Head for LinearHead {
    type Input = [f32];

    fn parameters(&self) -> usize {
        self.width + 1
    }

    fn start(&self, seed: u64) -> Vec<f64> {
        uniform(self.width + 1, 1.0 / (self.width as f64).sqrt(), seed)
    }

    fn output(&self, parameters: &[f64], input: &[f32]) -> f64 {
        dot(&parameters[..self.width], input) + parameters[self.width]
    }

    fn add_gradient(&self, parameters: &[f64], input: &[f32], slope: &dyn Fn(f64) -> f64, gradient: &mut [f64]) -> f64 {
        let output = self.output(parameters, input);
        let slope = slope(output);
        add_scaled(&mut gradient[..self.width], slope, input);
        gradient[self.width] += slope;
        output
    }
}

/// `w . sum_t softmax_t(q . a_t / sqrt(d)) a_t + b`; parameters are w, then b, then q. With q = 0, where it starts, the
/// pooled vector is the mean over time.
#[derive(Clone, Copy, Debug)]
pub struct AttentionHead {
    /// Latent width, d.
    pub width: usize,
}

struct Attended {
    weights: Vec<f64>,
    pooled: Vec<f64>,
    output: f64,
}

impl AttentionHead {
    fn attend(self, parameters: &[f64], input: &ControlSequence) -> Attended {
        let d = self.width;
        let query = &parameters[d + 1..];
        let scale = 1.0 / (d as f64).sqrt();
        let mut weights: Vec<f64> = input.rows().map(|row| dot(query, row) * scale).collect();
        let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        weights.iter_mut().for_each(|w| *w = (*w - largest).exp());
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
        let mut pooled = vec![0.0; d];
        for (row, &weight) in input.rows().zip(&weights) {
            add_scaled(&mut pooled, weight, row);
        }
        let output = pooled.iter().zip(&parameters[..d]).map(|(x, w)| x * w).sum::<f64>() + parameters[d];
        Attended { weights, pooled, output }
    }
}

impl Head for AttentionHead {
    type Input = ControlSequence;

    fn parameters(&self) -> usize {
        2 * self.width + 1
    }

    fn start(&self, seed: u64) -> Vec<f64> {
        let mut start = LinearHead { width: self.width }.start(seed);
        start.resize(self.parameters(), 0.0);
        start
    }

    fn output(&self, parameters: &[f64], input: &ControlSequence) -> f64 {
        self.attend(parameters, input).output
    }

    fn add_gradient(
        &self,
        parameters: &[f64],
        input: &ControlSequence,
        slope: &dyn Fn(f64) -> f64,
        gradient: &mut [f64],
    ) -> f64 {
        let d = self.width;
        let attended = self.attend(parameters, input);
        let slope = slope(attended.output);
        let (linear, query) = gradient.split_at_mut(d + 1);
        for (g, x) in linear.iter_mut().zip(&attended.pooled) {
            *g += slope * x;
        }
        linear[d] += slope;
        // Through the softmax: weight times what the frame says more than the pooled vector does.
        let pooled = attended.output - parameters[d];
        let scale = slope / (d as f64).sqrt();
        for (row, weight) in input.rows().zip(&attended.weights) {
            add_scaled(query, scale * weight * (dot(&parameters[..d], row) - pooled), row);
        }
        attended.output
    }
}

/// Eight running sums, which the compiler keeps in vector registers.
fn dot(weights: &[f64], values: &[f32]) -> f64 {
    let mut sums = [0.0f64; 8];
    let (mut w, mut v) = (weights.chunks_exact(8), values.chunks_exact(8));
    for (w, v) in (&mut w).zip(&mut v) {
        for ((sum, w), v) in sums.iter_mut().zip(w).zip(v) {
            *sum += w * f64::from(*v);
        }
    }
    let rest: f64 = w.remainder().iter().zip(v.remainder()).map(|(w, v)| w * f64::from(*v)).sum();
    sums.iter().sum::<f64>() + rest
}

fn add_scaled(sum: &mut [f64], factor: f64, values: &[f32]) {
    for (s, v) in sum.iter_mut().zip(values) {
        *s += factor * f64::from(*v);
    }
}

/// Uniform in plus or minus the bound.
fn uniform(count: usize, bound: f64, seed: u64) -> Vec<f64> {
    let mut rng = stream("probe head", &[seed]);
    let unit = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
    (0..count).map(|_| bound * (2.0 * unit(rng.next_u64()) - 1.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central differences of step h have an error of order h^2 (third derivatives here are of order 1) plus rounding
    /// of 1e-16 / h: at h = 1e-5 both are below 1e-9.
    #[test]
    fn the_gradient_of_attention_is_that_of_its_output() {
        let head = AttentionHead { width: 3 };
        let input = ControlSequence { width: 3, values: vec![0.3, -1.0, 0.5, 1.5, 0.2, -0.7, -0.4, 0.9, 1.1] };
        let parameters = [0.7, -0.2, 0.4, 0.1, 1.3, -0.8, 0.6];
        let mut gradient = vec![0.0; 7];
        let output = head.add_gradient(&parameters, &input, &|_| 1.0, &mut gradient);
        assert_eq!(output, head.output(&parameters, &input));
        for i in 0..7 {
            let moved = |by: f64| {
                let mut p = parameters;
                p[i] += by;
                head.output(&p, &input)
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((slope - gradient[i]).abs() < 1e-9, "{i}: {slope} {}", gradient[i]);
        }
    }

    #[test]
    fn attention_starts_as_the_mean() {
        let head = AttentionHead { width: 2 };
        let input = ControlSequence { width: 2, values: vec![1.0, 2.0, 3.0, -4.0] };
        let start = head.start(3);
        let linear = LinearHead { width: 2 }.output(&start[..3], &[2.0, -1.0]);
        assert!((head.output(&start, &input) - linear).abs() < 1e-15);
    }
}
