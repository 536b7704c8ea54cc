//! What stands on top of frozen features: a linear map, or a learned query over the frames followed by one. Plain
//! loops with hand-written gradients; parameters are one flat vector, so one optimiser serves both.

use crate::logistic::softmax;
use crate::product::{add_scaled, dot};
use bdo_data::random::stream;
use bdo_model::control::ControlSequence;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

/// What happens to features before a head sees them, fitted on training scans only: a shift and a scale of each column; both may be
/// absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FittedTransform {
    /// Subtracted: the reference of the tangent space, or the training mean.
    pub centre: Option<Vec<f32>>,
    /// Divided by: the training spread, 1 where a column is constant.
    pub scale: Option<Vec<f32>>,
}

impl FittedTransform {
    /// Fits on the given rows, all of one length.
    pub fn fit(rows: &[&[f32]], centre: bool, scale: bool) -> Self {
        let width = rows.first().map_or(0, |row| row.len());
        let n = rows.len().max(1) as f64;
        let mut mean = vec![0.0f64; width];
        for row in rows {
            mean.iter_mut().zip(*row).for_each(|(m, &x)| *m += f64::from(x) / n);
        }
        let mut square = vec![0.0f64; width];
        for row in rows {
            for ((s, &x), m) in square.iter_mut().zip(*row).zip(&mean) {
                *s += (f64::from(x) - m).powi(2) / n;
            }
        }
        let spread = |(s, m): (&f64, &f64)| if s.sqrt() > 1e-6 * m.abs().max(1e-12) { s.sqrt() as f32 } else { 1.0 };
        Self {
            centre: (centre || scale).then(|| mean.iter().map(|m| *m as f32).collect()),
            scale: scale.then(|| square.iter().zip(&mean).map(spread).collect()),
        }
    }

    pub fn apply(&self, row: &[f32]) -> Vec<f32> {
        let mut out = row.to_vec();
        if let Some(centre) = &self.centre {
            out.iter_mut().zip(centre).for_each(|(x, c)| *x -= c);
        }
        if let Some(scale) = &self.scale {
            out.iter_mut().zip(scale).for_each(|(x, s)| *x /= s);
        }
        out
    }
}

/// A head that can be trained: one output a scan, or one for each class.
pub trait Head: Sync {
    type Input: ?Sized + Sync;
    fn parameters(&self) -> usize;
    /// Fresh parameters, a function of the seed.
    fn start(&self, seed: u64) -> Vec<f64>;
    fn outputs(&self, parameters: &[f64], input: &Self::Input) -> Vec<f64>;
    /// Adds the gradient of the outputs, weighted by `slopes(outputs)`, to `gradient`; returns the outputs.
    fn add_gradient(
        &self,
        parameters: &[f64],
        input: &Self::Input,
        slopes: &dyn Fn(&[f64]) -> Vec<f64>,
        gradient: &mut [f64],
    ) -> Vec<f64>;
}

/// `W x + b`; parameters are the rows of W, then b.
#[derive(Clone, Copy, Debug)]
pub struct LinearHead {
    /// Length of x.
    pub width: usize,
    /// Length of b.
    pub outputs: usize,
}

impl LinearHead {
    fn weights(self, parameters: &[f64]) -> impl Iterator<Item = (&[f64], f64)> {
        let (rows, rest) = parameters.split_at(self.outputs * self.width);
        rows.chunks_exact(self.width).zip(rest.iter().copied())
    }
}

impl Head for LinearHead {
    type Input = [f32];

    fn parameters(&self) -> usize {
        self.outputs * (self.width + 1)
    }

    fn start(&self, seed: u64) -> Vec<f64> {
        uniform(self.parameters(), 1.0 / (self.width as f64).sqrt(), seed)
    }

    fn outputs(&self, parameters: &[f64], input: &[f32]) -> Vec<f64> {
        self.weights(parameters).map(|(row, bias)| dot(row, input) + bias).collect()
    }

    fn add_gradient(
        &self,
        parameters: &[f64],
        input: &[f32],
        slopes: &dyn Fn(&[f64]) -> Vec<f64>,
        gradient: &mut [f64],
    ) -> Vec<f64> {
        let outputs = self.outputs(parameters, input);
        let (rows, biases) = gradient.split_at_mut(self.outputs * self.width);
        for ((row, bias), slope) in rows.chunks_exact_mut(self.width).zip(biases).zip(slopes(&outputs)) {
            add_scaled(row, slope, input);
            *bias += slope;
        }
        outputs
    }
}

/// `W sum_t softmax_t(q . a_t / sqrt(d)) a_t + b`; parameters are the rows of W, then b, then q. With q = 0, where it starts,
/// the pooled vector is the mean over time.
#[derive(Clone, Copy, Debug)]
pub struct AttentionHead {
    /// What stands on the pooled vector; its width is the latent width, d.
    pub linear: LinearHead,
}

struct Attended {
    weights: Vec<f64>,
    pooled: Vec<f64>,
    outputs: Vec<f64>,
}

