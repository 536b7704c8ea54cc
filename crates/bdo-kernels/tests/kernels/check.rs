//! Random values, comparisons and finite differences.

/// A small deterministic generator (SplitMix64): same seed, same values, on every machine.
pub(crate) struct Values(u64);

impl Values {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [low, high).
    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.bits() >> 40) as f32 / (1u64 << 24) as f32)
    }

    pub(crate) fn vec(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.between(-1.0, 1.0)).collect()
    }

    pub(crate) fn vec_between(&mut self, len: usize, low: f32, high: f32) -> Vec<f32> {
        (0..len).map(|_| self.between(low, high)).collect()
    }
}

pub(crate) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&v| f64::from(v)).collect()
}

/// Every difference at most `tolerance` times the largest wanted magnitude.
#[track_caller]
pub(crate) fn assert_close(name: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{name}: length");
    let scale = want.iter().fold(1e-30, |a: f64, v| a.max(v.abs()));
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(g) - w).abs();
        assert!(
            error <= tolerance * scale,
            "{name}[{i}]: got {g}, want {w}, error {error:e} > {tolerance:e} * {scale}"
        );
    }
}

/// Central differences of `f` with respect to every element of `x`.
///
/// In double precision with this step, truncation and cancellation are both near 1e-10 for values of order one:
/// far below the tolerances of single-precision gradients.
pub(crate) fn numeric_gradient(x: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let mut x = x.to_vec();
    (0..x.len())
        .map(|i| {
            let at = x[i];
            x[i] = at + STEP;
            let up = f(&x);
            x[i] = at - STEP;
            let down = f(&x);
            x[i] = at;
            (up - down) / (2.0 * STEP)
        })
        .collect()
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
