//! Which regions a synthetic brain has, and where they lie.

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

#[cfg(test)]
mod tests {
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
