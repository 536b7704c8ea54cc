//! A glass brain: one value per region at its centre, seen from above, from the left and from behind.

use std::fmt::Write;

use bdo_data::region::Region;

use crate::escape;
use crate::figure::Figure;
use crate::heatmap::colour_bar;
use crate::network::{RegionValues, title_of};
use crate::palette::ColourScale;
use crate::scale::number;
use crate::svg;

const PIXELS: f64 = 1.55;
const GAP: f64 = 26.0;
const TOP: f64 = 46.0;

/// Outlines in millimetres of MNI space, drawn by hand around the centres of cortical regions, for orientation only; pairs
/// of coordinates. The right half from above, front to back: x to the right, y to the front.
const ABOVE: [f64; 22] = [
    0.0, 71.0, 20.0, 71.0, 40.0, 60.0, 54.0, 38.0, 63.0, 12.0, 69.0, -18.0, 67.0, -48.0, 55.0, -76.0, 36.0, -98.0,
    16.0, -107.0, 0.0, -102.0,
];
/// The complete outline from the left: y to the front, z up.
const SIDE: [f64; 36] = [
    73.0, 4.0, 70.0, 26.0, 56.0, 50.0, 32.0, 68.0, 4.0, 78.0, -30.0, 80.0, -62.0, 68.0, -90.0, 42.0, -106.0, 10.0,
    -104.0, -12.0, -92.0, -24.0, -84.0, -46.0, -62.0, -56.0, -42.0, -50.0, -22.0, -36.0, 6.0, -44.0, 24.0, -34.0, 52.0,
    -22.0,
];
/// The right half from behind, top to bottom: x to the right, z up.
const BEHIND: [f64; 18] =
    [0.0, 74.0, 16.0, 80.0, 40.0, 70.0, 58.0, 46.0, 68.0, 14.0, 66.0, -16.0, 54.0, -42.0, 28.0, -54.0, 0.0, -48.0];

struct View {
    title: &'static str,
    /// Words at the left and the right edge.
    sides: (&'static str, &'static str),
    /// Coordinates (0 to 2 for x, y and z) across, up and towards the viewer, with their signs. Near regions are drawn last.
    axes: [(usize, f64); 3],
    /// Left, right, low and high end in millimetres.
    ends: [f64; 4],
    outline: fn() -> Vec<(f64, f64)>,
}

const VIEWS: [View; 3] = [
    view("from above", ("L", "R"), [(0, 1.0), (1, 1.0), (2, 1.0)], [-75.0, 75.0, -112.0, 80.0], || both_sides(&ABOVE)),
    view("from the left", ("front", "back"), [(1, -1.0), (2, 1.0), (0, -1.0)], [-80.0, 112.0, -62.0, 86.0], || {
        pairs(&SIDE).map(|(y, z)| (-y, z)).collect()
    }),
    view("from behind", ("L", "R"), [(0, 1.0), (2, 1.0), (1, -1.0)], [-75.0, 75.0, -62.0, 86.0], || {
        both_sides(&BEHIND)
    }),
];

const fn view(
    title: &'static str,
    sides: (&'static str, &'static str),
    axes: [(usize, f64); 3],
    ends: [f64; 4],
    outline: fn() -> Vec<(f64, f64)>,
) -> View {
    View { title, sides, axes, ends, outline }
}

fn pairs(flat: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    flat.chunks(2).map(|pair| (pair[0], pair[1]))
}

/// A half with its mirror image.
fn both_sides(half: &[f64]) -> Vec<(f64, f64)> {
    let inner: Vec<(f64, f64)> = pairs(&half[2..half.len() - 2]).map(|(x, y)| (-x, y)).collect();
    pairs(half).chain(inner.into_iter().rev()).collect()
}

