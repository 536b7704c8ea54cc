//! The latent state of one scan, seen through the haemodynamic response.
//!
//! Within a network the drift is symmetric, so in the basis of its eigenvectors every mode is a scalar
//! Ornstein-Uhlenbeck process and a step costs one multiplication per mode instead of one per pair of regions.

use super::constants::CONSTANTS;
use super::drive::{DRIVES, DrivePropagator, GLOBAL};
use super::eigen::symmetric_eigen;
use super::elementary::exp;
use super::person::PersonTruth;
use super::population::Layout;
use super::population::Population;
use super::stream::Stream;

/// A person's brain, ready to be stepped at one repetition time.
pub(super) struct Brain {
    networks: Vec<NetworkModes>,
    drives: DrivePropagator,
    response: Vec<f64>,
    steps_per_frame: usize,
    step_seconds: f64,
}

struct NetworkModes {
    network: usize,
    members: Vec<usize>,
    /// Row-major; row m is mode m over the members.
    vectors: Vec<f64>,
    modes: Vec<Mode>,
}

struct Mode {
    /// Factor over one step.
    decay: f64,
    /// Effect of the network's drive, and of the global one, over one step.
    drive: [f64; 2],
    /// Standard deviation of the innovation over one step.
    innovation: f64,
    /// Standard deviation it would have without drives; where it starts.
    start: f64,
}

impl Brain {
    pub(super) fn new(population: &Population, layout: &Layout, person: &PersonTruth, tr_seconds: f64) -> Self {
        let steps_per_frame = (tr_seconds / CONSTANTS.longest_step_seconds).ceil().max(1.0) as usize;
        let step_seconds = tr_seconds / steps_per_frame as f64;
        let networks = (0..8)
            .filter(|&k| !layout.members[k].is_empty())
            .map(|k| NetworkModes::new(population, &layout.members[k], person, k, step_seconds))
            .collect();
        let (drift, diffusion) = drive_equation(person);
        Brain {
            networks,
            drives: DrivePropagator::new(&drift, &diffusion, step_seconds),
            response: response(person.hrf_scale, step_seconds),
            steps_per_frame,
            step_seconds,
        }
    }

    /// Filtered states, row-major frames x regions.
    pub(super) fn run(&self, frames: usize, regions: usize, stream: &mut Stream) -> Vec<f64> {
        // Long enough for the response to fill and for the drives to have shaped the regions.
        let taps = self.response.len();
        let warm_up = taps.max((40.0 / self.step_seconds) as usize);
        let mut history = vec![0.0; taps * regions];
        let mut state: Vec<f64> =
            self.networks.iter().flat_map(|n| &n.modes).map(|mode| mode.start * stream.normal()).collect();
        let mut z = self.drives.start(stream);
        let mut filtered = vec![0.0; regions];
        let mut out = vec![0.0; frames * regions];
        for step in 0..=warm_up + (frames - 1) * self.steps_per_frame {
            let next = self.drives.advance(&z, stream);
            let between: [f64; DRIVES] = std::array::from_fn(|k| 0.5 * (z[k] + next[k]));
            z = next;
            self.advance(&mut state, &between, stream);
            let newest = step % taps;
            history[newest * regions..(newest + 1) * regions].copy_from_slice(&state);
            if step >= warm_up && (step - warm_up).is_multiple_of(self.steps_per_frame) {
                filtered.fill(0.0);
                for (lag, weight) in self.response.iter().enumerate() {
                    let slot = (newest + taps - lag) % taps;
                    for (x, past) in filtered.iter_mut().zip(&history[slot * regions..(slot + 1) * regions]) {
                        *x += weight * past;
                    }
                }
                let frame = (step - warm_up) / self.steps_per_frame;
                self.project(&filtered, &mut out[frame * regions..(frame + 1) * regions]);
            }
        }
        out
    }

    fn advance(&self, state: &mut [f64], drives: &[f64; DRIVES], stream: &mut Stream) {
        let mut rest = state;
        for NetworkModes { network, modes, .. } in &self.networks {
            let (own, others) = rest.split_at_mut(modes.len());
            rest = others;
            for (x, Mode { decay, drive: [within, global], innovation, .. }) in own.iter_mut().zip(modes) {
                *x = decay * *x + within * drives[*network] + global * drives[GLOBAL] + innovation * stream.normal();
            }
        }
    }

    fn project(&self, modes: &[f64], regions: &mut [f64]) {
        let mut rest = modes;
        let mut sums = Vec::new();
        for network in &self.networks {
            let n = network.members.len();
            let (own, others) = rest.split_at(n);
            rest = others;
            sums.clear();
            sums.resize(n, 0.0);
            for (amplitude, row) in own.iter().zip(network.vectors.chunks_exact(n)) {
                for (sum, v) in sums.iter_mut().zip(row) {
                    *sum += amplitude * v;
                }
            }
            for (&region, sum) in network.members.iter().zip(&sums) {
                regions[region] = *sum;
            }
        }
    }
}

