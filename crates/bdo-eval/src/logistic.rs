//! Logistic regression with a penalty on the weights: two classes by one logit, more by softmax.
//!
//! Truncated Newton: each step is solved by conjugate gradients, which need products with the data only. In the coordinates of
//! [`Coordinates`] the columns are orthogonal, so the diagonal of the Hessian is a good preconditioner and few products suffice.

use crate::design::Coordinates;
use crate::product::{add_scaled, dot};

/// Newton steps after which a fit is as good as it gets; a convex objective needs about ten.
const MOST_STEPS: usize = 100;
/// Products with the Hessian per step.
const MOST_PRODUCTS: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exactness {
    /// Until the objective is known to about 1e-5 of itself: enough to rank penalties.
    Selecting,
    /// Until rounding.
    Final,
}

pub struct LogisticProblem<'a> {
    design: &'a Coordinates,
    rows: Vec<usize>,
    codes: Vec<usize>,
    outputs: usize,
}

impl<'a> LogisticProblem<'a> {
    /// Rows of the design to fit on and the class of every row of the design, from 0 to `classes` - 1.
    pub fn new(design: &'a Coordinates, rows: Vec<usize>, codes: &[usize], classes: usize) -> Self {
        let codes = rows.iter().map(|i| codes[*i]).collect();
        Self { design, rows, codes, outputs: if classes <= 2 { 1 } else { classes } }
    }

    fn width(&self) -> usize {
        self.design.rank() + 1
    }

    /// Where a fit may start: all weights 0.
    pub fn zeros(&self) -> Vec<f64> {
        vec![0.0; self.outputs * self.width()]
    }

    /// The weights with the least summed log loss plus half of `penalty` times their squared length: row-major
    /// `[outputs, rank + 1]`, one output for two classes, else one a class; the last entry of each row is the free intercept.
    pub fn fit(&self, penalty: f64, exactness: Exactness, start: Vec<f64>) -> Vec<f64> {
        let mut weights = start;
        let enough = match exactness {
            Exactness::Selecting => 1e-5,
            Exactness::Final => 1e-20,
        };
        let mut state = self.state(&weights, penalty);
        for _ in 0..MOST_STEPS {
            let step = self.newton_step(&state, penalty);
            let slope = dot(&step, &state.gradient);
            // Half of -slope estimates how far the objective is above its minimum.
            if -slope <= enough * (1.0 + state.objective) {
                break;
            }
            let rounding = 1e-10 * (1.0 + state.objective);
            let mut length = 1.0;
            loop {
                let moved: Vec<f64> = weights.iter().zip(&step).map(|(w, s)| w + length * s).collect();
                let next = self.state(&moved, penalty);
                // Close to the minimum differences of the objective are rounding, and the full step is right.
                let accepted =
                    next.objective <= state.objective + 1e-4 * length * slope || (length == 1.0 && -slope < rounding);
                if accepted || length < 1e-6 {
                    (weights, state) = (moved, next);
                    break;
                }
                length *= 0.5;
            }
        }
        weights
    }

    /// Objective, gradient and probabilities at some weights.
    fn state(&self, weights: &[f64], penalty: f64) -> State {
        let (width, rank) = (self.width(), self.design.rank());
        let mut objective = 0.0;
        let mut gradient = vec![0.0; weights.len()];
        let mut probabilities = vec![0.0; self.rows.len() * self.outputs];
        let lines = self.rows.iter().zip(&self.codes).zip(probabilities.chunks_exact_mut(self.outputs));
        for ((&i, &code), p) in lines {
            let x = self.design.row(i);
            logits(weights, x, p);
            objective += log_loss_in_place(p, code);
            for (k, p) in p.iter().enumerate() {
                let target = if self.outputs == 1 { code == 1 } else { code == k };
                let error = p - f64::from(u8::from(target));
                add_scaled(&mut gradient[k * width..][..rank], error, x);
                gradient[k * width + rank] += error;
            }
        }
        for k in 0..self.outputs {
            let w = &weights[k * width..][..rank];
            objective += 0.5 * penalty * dot(w, w);
            add_scaled(&mut gradient[k * width..][..rank], penalty, w);
        }
        State { objective, gradient, probabilities }
    }

