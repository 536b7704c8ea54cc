use crate::check::Values;
use bdo_kernels::adam::{Adam, WeightDecay, squared_norm};
use bdo_kernels::{Isa, ema};

/// Adam of Kingma and Ba in double precision, written from the algorithm and not from the kernel.
struct Twin {
    p: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
}

impl Twin {
    fn step(&mut self, adam: &Adam, t: i32, g: &[f32]) {
        for i in 0..self.p.len() {
            let mut g = f64::from(g[i]);
            match adam.weight_decay {
                WeightDecay::None => {}
                WeightDecay::Decoupled(decay) => self.p[i] -= adam.learning_rate * decay * self.p[i],
                WeightDecay::Coupled(decay) => g += decay * self.p[i],
            }
            self.m[i] = adam.beta1 * self.m[i] + (1.0 - adam.beta1) * g;
            self.v[i] = adam.beta2 * self.v[i] + (1.0 - adam.beta2) * g * g;
            let m = self.m[i] / (1.0 - adam.beta1.powi(t));
            let v = self.v[i] / (1.0 - adam.beta2.powi(t));
            self.p[i] -= adam.learning_rate * m / (v.sqrt() + adam.eps);
        }
    }
}

#[test]
fn adam_follows_its_twin() {
    for isa in Isa::available() {
        for weight_decay in [WeightDecay::None, WeightDecay::Decoupled(0.05), WeightDecay::Coupled(0.05)] {
            for n in [0, 1, 9, 40_003] {
                let adam = Adam {
                    learning_rate: 1e-2,
                    beta1: 0.9,
                    beta2: 0.999,
                    eps: 1e-8,
                    weight_decay,
                    gradient_scale: 0.5,
                };
                let mut values = Values::new(n as u64);
                let mut p = values.vec(n);
                let mut twin = Twin { p: p.iter().map(|&v| f64::from(v)).collect(), m: vec![0.0; n], v: vec![0.0; n] };
                let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
                for t in 1..=5 {
                    let g = values.vec(n);
                    let doubled: Vec<f32> = g.iter().map(|g| 2.0 * g).collect();
                    adam.step(isa, t, &mut p, &doubled, &mut m, &mut v);
                    twin.step(&adam, t as i32, &g);
                }
                for (got, want) in p.iter().zip(&twin.p) {
                    // Five steps of 1e-2, each off by a few units in the last place of p or of the step.
                    assert!((f64::from(*got) - want).abs() < 1e-6, "{isa} {weight_decay:?}: {got} for {want}");
                }
            }
        }
    }
}

#[test]
fn the_first_step_has_the_length_of_the_learning_rate() {
    for isa in Isa::available() {
        let adam = Adam {
            learning_rate: 0.1,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: WeightDecay::None,
            gradient_scale: 1.0,
        };
        let (mut p, mut m, mut v) = ([1.0, 1.0], [0.0; 2], [0.0; 2]);
        adam.step(isa, 1, &mut p, &[3.0, -1e-4], &mut m, &mut v);
        assert!((p[0] - 0.9).abs() < 1e-6 && (p[1] - 1.1).abs() < 2e-5, "{p:?}");
    }
}

#[test]
fn ema_mixes_and_freezes() {
    for isa in Isa::available() {
        let mut average = vec![1.0; 19];
        ema::update(isa, 0.75, &mut average, &[5.0; 19]);
        assert_eq!(average, vec![2.0; 19]);
        ema::update(isa, 1.0, &mut average, &[f32::NAN; 19]);
        assert_eq!(average, vec![2.0; 19]);
    }
}

#[test]
fn squared_norm_is_accurate() {
    for isa in Isa::available() {
        for n in [0, 1, 7, 8, 100_001] {
            let x = Values::new(6).vec(n);
            let want: f64 = x.iter().map(|&v| f64::from(v).powi(2)).sum();
            assert!((squared_norm(isa, &x) - want).abs() <= 1e-12 * want);
        }
    }
}
