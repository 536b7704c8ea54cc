//! Scanners, and what they write of filtered states: baseline, noise, drift and head motion.

use serde::Serialize;

use super::constants::CONSTANTS;
use super::elementary::exp;
use super::person::PersonTruth;
use super::population::Layout;
use super::population::Population;
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
    /// One of the sites of a cohort; it does not depend on how many there are.
    pub(super) fn new(spec: &SynthSpec, index: usize) -> Site {
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

/// Framewise displacement of one scan in millimetres, one value per volume; the first has no predecessor and is zero.
pub(super) fn displacement(person: &PersonTruth, tr_seconds: f64, frames: usize, stream: &mut Stream) -> Vec<f64> {
    let chance = 1.0 - exp(-person.spikes_per_minute * tr_seconds / 60.0);
    (0..frames)
        .map(|frame| {
            let still = person.still_fd_mm * (0.5 + 0.6 * stream.normal().abs());
            let moves = stream.uniform() < chance;
            // Drawn whether used or not, so that one movement does not shift all later draws.
            let size = CONSTANTS.spike_least_mm + CONSTANTS.spike_mean_mm * stream.exponential();
            match (frame, moves) {
                (0, _) => 0.0,
                (_, true) => still + size.min(CONSTANTS.spike_most_mm),
                (_, false) => still,
            }
        })
        .collect()
}

/// Turns filtered states (row-major frames x regions) into signal; `displacement_mm` says where motion strikes.
pub(super) fn signal(
    states: &[f64],
    displacement_mm: &[f64],
    population: &Population,
    layout: &Layout,
    site: &Site,
    stream: &mut Stream,
) -> Vec<f32> {
    let frames = displacement_mm.len();
    let gains: Vec<f64> = population
        .regions
        .iter()
        .zip(&layout.positions_mm)
        .map(|(region, &place)| region.baseline * site.gain_at(place))
        .collect();
    let noises: Vec<f64> = population.regions.iter().map(|r| CONSTANTS.noise_percent * site.noise * r.noise).collect();
    let drift_loadings: Vec<[f64; 2]> =
        gains.iter().map(|_| [0; 2].map(|_| CONSTANTS.drift_percent * stream.normal())).collect();
    let slow_decay = exp(-site.tr_seconds / CONSTANTS.drift_seconds);
    let mut slow = stream.normal();
    let mut artefact = 0.0;
    let mut series = Vec::with_capacity(states.len());
    for (frame, (&fd, row)) in displacement_mm.iter().zip(states.chunks_exact(gains.len())).enumerate() {
        // A ramp of unit variance over the scan, and a slow wander.
        let ramp = 12_f64.sqrt() * (frame as f64 / (frames - 1) as f64 - 0.5);
        slow = slow_decay * slow + (1.0 - slow_decay * slow_decay).sqrt() * stream.normal();
        artefact = CONSTANTS.motion_carry * artefact - CONSTANTS.motion_percent_per_mm * fd;
        for (i, state) in row.iter().enumerate() {
            let percent = CONSTANTS.percent_per_unit * state
                + drift_loadings[i][0] * ramp
                + drift_loadings[i][1] * slow
                + artefact * population.regions[i].motion_sensitivity
                + noises[i] * stream.normal();
            series.push((gains[i] * (1.0 + 0.01 * percent)) as f32);
        }
    }
    series
}