    fn hessian_product(&self, state: &State, penalty: f64, direction: &[f64]) -> Vec<f64> {
        let (width, rank) = (self.width(), self.design.rank());
        let mut out = vec![0.0; direction.len()];
        let mut z = vec![0.0; self.outputs];
        for (&i, p) in self.rows.iter().zip(state.probabilities.chunks_exact(self.outputs)) {
            let x = self.design.row(i);
            logits(direction, x, &mut z);
            if self.outputs == 1 {
                z[0] *= p[0] * (1.0 - p[0]);
            } else {
                let mean = dot(p, &z);
                z.iter_mut().zip(p).for_each(|(z, p)| *z = p * (*z - mean));
            }
            for (k, z) in z.iter().enumerate() {
                add_scaled(&mut out[k * width..][..rank], *z, x);
                out[k * width + rank] += z;
            }
        }
        for k in 0..self.outputs {
            add_scaled(&mut out[k * width..][..rank], penalty, &direction[k * width..][..rank]);
        }
        out
    }

    /// Solves Hessian x step = -gradient by preconditioned conjugate gradients, the more exactly the closer the minimum is.
    fn newton_step(&self, state: &State, penalty: f64) -> Vec<f64> {
        let (width, n) = (self.width(), self.rows.len() as f64);
        let share = n / self.design.rows() as f64;
        let mut diagonal = vec![0.0; state.gradient.len()];
        for k in 0..self.outputs {
            let variances = state.probabilities.iter().skip(k).step_by(self.outputs).map(|p| p * (1.0 - p));
            let variance = (variances.sum::<f64>() / n).max(1e-12);
            for (d, l) in diagonal[k * width..].iter_mut().zip(self.design.eigenvalues()) {
                *d = share * variance * l + penalty;
            }
            diagonal[(k + 1) * width - 1] = variance * n;
        }
        let precondition = |r: &[f64]| -> Vec<f64> { r.iter().zip(&diagonal).map(|(r, d)| r / d).collect() };
        let mut step = vec![0.0; state.gradient.len()];
        let mut residual: Vec<f64> = state.gradient.iter().map(|g| -g).collect();
        let mut scaled = precondition(&residual);
        let mut direction = scaled.clone();
        let mut size = dot(&residual, &scaled);
        let first = size;
        let tolerance = first * (first / (1.0 + state.objective)).clamp(1e-8, 1e-2);
        for _ in 0..MOST_PRODUCTS {
            if size <= tolerance {
                break;
            }
            let product = self.hessian_product(state, penalty, &direction);
            let curvature = dot(&direction, &product);
            if curvature <= 0.0 {
                break;
            }
            let length = size / curvature;
            add_scaled(&mut step, length, &direction);
            add_scaled(&mut residual, -length, &product);
            scaled = precondition(&residual);
            let next = dot(&residual, &scaled);
            let keep = next / size;
            direction.iter_mut().zip(&scaled).for_each(|(d, s)| *d = s + keep * *d);
            size = next;
        }
        step
    }
}

struct State {
    objective: f64,
    gradient: Vec<f64>,
    probabilities: Vec<f64>,
}

/// Probabilities of all classes at coordinates `x`.
pub fn probabilities(weights: &[f64], classes: usize, x: &[f64]) -> Vec<f64> {
    let mut z = vec![0.0; weights.len() / (x.len() + 1)];
    logits(weights, x, &mut z);
    says(&z, classes)
}

/// What outputs mean: a number, where there are no classes, as it is; one logit (two classes) or one a class as the
/// probabilities of all classes.
pub fn says(outputs: &[f64], classes: usize) -> Vec<f64> {
    let mut p = outputs.to_vec();
    if classes == 0 {
        return p;
    }
    log_loss_in_place(&mut p, 0);
    match (p.as_slice(), classes) {
        ([p], 2) => vec![1.0 - p, *p],
        ([_], _) => vec![1.0],
        _ => p,
    }
}

