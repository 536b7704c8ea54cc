//! From filtered states to what a scanner writes: baseline, noise, drift and head motion.

use super::constants::CONSTANTS;
use super::elementary::exp;
use super::layout::Layout;
use super::person::PersonTruth;
use super::population::Population;
use super::site::Site;
use super::stream::Stream;

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