/// Draws the values of regions; `None` where no region has coordinates.
pub(crate) fn glass_brain(regions: &[Region], found: &RegionValues, scale: ColourScale) -> Option<Figure> {
    let (values, unit) = (&found.values, &found.unit);
    let place = |(i, region): (usize, &Region)| Some((i, region.centroid_mm?));
    let placed: Vec<(usize, [f64; 3])> = regions.iter().take(values.len()).enumerate().filter_map(place).collect();
    if placed.is_empty() {
        return None;
    }
    let (mut out, mut x, mut tallest) = (String::new(), 16.0, 0.0f64);
    for View { title, sides, axes, ends: [left, right, low, high], outline } in &VIEWS {
        let at = |(across, up): (f64, f64)| (x + (across - left) * PIXELS, TOP + (high - up) * PIXELS);
        let width = (right - left) * PIXELS;
        svg::text(&mut out, (x, 18.0), r#"font-weight="bold""#, title);
        let outline: Vec<(f64, f64)> = outline().into_iter().map(at).collect();
        let path = smooth(&outline);
        let _ = write!(out, r##"<path class="shell" fill="none" stroke="#77777f" stroke-width="1.5" d="{path}"/>"##);
        svg::soft_text(&mut out, (x, 36.0), r#"font-size="12""#, sides.0);
        svg::soft_text(&mut out, (x + width, 36.0), r#"font-size="12" text-anchor="end""#, sides.1);
        let [across, up, depth] = axes.map(|(axis, sign)| move |mm: [f64; 3]| sign * mm[axis]);
        let mut order = placed.clone();
        order.sort_by(|a, b| depth(a.1).total_cmp(&depth(b.1)));
        for (i, mm) in order {
            let (cx, cy) = at((across(mm), up(mm)));
            let text = escape::html(&format!("{}: {} {unit}", title_of(&regions[i]), number(values[i])));
            let fill = scale.css(values[i]);
            let _ = write!(
                out,
                r##"<circle cx="{cx:.1}" cy="{cy:.1}" r="4.6" fill="{fill}" fill-opacity="0.85" stroke="#333" stroke-width="0.4" data-t="{text}"/>"##
            );
        }
        x += width + GAP;
        tallest = tallest.max((high - low) * PIXELS);
    }
    let bottom = TOP + tallest - 4.0;
    svg::axis(&mut out, r#"stroke-width="2""#, &format!("M{:.1} {bottom:.1}h{:.1}", x - 200.0, 50.0 * PIXELS));
    svg::soft_text(&mut out, (x - 200.0, bottom - 6.0), r#"font-size="12""#, "50 mm");
    let width = x + colour_bar(&mut out, scale, unit, (x, TOP, 150.0)) + 6.0;
    let mut csv = "region,network,hemisphere,x_mm,y_mm,z_mm,value\n".to_owned();
    for (i, [mm_x, mm_y, mm_z]) in placed {
        let Region { name, network, hemisphere, .. } = &regions[i];
        let [mm_x, mm_y, mm_z, value] = [mm_x, mm_y, mm_z, values[i]].map(|x| x.to_string());
        let [network, side] = [network, hemisphere].map(|text| text.as_deref().unwrap_or(""));
        csv += &escape::csv_line([name.as_str(), network, side, &mm_x, &mm_y, &mm_z, &value]);
    }
    let svg = svg::wrap(&out, width, TOP + tallest + 10.0, &found.title);
    let RegionValues { name, title, caption, .. } = found.clone();
    Some(Figure { name, title, caption, svg, csv, wide: true })
}

/// A closed curve through all points (Catmull-Rom pieces as Bezier curves).
fn smooth(points: &[(f64, f64)]) -> String {
    let n = points.len();
    let p = |i: usize| points[i % n];
    let mut path = format!("M{:.1} {:.1}", points[0].0, points[0].1);
    for i in 0..n {
        let (before, from, to, after) = (p(i + n - 1), p(i), p(i + 1), p(i + 2));
        let a = (from.0 + (to.0 - before.0) / 6.0, from.1 + (to.1 - before.1) / 6.0);
        let b = (to.0 - (after.0 - from.0) / 6.0, to.1 - (after.1 - from.1) / 6.0);
        let _ = write!(path, "C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}", a.0, a.1, b.0, b.1, to.0, to.1);
    }
    path + "Z"
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_placed_region_is_in_all_three_views_and_the_left_is_left() {
        let mut regions = vec![Region::named("left"), Region::named("nowhere"), Region::named("right")];
        regions[0].centroid_mm = Some([-40.0, 0.0, 10.0]);
        regions[2].centroid_mm = Some([40.0, 0.0, 10.0]);
        let found = RegionValues { values: vec![0.1, 0.2, 0.3], ..RegionValues::default() };
        let figure = glass_brain(&regions, &found, ColourScale::Between(0.0, 1.0)).unwrap();
        assert_eq!(figure.svg.matches("<circle").count(), 6);
        assert_eq!(figure.csv.lines().count(), 3);
        let place = |name: &str| {
            let circle = figure.svg.split("<circle ").find(|c| c.contains(&format!("data-t=\"{name}:"))).unwrap();
            circle.split('"').nth(1).unwrap().parse::<f64>().unwrap()
        };
        assert!(place("left") < place("right"));
        assert_eq!(glass_brain(&regions[1..2], &found, ColourScale::Around(1.0)), None);
    }
}