impl NetworkModes {
    fn new(population: &Population, members: &[usize], person: &PersonTruth, network: usize, h: f64) -> Self {
        let n = members.len();
        let relaxation = relaxation(population, members, person, network);
        let eigen = symmetric_eigen(relaxation, n);
        let reference = person.rate_scale * CONSTANTS.reference_rate_per_second;
        let gains: Vec<[f64; 2]> = members.iter().map(|&i| drive_gains(population, person, network, i)).collect();
        let mode = |(rate, row): (&f64, &[f64])| {
            let decay = exp(-rate * h);
            let stationary = reference / rate;
            let onto_mode = |which: usize| row.iter().zip(&gains).map(|(v, g)| v * g[which]).sum::<f64>();
            Mode {
                decay,
                drive: [0, 1].map(|which| (1.0 - decay) / rate * onto_mode(which)),
                innovation: (stationary * (1.0 - decay * decay)).sqrt(),
                start: stationary.sqrt(),
            }
        };
        let modes = eigen.values.iter().zip(eigen.vectors.chunks_exact(n)).map(mode).collect();
        NetworkModes { network, members: members.to_vec(), vectors: eigen.vectors, modes }
    }
}

/// R^½ (I - g C) R^½ of one network, row-major: positive definite because g < 1 and C has no eigenvalue above one.
pub(super) fn relaxation(population: &Population, members: &[usize], person: &PersonTruth, network: usize) -> Vec<f64> {
    let n = members.len();
    let coupling = &population.local[network];
    let root: Vec<f64> =
        members.iter().map(|&i| (person.rate_scale * population.regions[i].rate_per_second).sqrt()).collect();
    let mut matrix = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            let identity = f64::from(u8::from(i == j));
            let entry = identity - person.local_coupling[network] * coupling[i * n + j];
            matrix[i * n + j] = root[i] * entry * root[j];
        }
    }
    matrix
}

/// How strongly the network's drive and the global drive push region `i`, per second.
pub(super) fn drive_gains(population: &Population, person: &PersonTruth, network: usize, i: usize) -> [f64; 2] {
    let reference = person.rate_scale * CONSTANTS.reference_rate_per_second;
    let region = &population.regions[i];
    [
        reference * person.drive_gain[network] * region.drive_loading * person.loading[i],
        reference * CONSTANTS.global_gain * region.global_loading,
    ]
}

/// Drift and diffusion of the drives; without coupling each would have unit variance.
pub(super) fn drive_equation(person: &PersonTruth) -> ([[f64; DRIVES]; DRIVES], [f64; DRIVES]) {
    let mut drift = [[0.0; DRIVES]; DRIVES];
    let mut diffusion = [0.0; DRIVES];
    for to in 0..DRIVES {
        let rate = if to == GLOBAL { CONSTANTS.global_rate_per_second } else { CONSTANTS.drive_rate_per_second[to] }
            * person.rate_scale;
        drift[to][to] = -rate;
        diffusion[to] = 2.0 * rate;
        if to != GLOBAL {
            for (entry, coupling) in drift[to].iter_mut().zip(&person.between[to]) {
                *entry += rate * coupling;
            }
        }
    }
    (drift, diffusion)
}

/// Weights of the state at lags 0, h, 2h, ...: a double gamma whose time axis is stretched by `scale`, of unit sum.
///
/// The canonical shape: t⁵e⁻ᵗ/5! minus a share of t¹⁵e⁻ᵗ/15!.
pub(super) fn response(scale: f64, step_seconds: f64) -> Vec<f64> {
    let taps = (CONSTANTS.hrf_length * scale / step_seconds).ceil() as usize + 1;
    let mut weights: Vec<f64> = (0..taps)
        .map(|tap| {
            let t = tap as f64 * step_seconds / scale;
            gamma_density(t, 5) - CONSTANTS.hrf_undershoot * gamma_density(t, 15)
        })
        .collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    weights
}

/// tᵏ e⁻ᵗ / k!, multiplied up one factor at a time so that nothing overflows.
fn gamma_density(t: f64, k: u32) -> f64 {
    (1..=k).fold(exp(-t), |product, i| product * t / f64::from(i))
}

#[cfg(test)]
mod hrf_tests {
    use super::*;

    #[test]
    fn peaks_at_five_scaled_seconds_and_undershoots_later() {
        let step = 0.05;
        let weights = response(1.0, step);
        let peak = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
        assert!((peak as f64 * step - 5.0).abs() < 0.1, "peak at {}", peak as f64 * step);
        let trough = (0..weights.len()).min_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
        assert!((12.0..18.0).contains(&(trough as f64 * step)) && weights[trough] < 0.0);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
