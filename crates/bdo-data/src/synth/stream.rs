//! Random streams with a name: what a draw is for, and for whom.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::elementary::ln;

/// What a stream of random numbers is used for; part of its key, so purposes never share numbers.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Properties of regions that everybody shares.
    Group = 1,
    /// A scanner's gain, noise and sensitivity.
    Site = 2,
    /// Who is related to whom, and what relatives share.
    Family = 3,
    /// A person's own labels and parameters.
    Person = 4,
    /// Which labels of a person were not recorded.
    Missing = 5,
    /// The innovations of the latent state.
    State = 6,
    /// Head motion.
    Motion = 7,
    /// Drift and thermal noise.
    Measurement = 8,
}

/// Random numbers of one purpose for one person and session, whatever else has been drawn before.
pub(super) struct Stream {
    rng: ChaCha8Rng,
    spare: Option<f64>,
}

impl Stream {
    /// The stream of this key. The whole key is the cipher's key, so streams cannot overlap.
    pub(super) fn new(seed: u64, purpose: Purpose, index: usize, session: usize) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
        key[16..24].copy_from_slice(&(index as u64).to_le_bytes());
        key[24..].copy_from_slice(&(session as u64).to_le_bytes());
        Stream { rng: ChaCha8Rng::from_seed(key), spare: None }
    }

    /// Uniform in [0, 1).
    pub(super) fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Standard normal, by Marsaglia's polar method: a logarithm and a root, no trigonometry.
    pub(super) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let u = 2.0 * self.uniform() - 1.0;
            let v = 2.0 * self.uniform() - 1.0;
            let square = u * u + v * v;
            if square < 1.0 && square > 0.0 {
                let scale = (-2.0 * ln(square) / square).sqrt();
                self.spare = Some(v * scale);
                return u * scale;
            }
        }
    }

    /// Exponential with mean one.
    pub(super) fn exponential(&mut self) -> f64 {
        -ln(1.0 - self.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_the_moments_of_a_normal() {
        let mut stream = Stream::new(1, Purpose::State, 0, 0);
        let n = 200_000;
        let mut moments = [0.0; 4];
        for _ in 0..n {
            let x = stream.normal();
            for (power, moment) in moments.iter_mut().enumerate() {
                *moment += x.powi(power as i32 + 1) / f64::from(n);
            }
        }
        // Five standard errors of each sample moment: Var x, x^2, x^3, x^4 = 1, 2, 15, 96.
        for ((found, expected), variance) in moments.iter().zip([0.0, 1.0, 0.0, 3.0]).zip([1.0, 2.0, 15.0, 96.0_f64]) {
            assert!((found - expected).abs() < 5.0 * (variance / f64::from(n)).sqrt(), "{moments:?}");
        }
    }

    #[test]
    fn streams_of_different_keys_differ() {
        let first = |seed, purpose, index, session| Stream::new(seed, purpose, index, session).rng.next_u64();
        let base = first(1, Purpose::State, 2, 3);
        assert_eq!(base, first(1, Purpose::State, 2, 3));
        assert_ne!(base, first(2, Purpose::State, 2, 3));
        assert_ne!(base, first(1, Purpose::Motion, 2, 3));
        assert_ne!(base, first(1, Purpose::State, 3, 3));
        assert_ne!(base, first(1, Purpose::State, 2, 2));
    }
}
