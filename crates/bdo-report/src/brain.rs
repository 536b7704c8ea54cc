//! A glass brain: a value for each region at its place, seen from above, from the left and from behind.

use std::fmt::Write;

use bdo_data::region::Region;

use crate::chart::wrap;
use crate::escape;
use crate::figure::Figure;
use crate::heatmap::colour_bar;
use crate::palette::ColourScale;
use crate::scale::number;

/// Pixels of a millimetre.
const PIXELS: f64 = 1.55;
const GAP: f64 = 26.0;
const TOP: f64 = 46.0;

/// Outlines in millimetres of MNI space, drawn by hand around the centres of cortical regions; only to find one's way.
/// The right half from above, front to back: x to the right, y to the front.
const ABOVE: [(f64, f64); 11] = [
    (0.0, 71.0),
    (20.0, 71.0),
    (40.0, 60.0),
    (54.0, 38.0),
    (63.0, 12.0),
    (69.0, -18.0),
    (67.0, -48.0),
    (55.0, -76.0),
    (36.0, -98.0),
    (16.0, -107.0),
    (0.0, -102.0),
];
/// The whole outline from the left side of the head: y to the front, z up.
const SIDE: [(f64, f64); 18] = [
    (73.0, 4.0),
    (70.0, 26.0),
    (56.0, 50.0),
    (32.0, 68.0),
    (4.0, 78.0),
    (-30.0, 80.0),
    (-62.0, 68.0),
    (-90.0, 42.0),
    (-106.0, 10.0),
    (-104.0, -12.0),
    (-92.0, -24.0),
    (-84.0, -46.0),
    (-62.0, -56.0),
    (-42.0, -50.0),
    (-22.0, -36.0),
    (6.0, -44.0),
    (24.0, -34.0),
    (52.0, -22.0),
];
/// The right half from behind, top to bottom: x to the right, z up.
const BEHIND: [(f64, f64); 9] = [
    (0.0, 74.0),
    (16.0, 80.0),
    (40.0, 70.0),
    (58.0, 46.0),
    (68.0, 14.0),
    (66.0, -16.0),
    (54.0, -42.0),
    (28.0, -54.0),
    (0.0, -48.0),
];

/// A half with its mirror image.
fn both_sides(half: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let inner = &half[1..half.len() - 1];
    half.iter().copied().chain(inner.iter().rev().map(|(x, y)| (-x, *y))).collect()
}

/// One of the three views.
struct View {
    title: &'static str,
    outline: fn() -> Vec<(f64, f64)>,
    /// Millimetres to places: across and up.
    axes: fn([f64; 3]) -> (f64, f64),
    /// Ends across and up in millimetres.
    ends: (f64, f64, f64, f64),
    /// Words at the left and the right edge.
    sides: (&'static str, &'static str),
    /// Which coordinate is nearer to the eye if larger, and its sign: near regions are drawn last.
    depth: fn([f64; 3]) -> f64,
}

const VIEWS: [View; 3] = [
    View {
        title: "from above",
        outline: || both_sides(&ABOVE),
        axes: |[x, y, _]| (x, y),
        ends: (-75.0, 75.0, -112.0, 80.0),
        sides: ("L", "R"),
        depth: |[_, _, z]| z,
    },
    View {
        title: "from the left",
        outline: || SIDE.iter().map(|(y, z)| (-y, *z)).collect(),
        axes: |[_, y, z]| (-y, z),
        ends: (-80.0, 112.0, -62.0, 86.0),
        sides: ("front", "back"),
        depth: |[x, _, _]| -x,
    },
    View {
        title: "from behind",
        outline: || both_sides(&BEHIND),
        axes: |[x, _, z]| (x, z),
        ends: (-75.0, 75.0, -62.0, 86.0),
        sides: ("L", "R"),
        depth: |[_, y, _]| -y,
    },
];

