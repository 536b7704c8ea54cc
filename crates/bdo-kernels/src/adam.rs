//! Adam in place, as `PyTorch` computes it, and the norm its gradients are clipped by.

use crate::isa::{Isa, vectorised};
use crate::threads::ELEMENTS_PER_TASK;
use rayon::prelude::*;

/// Settings of one Adam step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Step length.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: WeightDecay,
    /// Factor on every gradient, as from clipping; 1 for none.
    pub gradient_scale: f32,
}

/// Where weight decay acts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightDecay {
    /// Nowhere.
    None,
    /// On the parameter itself, before the step (`AdamW`).
    Decoupled(f64),
    /// Added to the gradient (L2 penalty).
    Coupled(f64),
}

/// The factors of one step, worked out in `f64`, for any kernel that takes one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // As in the formulas below.
pub struct Factors {
    pub beta1: f32,
    pub rest1: f32,
    pub beta2: f32,
    pub rest2: f32,
    pub step: f32,
    pub root: f32,
    pub eps: f32,
    pub keep: f32,
    pub coupled: f32,
    pub gradient_scale: f32,
}

impl Adam {
    /// Step number `step`, counted from 1, of parameters `p` with gradients `g` and moments `m`, `v`.
    pub fn step(&self, isa: Isa, step: u64, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        let n = p.len();
        assert_eq!((g.len(), m.len(), v.len()), (n, n, n), "g, m, v: expected {n} values each");
        let factors = self.factors(step);
        p.par_chunks_mut(ELEMENTS_PER_TASK)
            .zip(g.par_chunks(ELEMENTS_PER_TASK))
            .zip(m.par_chunks_mut(ELEMENTS_PER_TASK).zip(v.par_chunks_mut(ELEMENTS_PER_TASK)))
            .for_each(|((p, g), (m, v))| step_chunk(isa, factors, p, g, m, v));
    }

    /// The factors of step number `step`, counted from 1.
    pub fn factors(&self, step: u64) -> Factors {
        assert!(step > 0, "step: expected at least 1, found 0");
        let correction = |beta: f64| 1.0 - beta.powf(step as f64);
        let (keep, coupled) = match self.weight_decay {
            WeightDecay::None => (1.0, 0.0),
            WeightDecay::Decoupled(decay) => (1.0 - self.learning_rate * decay, 0.0),
            WeightDecay::Coupled(decay) => (1.0, decay),
        };
        Factors {
            beta1: self.beta1 as f32,
            rest1: (1.0 - self.beta1) as f32,
            beta2: self.beta2 as f32,
            rest2: (1.0 - self.beta2) as f32,
            step: (self.learning_rate / correction(self.beta1)) as f32,
            root: (1.0 / correction(self.beta2).sqrt()) as f32,
            eps: self.eps as f32,
            keep: keep as f32,
            coupled: coupled as f32,
            gradient_scale: self.gradient_scale,
        }
    }
}

/// Sum of squares in `f64`, in an order that depends on the length alone.
pub fn squared_norm(isa: Isa, x: &[f32]) -> f64 {
    let sums: Vec<f64> = x.par_chunks(ELEMENTS_PER_TASK).map(|chunk| squares(isa, chunk)).collect();
    sums.iter().sum()
}

vectorised! {
    fn step_chunk<V>(f: Factors, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        for i in (0..p.len()).step_by(V::LANES) {
            let value = V::read(p, i);
            let gradient = V::splat(f.coupled).fma(value, V::splat(f.gradient_scale).mul(V::read(g, i)));
            let first = V::splat(f.beta1).fma(V::read(m, i), V::splat(f.rest1).mul(gradient));
            let second = V::splat(f.beta2).fma(V::read(v, i), V::splat(f.rest2).mul(gradient).mul(gradient));
            first.write(m, i);
            second.write(v, i);
            let length = V::splat(f.root).fma(second.sqrt(), V::splat(f.eps));
            V::splat(f.keep).mul(value).sub(V::splat(f.step).mul(first.div(length))).write(p, i);
        }
    }
}

vectorised! {
    fn squares<V>(x: &[f32]) -> f64 {
        // Eight running sums in f64: the compiler keeps them in registers of whatever width there is.
        let _ = V::LANES;
        let mut sums = [0.0f64; 8];
        let mut chunks = x.chunks_exact(8);
        for chunk in &mut chunks {
            for (sum, &v) in sums.iter_mut().zip(chunk) {
                *sum += f64::from(v) * f64::from(v);
            }
        }
        for (sum, &v) in sums.iter_mut().zip(chunks.remainder()) {
            *sum += f64::from(v) * f64::from(v);
        }
        sums.iter().sum()
    }
}
