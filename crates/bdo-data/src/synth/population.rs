//! What all brains of a population have in common.

use serde::Serialize;

use super::constants::{BETWEEN, CONSTANTS};
use super::elementary::exp;
use super::layout::Layout;
use super::stream::{Purpose, Stream};
use crate::atlas::Network;

/// Properties of one region that everybody shares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionTruth {
    pub name: String,
    pub network: Network,
    /// Rate at which the region alone would relax, at a person's rate scale of one.
    pub rate_per_second: f64,
    /// How strongly the network's drive enters, relative to the drive gain.
    pub drive_loading: f64,
    /// How strongly the global drive enters, relative to the global gain.
    pub global_loading: f64,
    /// Mean signal before the site's gain.
    pub baseline: f64,
    /// Factor on white noise.
    pub noise: f64,
    /// Factor on motion artefacts.
    pub motion_sensitivity: f64,
}

/// The shared part of the model.
pub(super) struct Population {
    pub(super) regions: Vec<RegionTruth>,
    /// Local coupling within each network: row-major, symmetric, largest eigenvalue one (zero for a single region).
    pub(super) local: [Vec<f64>; 8],
}

impl Population {
    pub(super) fn new(seed: u64, layout: &Layout) -> Self {
        let regions = (0..layout.regions.len()).map(|i| region(seed, layout, i)).collect();
        let local = std::array::from_fn(|k| local_coupling(layout, &layout.members[k]));
        Population { regions, local }
    }

    /// Mean coupling between network drives: entry (to, from) in units of the drive rate.
    pub(super) fn between() -> [[f64; 8]; 8] {
        let mut matrix = [[0.0; 8]; 8];
        for (a, b, strength, asymmetry) in BETWEEN {
            matrix[b][a] = strength * (1.0 + asymmetry);
            matrix[a][b] = strength * (1.0 - asymmetry);
        }
        matrix
    }
}

fn region(seed: u64, layout: &Layout, index: usize) -> RegionTruth {
    let region = &layout.regions[index];
    let mut stream = Stream::new(seed, Purpose::Group, index, 0);
    let deep = matches!(region.network, Network::Limbic | Network::Subcortical);
    RegionTruth {
        name: region.name.clone(),
        network: region.network,
        rate_per_second: CONSTANTS.network_rate_per_second[region.network.index()]
            * exp(CONSTANTS.region_rate_log_sd * stream.normal()),
        drive_loading: 1.0 + CONSTANTS.loading_sd[0] * stream.normal(),
        global_loading: 1.0 + CONSTANTS.loading_sd[0] * stream.normal(),
        baseline: 1000.0 * exp(0.15 * stream.normal()),
        // Signal drops out near the sinuses and far from the coil.
        noise: if deep { 1.25 } else { 1.0 } * (0.85 + 0.3 * stream.uniform()),
        motion_sensitivity: 0.5 + stream.uniform(),
    }
}

/// Falls with distance, is strong between mirrored places, and is scaled by row sums to an eigenvalue of one.
fn local_coupling(layout: &Layout, members: &[usize]) -> Vec<f64> {
    let n = members.len();
    let mut matrix = vec![0.0; n * n];
    for (row, &i) in members.iter().enumerate() {
        for (column, &j) in members.iter().enumerate() {
            if i == j {
                continue;
            }
            let here = layout.positions_mm[i];
            let there = layout.positions_mm[j];
            let mut value = exp(-distance_mm(here, there) / CONSTANTS.coupling_range_mm);
            if layout.regions[i].hemisphere != layout.regions[j].hemisphere {
                let mirrored = [-there[0], there[1], there[2]];
                value += exp(-distance_mm(here, mirrored) / CONSTANTS.mirror_range_mm);
            }
            matrix[row * n + column] = value;
        }
    }
    let root_sums: Vec<f64> = (0..n).map(|i| matrix[i * n..(i + 1) * n].iter().sum::<f64>().sqrt()).collect();
    for i in 0..n {
        for j in 0..n {
            if i != j {
                matrix[i * n + j] /= root_sums[i] * root_sums[j];
            }
        }
    }
    matrix
}

fn distance_mm(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::eigen::symmetric_eigen;

    #[test]
    fn local_coupling_is_symmetric_bounded_and_falls_with_distance() {
        let layout = Layout::new(200);
        let population = Population::new(0, &layout);
        for (members, matrix) in layout.members.iter().zip(&population.local) {
            let n = members.len();
            let largest = symmetric_eigen(matrix.clone(), n).values.into_iter().fold(f64::MIN, f64::max);
            // Symmetric scaling by row sums: the Perron vector is the root of the row sums, with eigenvalue one.
            assert!((largest - 1.0).abs() < 1e-12, "{largest}");
            let (mut near, mut far) = (Vec::new(), Vec::new());
            for i in 0..n {
                for j in 0..n {
                    assert!((matrix[i * n + j] - matrix[j * n + i]).abs() < 1e-15);
                    let distance = distance_mm(layout.positions_mm[members[i]], layout.positions_mm[members[j]]);
                    let same_side = layout.regions[members[i]].hemisphere == layout.regions[members[j]].hemisphere;
                    if i != j && same_side {
                        if distance < 25.0 { &mut near } else { &mut far }.push(matrix[i * n + j]);
                    }
                }
            }
            let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
            assert!(far.is_empty() || near.is_empty() || mean(&near) > 2.0 * mean(&far));
        }
    }

    #[test]
    fn coupling_between_networks_stays_inside_its_limit() {
        for row in Population::between() {
            assert!(row.iter().map(|x| x.abs()).sum::<f64>() <= CONSTANTS.between_limit);
        }
    }
}
