//! Regions by network: their order in maps, and values summarised per network and on a glass brain.

use bdo_data::region::Region;

use crate::brain::glass_brain;
use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::palette::{Colour, ColourScale};
use crate::scale::{ends, number};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) rows: Vec<usize>,
    pub(crate) groups: Vec<(String, usize)>,
}

pub(crate) fn title_of(region: &Region) -> String {
    region.network.as_ref().map_or_else(|| region.name.clone(), |network| format!("{} ({network})", region.name))
}

/// The network of a region; its hemisphere where the atlas has none.
pub(crate) fn network_of(region: &Region) -> String {
    let side = || {
        let name = region.name.to_lowercase();
        let is = |mark: &str| {
            name.contains(&format!("-{mark}-"))
                || name.contains(&format!("_{mark}_"))
                || name.starts_with(&format!("{mark}_"))
                || name.ends_with(&format!("-{mark}"))
        };
        match region.hemisphere.as_deref() {
            Some("L") => "left".into(),
            Some("R") => "right".into(),
            _ if is("lh") || is("l") => "left".into(),
            _ if is("rh") || is("r") => "right".into(),
            _ => "all regions".to_owned(),
        }
    };
    region.network.clone().unwrap_or_else(side)
}

impl Order {
    /// By network, and in the order of the atlas within one.
    pub(crate) fn of(regions: &[Region]) -> Self {
        let networks: Vec<String> = regions.iter().map(network_of).collect();
        let mut rows: Vec<usize> = (0..regions.len()).collect();
        rows.sort_by(|a, b| networks[*a].cmp(&networks[*b]));
        let mut groups: Vec<(String, usize)> = vec![];
        for r in &rows {
            match groups.last_mut().filter(|g| g.0 == networks[*r]) {
                Some(group) => group.1 += 1,
                None => groups.push((networks[*r].clone(), 1)),
            }
        }
        Self { rows, groups }
    }
}

pub const NO_COORDINATES: &str = "The atlas of this cohort has no coordinates, so no glass brain can be drawn; an atlas image with coordinates is given at ingest:";

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RegionValues {
    pub name: String,
    pub title: String,
    pub caption: String,
    pub unit: String,
    /// NaN where a value is not known.
    pub values: Vec<f64>,
}

/// A summary by network, and a glass brain where the atlas has coordinates.
pub fn network_figures(regions: &[Region], found: &RegionValues) -> Vec<Figure> {
    let order = Order::of(regions);
    let names: Vec<String> = order.groups.iter().map(|g| g.0.clone()).collect();
    let (mut each, mut middle, mut start) = (vec![], vec![], 0);
    for (place, (name, count)) in order.groups.iter().enumerate() {
        let mut values = vec![];
        for (i, r) in order.rows[start..start + count].iter().enumerate() {
            let value = found.values.get(*r).copied().unwrap_or(f64::NAN);
            // Side by side, so that equal values do not hide each other.
            let aside = (i as f64 / (*count).max(2) as f64 - 0.5) * 0.5;
            let note = format!("{} ({name}): {} {}", regions[*r].name, number(value), found.unit);
            each.push(Point::at(place as f64 + aside, value).noted(note));
            if value.is_finite() {
                values.push(value);
            }
        }
        start += count;
        values.sort_by(f64::total_cmp);
        if !values.is_empty() {
            let [low, median, high] =
                [0.25, 0.5, 0.75].map(|share| values[((values.len() - 1) as f64 * share).round() as usize]);
            let (a, b, c) = (number(median), number(low), number(high));
            let note = format!("{name}: median {a} {}, quartiles {b} and {c}", found.unit);
            middle.push(Point::at(place as f64, median).between((low, high)).noted(note));
        }
    }
    if middle.is_empty() {
        return vec![];
    }
    let chart = Chart::new("", Axis::of_names("", names), Axis::linear(found.unit.clone()))
        .with("a region", Colour::Kind(4), Marks::Dots, each)
        .with("median and quartiles", Colour::Kind(1), Marks::UpAndDown, middle)
        .sized(640.0, 340.0);
    let (name, title) = (format!("{}-networks", found.name), format!("{} by network", found.title));
    let summary = Figure::of_charts(name, title, found.caption.clone(), &[chart], 1);
    let (low, high) = ends(found.values.iter().copied());
    let scale = if low < 0.0 { ColourScale::Around(low.abs().max(high)) } else { ColourScale::Between(low, high) };
    let found = RegionValues {
        name: format!("{}-brain", found.name),
        title: format!("{} on a glass brain", found.title),
        ..found.clone()
    };
    std::iter::once(summary).chain(glass_brain(regions, &found, scale)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_lie_by_network_and_else_by_side() {
        let mut regions: Vec<Region> = ["a", "b", "c"].map(Region::named).into();
        regions[0].network = Some("z".into());
        regions[1].network = Some("d".into());
        regions[2].network = Some("z".into());
        let order = Order::of(&regions);
        assert_eq!(order.rows, [1, 0, 2]);
        assert_eq!(order.groups, [("d".to_owned(), 1), ("z".to_owned(), 2)]);
        assert_eq!(network_of(&Region::named("ctx-lh-cuneus")), "left");
        assert_eq!(network_of(&Region::named("cc200-1")), "all regions");
    }

    #[test]
    fn the_median_of_each_network_is_drawn() {
        let mut regions: Vec<Region> = (0..6).map(|i| Region::named(format!("r{i}"))).collect();
        regions.iter_mut().enumerate().for_each(|(i, r)| r.network = Some(if i < 3 { "a" } else { "b" }.into()));
        let found = RegionValues {
            name: "x".into(),
            title: "X".into(),
            caption: String::new(),
            unit: "s".into(),
            values: vec![1.0, 2.0, 3.0, 10.0, 20.0, f64::NAN],
        };
        let figures = network_figures(&regions, &found);
        assert_eq!(figures.len(), 1, "no coordinates, no brain");
        assert!(figures[0].csv.contains("a: median 2 s"));
    }
}
