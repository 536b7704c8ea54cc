//! The network drives: a small linear SDE, stepped exactly.

use super::stream::Stream;

pub(super) const DRIVES: usize = 9;
pub(super) const GLOBAL: usize = 8;

type Square = [[f64; DRIVES]; DRIVES];

/// The exact transition of dz = A z dt + diag(s) dW over one step, and its stationary law.
pub(super) struct DrivePropagator {
    transition: Square,
    /// Lower Cholesky factor of the covariance of the innovation.
    innovation: Square,
    /// Lower Cholesky factor of the stationary covariance.
    stationary: Square,
}

impl DrivePropagator {
    /// From the drift A (stable), the diagonal of the diffusion S = diag(s²), and the step.
    pub(super) fn new(drift: &Square, diffusion: &[f64; DRIVES], step_seconds: f64) -> Self {
        // Moments over a step short enough for a fourth-order series, then doubled: F(2t) = F(t)², and
        // Q(2t) = Q(t) + F(t) Q(t) F(t)ᵀ. Ten doublings reach the step, twenty more outlast every memory.
        const DOUBLINGS: u32 = 10;
        let t = step_seconds / f64::from(1 << DOUBLINGS);
        let mut scaled = *drift;
        scaled.iter_mut().flatten().for_each(|x| *x *= t);
        let mut transition = identity();
        for order in (1..=4_u32).rev() {
            transition = multiply(&scaled, &transition);
            for (i, row) in transition.iter_mut().enumerate() {
                for x in row.iter_mut() {
                    *x /= f64::from(order);
                }
                row[i] += 1.0;
            }
        }
        let mut covariance = [[0.0; DRIVES]; DRIVES];
        for i in 0..DRIVES {
            covariance[i][i] += diffusion[i] * t;
            for j in 0..DRIVES {
                covariance[i][j] += 0.5 * t * (scaled[i][j] * diffusion[j] + diffusion[i] * scaled[j][i]);
            }
        }
        let double = |transition: &mut Square, covariance: &mut Square| {
            let grown = multiply(&multiply(transition, covariance), &transpose(transition));
            for (row, more) in covariance.iter_mut().zip(&grown) {
                row.iter_mut().zip(more).for_each(|(x, y)| *x += y);
            }
            *transition = multiply(transition, transition);
        };
        for _ in 0..DOUBLINGS {
            double(&mut transition, &mut covariance);
        }
        let (mut long_transition, mut stationary) = (transition, covariance);
        for _ in 0..20 {
            double(&mut long_transition, &mut stationary);
        }
        DrivePropagator { transition, innovation: cholesky(&covariance), stationary: cholesky(&stationary) }
    }

    pub(super) fn start(&self, stream: &mut Stream) -> [f64; DRIVES] {
        let mut z = [0.0; DRIVES];
        add_correlated(&mut z, &self.stationary, stream);
        z
    }

    pub(super) fn advance(&self, z: &[f64; DRIVES], stream: &mut Stream) -> [f64; DRIVES] {
        let mut next = [0.0; DRIVES];
        for (x, row) in next.iter_mut().zip(&self.transition) {
            *x = row.iter().zip(z).map(|(f, z)| f * z).sum();
        }
        add_correlated(&mut next, &self.innovation, stream);
        next
    }
}

fn add_correlated(z: &mut [f64; DRIVES], factor: &Square, stream: &mut Stream) {
    let white: [f64; DRIVES] = std::array::from_fn(|_| stream.normal());
    for (i, x) in z.iter_mut().enumerate() {
        *x += factor[i][..=i].iter().zip(&white).map(|(l, w)| l * w).sum::<f64>();
    }
}

fn identity() -> Square {
    std::array::from_fn(|i| std::array::from_fn(|j| f64::from(u8::from(i == j))))
}

fn transpose(a: &Square) -> Square {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

fn multiply(a: &Square, b: &Square) -> Square {
    std::array::from_fn(|i| std::array::from_fn(|j| (0..DRIVES).map(|k| a[i][k] * b[k][j]).sum()))
}

/// The lower factor of a positive definite matrix; rounding below zero is cut at zero.
fn cholesky(a: &Square) -> Square {
    let mut l = [[0.0; DRIVES]; DRIVES];
    for i in 0..DRIVES {
        for j in 0..=i {
            let rest = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            l[i][j] = if i == j {
                rest.max(0.0).sqrt()
            } else if l[j][j] > 0.0 {
                rest / l[j][j]
            } else {
                0.0
            };
        }
    }
    l
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gram(l: &Square) -> Square {
        multiply(l, &transpose(l))
    }

    #[test]
    fn uncoupled_drives_step_as_ornstein_uhlenbeck() {
        let mut drift = [[0.0; DRIVES]; DRIVES];
        let mut diffusion = [0.0; DRIVES];
        for i in 0..DRIVES {
            let rate = 0.1 + 0.1 * i as f64;
            drift[i][i] = -rate;
            diffusion[i] = 2.0 * rate;
        }
        let propagator = DrivePropagator::new(&drift, &diffusion, 0.2);
        for (i, row) in drift.iter().enumerate() {
            let decay = (row[i] * 0.2).exp();
            assert!((propagator.transition[i][i] - decay).abs() < 1e-12);
            // The series of Q stops after t², so its relative error is (rate t)² / 3 with t = 0.2 / 1024.
            assert!((gram(&propagator.innovation)[i][i] - (1.0 - decay * decay)).abs() < 1e-8);
            assert!((gram(&propagator.stationary)[i][i] - 1.0).abs() < 1e-7);
        }
    }

    #[test]
    fn the_stationary_law_solves_the_lyapunov_equation() {
        let mut drift = [[0.0; DRIVES]; DRIVES];
        for (i, row) in drift.iter_mut().enumerate() {
            row[i] = -0.5;
            row[(i + 1) % DRIVES] = 0.2;
            row[(i + 4) % DRIVES] = -0.1;
        }
        let diffusion = [1.0; DRIVES];
        let p = gram(&DrivePropagator::new(&drift, &diffusion, 0.2).stationary);
        let ap = multiply(&drift, &p);
        let pa = transpose(&ap);
        for (i, (row, mirrored)) in ap.iter().zip(&pa).enumerate() {
            for (j, (x, y)) in row.iter().zip(mirrored).enumerate() {
                let residual = x + y + if i == j { diffusion[i] } else { 0.0 };
                assert!(residual.abs() < 1e-7, "{i},{j}: {residual}");
            }
        }
    }
}