/// Draws a value for each region; `None` where no region has a place.
pub fn glass_brain(
    name: &str,
    title: &str,
    caption: &str,
    regions: &[Region],
    values: &[f64],
    scale: ColourScale,
    unit: &str,
) -> Option<Figure> {
    let placed: Vec<(usize, [f64; 3])> = regions
        .iter()
        .enumerate()
        .filter_map(|(i, r)| Some((i, r.centroid_mm?)))
        .filter(|(i, _)| *i < values.len())
        .collect();
    if placed.is_empty() {
        return None;
    }
    let (mut svg, mut x, mut tallest) = (String::new(), 16.0, 0.0f64);
    for view in &VIEWS {
        let (left, right, low, high) = view.ends;
        let at = |(across, up): (f64, f64)| (x + (across - left) * PIXELS, TOP + (high - up) * PIXELS);
        let _ = write!(
            svg,
            r##"<text class="ink" fill="#1b1b1f" font-weight="bold" x="{x:.1}" y="18">{}</text>"##,
            view.title
        );
        let outline: Vec<(f64, f64)> = (view.outline)().into_iter().map(at).collect();
        let _ = write!(
            svg,
            r##"<path class="shell" fill="none" stroke="#77777f" stroke-width="1.5" d="{}"/>"##,
            smooth(&outline)
        );
        let _ = write!(
            svg,
            r##"<text class="soft" fill="#55555c" font-size="12" x="{:.1}" y="36">{}</text><text class="soft" fill="#55555c" font-size="12" x="{:.1}" y="36" text-anchor="end">{}</text>"##,
            x,
            view.sides.0,
            x + (right - left) * PIXELS,
            view.sides.1
        );
        let mut order = placed.clone();
        order.sort_by(|a, b| (view.depth)(a.1).total_cmp(&(view.depth)(b.1)));
        for (i, mm) in order {
            let (cx, cy) = at((view.axes)(mm));
            let text = escape::html(&format!(
                "{}{}: {} {unit}",
                regions[i].name,
                regions[i].network.as_ref().map_or_else(String::new, |n| format!(" ({n})")),
                number(values[i])
            ));
            let _ = write!(
                svg,
                r##"<circle cx="{cx:.1}" cy="{cy:.1}" r="4.6" fill="{}" fill-opacity="0.85" stroke="#333" stroke-width="0.4" data-t="{text}"/>"##,
                scale.css(values[i])
            );
        }
        x += (right - left) * PIXELS + GAP;
        tallest = tallest.max((high - low) * PIXELS);
    }
    let bottom = TOP + tallest - 4.0;
    let _ = write!(
        svg,
        r##"<path class="axis" stroke="#77777f" stroke-width="2" d="M{:.1} {bottom:.1}h{:.1}"/><text class="soft" fill="#55555c" font-size="12" x="{:.1}" y="{:.1}">50 mm</text>"##,
        x - 200.0,
        50.0 * PIXELS,
        x - 200.0,
        bottom - 6.0
    );
    colour_bar(&mut svg, scale, unit, (x, TOP, 150.0));
    let mut csv = "region,network,hemisphere,x_mm,y_mm,z_mm,value\n".to_owned();
    for (i, [mm_x, mm_y, mm_z]) in &placed {
        let region = &regions[*i];
        let text = |t: &Option<String>| escape::csv(t.as_deref().unwrap_or(""));
        let _ = writeln!(
            csv,
            "{},{},{},{mm_x},{mm_y},{mm_z},{}",
            escape::csv(&region.name),
            text(&region.network),
            text(&region.hemisphere),
            values[*i]
        );
    }
    Some(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        svg: wrap(&svg, x + 70.0, TOP + tallest + 10.0, title),
        csv,
        command: String::new(),
        wide: true,
    })
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
        let figure =
            glass_brain("b", "t", "c", &regions, &[0.1, 0.2, 0.3], ColourScale::Between(0.0, 1.0), "u").unwrap();
        assert_eq!(figure.svg.matches("<circle").count(), 6);
        assert_eq!(figure.csv.lines().count(), 3);
        let place = |name: &str| {
            let circle = figure.svg.split("<circle ").find(|c| c.contains(&format!("data-t=\"{name}:"))).unwrap();
            circle.split('"').nth(1).unwrap().parse::<f64>().unwrap()
        };
        assert!(place("left") < place("right"));
        assert_eq!(glass_brain("b", "t", "c", &regions[1..2], &[0.1], ColourScale::Around(1.0), "u"), None);
    }
}
