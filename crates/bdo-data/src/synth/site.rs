//! Scanners.

use serde::Serialize;

use super::spec::SynthSpec;
use super::stream::{Purpose, Stream};

/// Repetition times of well-known studies, for sites when none was asked for.
const TYPICAL_TR_SECONDS: [f64; 6] = [0.735, 2.0, 0.8, 1.5, 0.72, 2.5];
/// How the sites' repetition times relate to one that was asked for.
const TR_RATIOS: [f64; 6] = [1.0, 1.25, 0.8, 1.5, 1.1, 0.9];

/// A scanner: how often it measures, how it scales and how noisy it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Site {
    /// `site-01`, `site-02`, ...
    pub name: String,
    /// Time between volumes, to the millisecond.
    pub tr_seconds: f64,
    /// Factor on every value.
    pub gain: f64,
    /// Factor on the white noise.
    pub noise: f64,
    /// How much the gain changes from left to right, bottom to top and back to front, per 100 mm.
    pub gain_slope_per_100_mm: [f64; 3],
}

impl Site {
    /// The sites of a cohort; site k does not depend on how many there are.
    pub(super) fn all(spec: &SynthSpec) -> Vec<Site> {
        (0..spec.sites).map(|index| Site::new(spec, index)).collect()
    }

    fn new(spec: &SynthSpec, index: usize) -> Site {
        let mut stream = Stream::new(spec.seed, Purpose::Site, index, 0);
        let tr_seconds = match spec.tr_seconds {
            Some(tr) if index == 0 => tr,
            Some(tr) => (tr * TR_RATIOS[index % TR_RATIOS.len()] * 1000.0).round() / 1000.0,
            None => TYPICAL_TR_SECONDS[index % TYPICAL_TR_SECONDS.len()],
        };
        Site {
            name: format!("site-{:02}", index + 1),
            tr_seconds,
            gain: 0.8 + 0.4 * stream.uniform(),
            noise: 0.85 + 0.3 * stream.uniform(),
            gain_slope_per_100_mm: [0; 3].map(|_| 0.1 * (2.0 * stream.uniform() - 1.0)),
        }
    }

    pub(super) fn gain_at(&self, position_mm: [f64; 3]) -> f64 {
        let slope: f64 = self.gain_slope_per_100_mm.iter().zip(position_mm).map(|(s, x)| s * x / 100.0).sum();
        self.gain * (1.0 + slope)
    }
}
