//! The regions of Schaefer-400 (7 networks) + Tian S3: names, networks, hemispheres and centroids.
//!
//! The table is made by `tools/reference/make_atlas_table.py`; its order is the order of the atlas ids,
//! 1-50 subcortical and 51-450 cortical, which is the column order every cohort of this atlas uses.

pub mod image;
mod label_table;
mod side;

pub(crate) use label_table::{colour_pairs, lines_of};
pub use side::{check_space, side_of_name, space_of_name};

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("schaefer400_tian3.tsv");

/// The 450 regions in atlas order.
pub fn schaefer400_tian3() -> &'static [Region] {
    static REGIONS: LazyLock<Vec<Region>> = LazyLock::new(|| {
        type Row = (u32, String, Network, Hemisphere, f64, f64, f64);
        let region = |row: csv::Result<Row>| {
            let (_, name, network, hemisphere, x, y, z) = row.expect("the table is part of the build and was tested");
            Region { name, network, hemisphere, centroid_mm: Some([x, y, z]) }
        };
        csv::ReaderBuilder::new().delimiter(b'\t').from_reader(TABLE.as_bytes()).deserialize().map(region).collect()
    });
    &REGIONS
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    pub name: String,
    /// The functional network, or the subcortex.
    pub network: Network,
    pub hemisphere: Hemisphere,
    /// The centre of mass of the label in `MNI152NLin6Asym` space; absent for regions no atlas defines.
    pub centroid_mm: Option<[f64; 3]>,
}

/// The seven cortical networks of the Schaefer atlas, and the subcortex as an eighth group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Network {
    Vis,
    SomMot,
    DorsAttn,
    SalVentAttn,
    Limbic,
    Cont,
    Default,
    Subcortical,
}

impl Network {
    /// Every network, in the order used for indices.
    pub const ALL: [Network; 8] = [
        Network::Vis,
        Network::SomMot,
        Network::DorsAttn,
        Network::SalVentAttn,
        Network::Limbic,
        Network::Cont,
        Network::Default,
        Network::Subcortical,
    ];

    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The side of the brain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Hemisphere {
    /// Left: negative x in MNI space.
    #[serde(rename = "L")]
    Left,
    /// Right: positive x in MNI space.
    #[serde(rename = "R")]
    Right,
}

impl fmt::Display for Hemisphere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hemisphere::Left => "L",
            Hemisphere::Right => "R",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_the_450_regions_in_atlas_order() {
        let regions = schaefer400_tian3();
        assert_eq!(regions.len(), 450);
        assert_eq!(TABLE.lines().count(), 451);
        assert_eq!(regions[0].name, "HIP-head-m-rh");
        assert_eq!(regions[50].name, "7Networks_LH_Vis_1");
        assert_eq!(regions[449].name, "7Networks_RH_Default_pCunPCC_9");
        assert!(regions[..50].iter().all(|r| r.network == Network::Subcortical));
        assert!(regions[50..].iter().all(|r| r.network != Network::Subcortical));
        for (row, line) in TABLE.lines().skip(1).enumerate() {
            assert!(line.starts_with(&format!("{}\t", row + 1)), "row {row} is out of order");
        }
    }

    #[test]
    fn names_are_unique_and_agree_with_network_and_side() {
        let regions = schaefer400_tian3();
        let names: std::collections::BTreeSet<_> = regions.iter().map(|r| &r.name).collect();
        assert_eq!(names.len(), 450);
        for region in regions {
            let [x, y, z] = region.centroid_mm.expect("every atlas region has a place");
            assert_eq!(x < 0.0, region.hemisphere == Hemisphere::Left, "{}", region.name);
            assert!(x.abs() < 75.0 && (-110.0..75.0).contains(&y) && (-60.0..85.0).contains(&z));
            if region.network != Network::Subcortical {
                assert!(region.name.contains(&region.network.to_string()), "{}", region.name);
                assert!(region.name.contains(&format!("_{}H_", region.hemisphere)));
            }
        }
    }

    #[test]
    fn networks_have_their_known_sizes() {
        let count = |network| schaefer400_tian3().iter().filter(|r| r.network == network).count();
        assert_eq!(Network::ALL.map(count), [61, 77, 46, 47, 26, 52, 91, 50]);
    }
}