impl AttentionHead {
    fn attend(self, parameters: &[f64], input: &ControlSequence) -> Attended {
        let d = self.linear.width;
        let query = &parameters[self.linear.parameters()..];
        let scale = 1.0 / (d as f64).sqrt();
        let mut weights: Vec<f64> = input.rows().map(|row| dot(query, row) * scale).collect();
        softmax(&mut weights);
        let mut pooled = vec![0.0; d];
        for (row, &weight) in input.rows().zip(&weights) {
            add_scaled(&mut pooled, weight, row);
        }
        let output = |(row, bias): (&[f64], f64)| pooled.iter().zip(row).map(|(x, w)| x * w).sum::<f64>() + bias;
        let outputs = self.linear.weights(parameters).map(output).collect();
        Attended { weights, pooled, outputs }
    }
}

impl Head for AttentionHead {
    type Input = ControlSequence;

    fn parameters(&self) -> usize {
        self.linear.parameters() + self.linear.width
    }

    fn start(&self, seed: u64) -> Vec<f64> {
        let mut start = self.linear.start(seed);
        start.resize(self.parameters(), 0.0);
        start
    }

    fn outputs(&self, parameters: &[f64], input: &ControlSequence) -> Vec<f64> {
        self.attend(parameters, input).outputs
    }

    fn add_gradient(
        &self,
        parameters: &[f64],
        input: &ControlSequence,
        slopes: &dyn Fn(&[f64]) -> Vec<f64>,
        gradient: &mut [f64],
    ) -> Vec<f64> {
        let d = self.linear.width;
        let attended = self.attend(parameters, input);
        let (linear, query) = gradient.split_at_mut(self.linear.parameters());
        let (rows, biases) = linear.split_at_mut(self.linear.outputs * d);
        // By the pooled vector, and what the pooled vector itself has along that direction.
        let (mut by_pooled, mut along) = (vec![0.0; d], 0.0);
        let parts = self.linear.weights(parameters).zip(slopes(&attended.outputs)).zip(&attended.outputs);
        for ((((row, bias), slope), output), (g, b)) in parts.zip(rows.chunks_exact_mut(d).zip(biases)) {
            add_scaled(g, slope, &attended.pooled);
            *b += slope;
            add_scaled(&mut by_pooled, slope, row);
            along += slope * (output - bias);
        }
        // Through the softmax: weight times what the frame says more than the pooled vector does.
        let scale = 1.0 / (d as f64).sqrt();
        for (row, weight) in input.rows().zip(&attended.weights) {
            add_scaled(query, scale * weight * (dot(&by_pooled, row) - along), row);
        }
        attended.outputs
    }
}

/// Stored parameters as heads compute with them.
pub fn widened(parameters: &[f32]) -> Vec<f64> {
    parameters.iter().map(|p| f64::from(*p)).collect()
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
    fn gradients_of_heads_are_those_of_their_losses() {
        use crate::fit::Loss;
        let input = ControlSequence { width: 3, values: vec![0.3, -1.0, 0.5, 1.5, 0.2, -0.7, -0.4, 0.9, 1.1] };
        let mut draw = noise();
        for (loss, label) in [(Loss::SquaredError, 0.4), (Loss::CrossEntropy, 1.0), (Loss::Softmax(3), 2.0)] {
            let linear = LinearHead { width: 3, outputs: loss.outputs() };
            let head = AttentionHead { linear };
            let parameters: Vec<f64> = (0..head.parameters()).map(|_| draw()).collect();
            let mut gradient = vec![0.0; parameters.len()];
            let found = head.add_gradient(&parameters, &input, &|outputs| loss.slopes(outputs, label), &mut gradient);
            assert_eq!(found, head.outputs(&parameters, &input));
            let cost = |outputs: Vec<f64>| match loss {
                Loss::SquaredError => (outputs[0] - label).powi(2),
                _ => -loss.says(&outputs)[label as usize].ln(),
            };
            let slope_at = |outputs: &dyn Fn(&[f64]) -> Vec<f64>, parameters: &[f64], i: usize| {
                let moved = |by: f64| {
                    let mut p = parameters.to_vec();
                    p[i] += by;
                    cost(outputs(&p))
                };
                (moved(1e-5) - moved(-1e-5)) / 2e-5
            };
            for (i, found) in gradient.iter().enumerate() {
                let slope = slope_at(&|p| head.outputs(p, &input), &parameters, i);
                assert!((slope - found).abs() < 1e-9, "{loss:?} {i}: {slope} {found}");
            }
            let (parameters, feature) = (&parameters[..linear.parameters()], [0.3f32, -1.0, 0.5]);
            let mut gradient = vec![0.0; parameters.len()];
            linear.add_gradient(parameters, &feature, &|outputs| loss.slopes(outputs, label), &mut gradient);
            for (i, found) in gradient.iter().enumerate() {
                let slope = slope_at(&|p| linear.outputs(p, &feature), parameters, i);
                assert!((slope - found).abs() < 1e-9, "linear {loss:?} {i}: {slope} {found}");
            }
        }
    }

    fn noise() -> impl FnMut() -> f64 {
        let mut values = uniform(64, 1.0, 7).into_iter();
        move || values.next().unwrap_or(0.5)
    }

    #[test]
    fn attention_starts_as_the_mean() {
        let linear = LinearHead { width: 2, outputs: 3 };
        let head = AttentionHead { linear };
        let input = ControlSequence { width: 2, values: vec![1.0, 2.0, 3.0, -4.0] };
        let start = head.start(3);
        let mean = linear.outputs(&start[..9], &[2.0, -1.0]);
        let found = head.outputs(&start, &input);
        assert!(found.iter().zip(&mean).all(|(a, b)| (a - b).abs() < 1e-15), "{found:?} {mean:?}");
    }
}