/// Logits, one an output, of a row with an implied 1 for the intercept.
fn logits(weights: &[f64], x: &[f64], out: &mut [f64]) {
    for (k, z) in out.iter_mut().enumerate() {
        let w = &weights[k * (x.len() + 1)..][..=x.len()];
        *z = dot(&w[..x.len()], x) + w[x.len()];
    }
}

/// Turns logits into probabilities and returns the loss of the true class, without overflow for any logit.
fn log_loss_in_place(z: &mut [f64], code: usize) -> f64 {
    if let [z] = z {
        let signed = if code == 1 { -*z } else { *z };
        let loss = signed.max(0.0) + (-signed.abs()).exp().ln_1p();
        *z = if *z >= 0.0 { 1.0 / (1.0 + (-*z).exp()) } else { z.exp() / (1.0 + z.exp()) };
        return loss;
    }
    let own = z[code];
    let (largest, sum) = softmax(z);
    sum.ln() - (own - largest)
}

/// Shares that add up to 1; returns what was subtracted from all before their exponentials, and the sum of those.
pub(crate) fn softmax(z: &mut [f64]) -> (f64, f64) {
    let largest = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    z.iter_mut().for_each(|z| *z = (*z - largest).exp());
    let sum: f64 = z.iter().sum();
    z.iter_mut().for_each(|z| *z /= sum);
    (largest, sum)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::design::Design;
    use crate::features::Features;

    /// At the minimum the gradient vanishes; a wrong gradient would fail the comparison with differences.
    #[test]
    fn gradient_and_hessian_as_differences() {
        let (n, p) = (20, 4);
        let values: Vec<f64> = (0..n * p).map(|i| ((i * 37 + 11) % 101) as f64 / 50.0 - 1.0).collect();
        let features = Features::new(n, p, values).unwrap();
        let rows: Vec<usize> = (0..n).collect();
        let design = Design::new(&features, &rows).unwrap();
        for classes in [2, 3] {
            let codes: Vec<usize> = (0..n).map(|i| (i * 5 + i / 3) % classes).collect();
            let problem = LogisticProblem::new(&design, rows.clone(), &codes, classes);
            let size = problem.outputs * problem.width();
            let at: Vec<f64> = (0..size).map(|i| (i as f64 * 0.7).sin() * 0.3).collect();
            let state = problem.state(&at, 0.8);
            let h = 1e-5;
            for k in 0..size {
                let moved = |d: f64| {
                    let mut w = at.clone();
                    w[k] += d;
                    problem.state(&w, 0.8)
                };
                let (above, below) = (moved(h), moved(-h));
                let slope = (above.objective - below.objective) / (2.0 * h);
                assert!((slope - state.gradient[k]).abs() < 1e-7, "{classes} classes, entry {k}");
                let mut unit = vec![0.0; size];
                unit[k] = 1.0;
                let product = problem.hessian_product(&state, 0.8, &unit);
                for (j, found) in product.iter().enumerate() {
                    let curve = (above.gradient[j] - below.gradient[j]) / (2.0 * h);
                    assert!((curve - found).abs() < 1e-7, "{classes} classes, entry {k}, {j}");
                }
            }
            let weights = problem.fit(0.8, Exactness::Final, problem.zeros());
            let left = problem.state(&weights, 0.8).gradient.iter().fold(0.0f64, |m, g| m.max(g.abs()));
            assert!(left < 1e-8, "{classes} classes: gradient {left} at the minimum");
        }
    }

    #[test]
    fn huge_logits_stay_finite() {
        let mut z = [800.0];
        assert_eq!(log_loss_in_place(&mut z, 1), 0.0);
        let mut z = [-800.0];
        assert_eq!(log_loss_in_place(&mut z, 1), 800.0);
        assert_eq!(z[0], 0.0);
        assert_eq!(says(&[0.0], 2), [0.5, 0.5]);
    }
}
