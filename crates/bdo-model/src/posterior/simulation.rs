//! The closed form beside a simulation of the same controlled equation: how well they agree, and what each costs.

use crate::dynamics::{HeldStep, euler_maruyama, exact_moments};
use crate::noise::fill_normal;
use crate::posterior::engine::{Engine, Piece};
use bdo_data::random::stream;
use rayon::prelude::*;
use serde::Serialize;
use std::time::Instant;

/// Agreement at one number of steps.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationScore {
    /// Steps of the simulation in each interval between frames.
    pub substeps: usize,
    /// Paths simulated.
    pub paths: usize,
    /// Root mean square difference of the means, in standard deviations of the state.
    pub mean_difference: f64,
    /// Mean ratio of simulated to exact variance.
    pub variance_ratio: f64,
    /// Expected difference of the means from the finite number of paths alone.
    pub sampling_error: f64,
    /// Time of the simulation.
    pub seconds: f64,
    /// Time of the closed form on the same steps, in the same plain double precision.
    pub closed_form_seconds: f64,
}

/// Simulates the equation that drives a piece of a scan, coordinate by coordinate. The steps begin at the first row of
/// the piece with the state the closed form has there.
pub fn simulate(engine: &Engine<'_>, piece: &Piece, substeps: usize, paths: usize, seed: u64) -> SimulationScore {
    let config = engine.frozen().model.config();
    let (width, diffusion) = (config.width, config.dynamics.diffusion);
    let rows = piece.rows.len();
    let steps = |k: usize| -> Vec<HeldStep> {
        (1..rows)
            .map(|row| HeldStep {
                rate: f64::from(piece.rates[row * width + k]),
                control: f64::from(piece.control[row * width + k]),
                delta: f64::from(piece.delta[row]),
            })
            .collect()
    };
    let start = |k: usize| (f64::from(piece.mean[k]), f64::from(piece.variance[k]).max(0.0));
    let begun = Instant::now();
    let exact: Vec<Vec<(f64, f64)>> = (0..width)
        .into_par_iter()
        .map(|k| {
            let (mean, variance) = start(k);
            exact_moments(&steps(k), mean, variance, diffusion)
        })
        .collect();
    let closed_form_seconds = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let simulated: Vec<Vec<(f64, f64)>> = (0..width)
        .into_par_iter()
        .map(|k| {
            let (mean, variance) = start(k);
            let steps = steps(k);
            let mut sums = vec![(0.0f64, 0.0f64); steps.len()];
            for path in 0..paths {
                let mut noise = vec![0.0f32; steps.len() * substeps + 1];
                fill_normal(&mut stream("euler-maruyama", &[seed, k as u64, path as u64]), &mut noise);
                let mut draws = noise.into_iter().map(f64::from);
                let mut normal = || draws.next().unwrap_or(0.0);
                let from = mean + variance.sqrt() * normal();
                let states = euler_maruyama(&steps, from, diffusion, substeps, &mut normal);
                for ((sum, square), state) in sums.iter_mut().zip(states) {
                    *sum += state;
                    *square += state * state;
                }
            }
            let n = paths as f64;
            sums.iter().map(|(sum, square)| (sum / n, (square - sum * sum / n) / (n - 1.0))).collect()
        })
        .collect();
    let seconds = begun.elapsed().as_secs_f64();
    let (mut square, mut ratio, mut count) = (0.0, 0.0, 0usize);
    for (exact, simulated) in exact.iter().flatten().zip(simulated.iter().flatten()).filter(|(e, _)| e.1 > 0.0) {
        square += (exact.0 - simulated.0).powi(2) / exact.1;
        ratio += simulated.1 / exact.1;
        count += 1;
    }
    let n = count.max(1) as f64;
    SimulationScore {
        substeps,
        paths,
        mean_difference: (square / n).sqrt(),
        variance_ratio: ratio / n,
        sampling_error: (1.0 / paths as f64).sqrt(),
        seconds,
        closed_form_seconds,
    }
}
