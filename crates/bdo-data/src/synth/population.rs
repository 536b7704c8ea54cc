//! Which regions a synthetic brain has, where they lie, and what all brains of a population have in common.

use serde::Serialize;

use super::constants::{BETWEEN, CONSTANTS};
use super::elementary::exp;
use super::stream::{Purpose, Stream};
use crate::atlas::{Hemisphere, Network, Region, schaefer400_tian3};

/// The regions of a synthetic brain with a place for each, also for those no atlas defines.
pub(super) struct Layout {
    pub(super) regions: Vec<Region>,
    pub(super) positions_mm: Vec<[f64; 3]>,
    /// Region indices of each network, in [`Network::ALL`] order; a network may be empty.
    pub(super) members: [Vec<usize>; 8],
}

impl Layout {
    /// All 450 regions of the atlas, a balanced subset of them, or all of them and numbered extra ones.
    pub(super) fn new(count: usize) -> Self {
        let atlas = schaefer400_tian3();
        let mut regions: Vec<Region> = if count < atlas.len() {
            balanced_subset(atlas, count).into_iter().map(|i| atlas[i].clone()).collect()
        } else {
            atlas.to_vec()
        };
        let mut positions_mm: Vec<[f64; 3]> = regions.iter().map(|r| r.centroid_mm.unwrap_or_default()).collect();
        for number in atlas.len()..count {
            // An extra region lies beside an atlas region: it takes its network and side, 3 mm further up a lap.
            let beside = &atlas[number % atlas.len()];
            let [x, y, z] = beside.centroid_mm.unwrap_or_default();
            positions_mm.push([x, y, z + 3.0 * (number / atlas.len()) as f64]);
            regions.push(Region {
                name: format!("Extra-{:04}", number + 1),
                network: beside.network,
                hemisphere: beside.hemisphere,
                centroid_mm: None,
            });
        }
        let members =
            Network::ALL.map(|network| (0..regions.len()).filter(|&i| regions[i].network == network).collect());
        Layout { regions, positions_mm, members }
    }
}

/// Indices of `count` regions, in atlas order, that share networks and sides as the whole atlas does.
///
/// Every network gets a region before any gets a second (sides alternating), then every network has both sides,
/// and beyond that seats go by the method of equal proportions.
fn balanced_subset(atlas: &[Region], count: usize) -> Vec<usize> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for lap in 0..2 {
        for network in Network::ALL {
            let left = (network.index() + lap) % 2 == 0;
            let side = if left { Hemisphere::Left } else { Hemisphere::Right };
            groups.push(
                (0..atlas.len()).filter(|&i| atlas[i].network == network && atlas[i].hemisphere == side).collect(),
            );
        }
    }
    let mut seats = vec![0; groups.len()];
    for seat in 0..count {
        let next = if seat < groups.len() {
            seat
        } else {
            // size^2 / (n (n + 1)) is the squared priority; comparing squares avoids the root.
            let priority = |g: usize| (groups[g].len() as f64).powi(2) / (seats[g] * (seats[g] + 1)) as f64;
            (0..groups.len())
                .filter(|&g| seats[g] < groups[g].len())
                .max_by(|&a, &b| priority(a).total_cmp(&priority(b)).then(b.cmp(&a)))
                .expect("fewer seats than regions were asked for")
        };
        seats[next] += 1;
    }
    let mut chosen: Vec<usize> = groups
        .iter()
        .zip(&seats)
        .flat_map(|(group, &n)| (0..n).map(move |k| group[(2 * k + 1) * group.len() / (2 * n)]))
        .collect();
    chosen.sort_unstable();
    chosen
}

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

#[cfg(test)]
mod layout_tests {
    use super::*;

    #[test]
    fn every_size_has_unique_names_and_the_whole_atlas_is_itself() {
        for count in [2, 3, 8, 16, 17, 50, 100, 200, 449, 450, 451, 1000] {
            let layout = Layout::new(count);
            assert_eq!(layout.regions.len(), count);
            assert_eq!(layout.positions_mm.len(), count);
            assert_eq!(layout.members.iter().map(Vec::len).sum::<usize>(), count);
            let names: std::collections::BTreeSet<_> = layout.regions.iter().map(|r| &r.name).collect();
            assert_eq!(names.len(), count, "{count} regions");
        }
        assert_eq!(Layout::new(450).regions, schaefer400_tian3());
        assert_eq!(Layout::new(451).regions[450].name, "Extra-0451");
    }

    #[test]
    fn subsets_are_balanced() {
        let whole = Layout::new(450);
        for count in [16, 50, 100, 200, 300] {
            let layout = Layout::new(count);
            let left = layout.regions.iter().filter(|r| r.hemisphere == Hemisphere::Left).count();
            assert!(left.abs_diff(count - left) <= 2 + count / 50, "{left} of {count} on the left");
            for (some, all) in layout.members.iter().zip(&whole.members) {
                let fair = all.len() as f64 * count as f64 / 450.0;
                assert!((some.len() as f64 - fair).abs() <= 2.0 + 0.05 * fair, "{} of {fair}", some.len());
            }
        }
        assert!(Layout::new(8).members.iter().all(|m| m.len() == 1));
    }
}
