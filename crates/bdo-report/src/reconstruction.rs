//! Hidden frames and their reconstruction: maps of scans, and traces of single regions.

use bdo_data::region::Region;
use bdo_data::shard::spread;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::escape;
use crate::figure::Figure;
use crate::heatmap::{HeatMap, NAMES};
use crate::network::{Order, network_of, title_of};
use crate::palette::{Colour, ColourScale};
use crate::svg;

const WIDTH: f64 = 205.0;
const HEIGHT: f64 = 150.0;
const GAP: f64 = 16.0;
const ROW: f64 = HEIGHT + 84.0;
/// Full colour of a signal, and of an error, in inter-quartile ranges.
const LIMIT: f64 = 1.5;
/// Most traces shown: the first region of each network in the atlas, so that none is picked for its looks.
const MOST_TRACES: usize = 8;

/// One visit of a scan. Tables are row-major [frames, regions], in inter-quartile ranges of training people.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconstructedScan {
    pub name: String,
    /// Per drawn frame, its time since the first one and whether the model saw it.
    pub frames: Vec<(f64, bool)>,
    /// Which regions carry a signal.
    pub region_valid: Vec<bool>,
    pub original: Vec<f32>,
    pub predicted: Vec<f32>,
    /// Standard deviation of each prediction, where it was computed.
    pub deviation: Option<Vec<f32>>,
}

impl ReconstructedScan {
    fn regions(&self) -> usize {
        self.region_valid.len()
    }

    fn pair(&self, t: usize, r: usize) -> (f64, f64) {
        let at = t * self.regions() + r;
        (f64::from(self.original[at]), f64::from(self.predicted[at]))
    }

    pub fn error(&self) -> (f64, f64) {
        let (mut error, mut square, mut count) = (0.0, 0.0, 0usize);
        for (t, _) in self.frames.iter().enumerate().filter(|(_, (_, seen))| !seen) {
            for (r, _) in self.region_valid.iter().enumerate().filter(|(_, valid)| **valid) {
                let (a, b) = self.pair(t, r);
                error += (a - b).powi(2);
                square += a * a;
                count += 1;
            }
        }
        let n = count.max(1) as f64;
        (error / n, square / n)
    }

    /// Whether the drawn frames follow each other at equal steps of time, to a hundredth.
    fn is_evenly_spaced(&self) -> bool {
        let steps = || self.frames.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let first = steps().next().unwrap_or(0.0);
        steps().all(|step| (step - first).abs() <= 0.01 * first)
    }

    /// Regions down in order, frames across; `of` gives a value for a position in the tables and its frame.
    fn map(&self, order: &Order, of: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.original.len());
        for r in &order.rows {
            let value = |t| if self.region_valid[*r] { of(t * self.regions() + r, t) } else { f32::NAN };
            values.extend((0..self.frames.len()).map(value));
        }
        values
    }
}

/// Original, visible part, reconstruction and absolute error of each scan, regions grouped by network.
pub fn reconstruction_figure(scans: &[ReconstructedScan], regions: &[Region]) -> Option<Figure> {
    let fits = |s: &&ReconstructedScan| s.regions() == regions.len() && s.predicted.len() == s.original.len();
    let scans: Vec<&ReconstructedScan> = scans.iter().filter(fits).collect();
    if scans.is_empty() {
        return None;
    }
    let order = Order::of(regions);
    let left = NAMES + 8.0;
    let (mut out, mut width) = (String::new(), 0.0);
    for (row, scan) in scans.iter().enumerate() {
        let (error, square) = scan.error();
        let y = 44.0 + ROW * row as f64;
        let name = escape::shortened(&scan.name, 60);
        let title = format!("{name}: error {error:.3} at hidden frames, mean square {square:.3}");
        svg::text(&mut out, (left, y - 26.0), r#"font-weight="bold""#, &title);
        let signal = ColourScale::Around(LIMIT);
        let seen = |at: usize, t: usize| if scan.frames[t].1 { scan.original[at] } else { f32::NAN };
        let maps = [
            ("original", signal, scan.map(&order, |at, _| scan.original[at])),
            ("seen by the model", signal, scan.map(&order, seen)),
            ("reconstruction", signal, scan.map(&order, |at, _| scan.predicted[at])),
            (
                "absolute error",
                ColourScale::Between(0.0, LIMIT),
                scan.map(&order, |at, _| (scan.original[at] - scan.predicted[at]).abs()),
            ),
        ];
        let mut x = left;
        for (column, (title, scale, values)) in maps.into_iter().enumerate() {
            let map = HeatMap {
                title: title.into(),
                values,
                columns: scan.frames.len(),
                scale,
                groups: &order.groups,
                across: Some(("drawn frame", 0.0, scan.frames.len() as f64)),
                // The colour bar of the signal stands behind the third map, that of the error behind the fourth.
                unit: if column >= 2 { "inter-quartile ranges" } else { "" },
            };
            x = map.draw(&mut out, (x, y), (WIDTH, HEIGHT), column == 0) + GAP;
        }
        width = x;
    }
    let spacing = if scans.iter().all(|s| s.is_evenly_spaced()) { "equally" } else { "not equally" };
    Some(Figure {
        name: "reconstruction".into(),
        title: "Hidden frames and their reconstruction".into(),
        caption: format!(
            "{} scans: drawn frames across ({spacing} spaced in time), regions down, grouped by network. Grey is hidden from the model, or a region without a signal. Values are centred on visible frames and divided by the inter-quartile range of training people. The CSV holds means over networks.",
            scans.len()
        ),
        svg: svg::wrap(&out, width, 24.0 + ROW * scans.len() as f64, "reconstruction panels"),
        csv: network_means(&scans, &order),
        wide: true,
    })
}

fn network_means(scans: &[&ReconstructedScan], order: &Order) -> String {
    let mut csv = "scan,frame,time_s,seen,network,original,reconstruction,absolute_error\n".to_owned();
    for scan in scans {
        for (t, (time, seen)) in scan.frames.iter().enumerate() {
            let mut start = 0;
            for (network, count) in &order.groups {
                let rows = order.rows[start..start + count].iter().filter(|r| scan.region_valid[**r]);
                start += count;
                let (mut sums, mut n) = ([0.0f64; 3], 0.0);
                for r in rows {
                    let (a, b) = scan.pair(t, *r);
                    [a, b, (a - b).abs()].into_iter().zip(&mut sums).for_each(|(x, s)| *s += x);
                    n += 1.0;
                }
                if n > 0.0 {
                    let [a, b, error] = sums.map(|sum| format!("{:.4}", sum / n));
                    let [t, time, seen] = [t.to_string(), format!("{time:.3}"), seen.to_string()];
                    csv += &escape::csv_line([&scan.name, &t, &time, &seen, network, &a, &b, &error]);
                }
            }
        }
    }
    csv
}

/// Traces of one region of each network, with a band of two standard deviations where they are known.
pub fn trace_figure(scan: &ReconstructedScan, regions: &[Region]) -> Option<Figure> {
    if scan.regions() != regions.len() || scan.frames.is_empty() {
        return None;
    }
    let (mut networks, mut chosen) = (vec![], vec![]);
    for (r, region) in regions.iter().enumerate().filter(|(r, _)| scan.region_valid[*r]) {
        let network = network_of(region);
        if !networks.contains(&network) {
            networks.push(network);
            chosen.push(r);
        }
    }
    // An atlas without networks: regions evenly spread over it.
    if chosen.len() < 4 {
        let valid: Vec<usize> = (0..regions.len()).filter(|r| scan.region_valid[*r]).collect();
        chosen = spread(&valid, 6);
    }
    let trace = |r: usize| {
        let points = |of: &dyn Fn(usize, f64, bool) -> Option<Point>| -> Vec<Point> {
            scan.frames.iter().enumerate().filter_map(|(t, (time, seen))| of(t, *time, *seen)).collect()
        };
        let title = title_of(&regions[r]);
        let mut chart = Chart::new(title, Axis::linear("time (s)"), Axis::linear("inter-quartile ranges"));
        if let Some(deviation) = &scan.deviation {
            let band = points(&|t, time, _| {
                let (middle, wide) = (scan.pair(t, r).1, 2.0 * f64::from(deviation[t * scan.regions() + r]));
                Some(Point::at(time, middle).between((middle - wide, middle + wide)))
            });
            chart = chart.with("two standard deviations", Colour::Kind(0), Marks::Band, band);
        }
        let line = points(&|t, time, _| Some(Point::at(time, scan.pair(t, r).1)));
        let dots = |which: bool| points(&|t, time, seen| (seen == which).then(|| Point::at(time, scan.pair(t, r).0)));
        chart
            .with("reconstruction", Colour::Kind(0), Marks::Line, line)
            .with("hidden", Colour::Kind(1), Marks::Dots, dots(false))
            .with("seen", Colour::Kind(2), Marks::Dots, dots(true))
            .sized(520.0, 250.0)
    };
    let charts: Vec<Chart> = chosen.into_iter().take(MOST_TRACES).map(trace).collect();
    let band = if scan.deviation.is_some() {
        "The band is two standard deviations of the latent process, carried through the decoder; measurement noise is not included."
    } else {
        "No deviations were computed for these predictions."
    };
    let caption = format!(
        "{}: one region of each network (the first in the atlas), or regions evenly spread over an atlas without networks. Only the frames marked as seen were given to the model. {band}",
        scan.name
    );
    Some(Figure::of_charts("traces", "Traces of single regions", caption, &charts, 2))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn scan(deviation: bool) -> ReconstructedScan {
        ReconstructedScan {
            name: "s".into(),
            frames: vec![(0.0, true), (1.0, false), (3.0, true)],
            region_valid: vec![true, true, false],
            original: vec![1.0, 2.0, 9.0, 1.0, 2.0, 9.0, 1.0, 2.0, 9.0],
            predicted: vec![1.0, 2.0, 0.0, 2.0, 2.0, 0.0, 1.0, 2.0, 0.0],
            deviation: deviation.then(|| vec![0.5; 9]),
        }
    }

    fn regions() -> Vec<Region> {
        ["a", "b", "c"].map(Region::named).into()
    }

    #[test]
    fn errors_are_those_of_hidden_frames_and_valid_regions() {
        assert_eq!(scan(false).error(), (0.5, 2.5));
    }

    #[test]
    fn four_maps_a_scan_and_no_panic_where_sizes_disagree() {
        let figure = reconstruction_figure(&[scan(false), scan(false)], &regions()).unwrap();
        assert_eq!(figure.svg.matches("<image").count(), 8);
        assert_eq!(figure.csv.lines().count(), 1 + 2 * 3);
        assert!(figure.caption.contains("(not equally spaced"), "{}", figure.caption);
        assert_eq!(reconstruction_figure(&[scan(false)], &regions()[..2]), None);
        assert_eq!(trace_figure(&scan(false), &regions()[..2]), None);
    }

    #[test]
    fn a_band_is_drawn_where_deviations_are_known() {
        let with = trace_figure(&scan(true), &regions()).unwrap();
        let without = trace_figure(&scan(false), &regions()).unwrap();
        assert!(with.svg.contains("two standard deviations") && !without.svg.contains("two standard deviations"));
        // The band of the first frame: 1 - 2 * 0.5 to 1 + 2 * 0.5.
        assert!(with.csv.contains("two standard deviations,0,1,0,2"), "{}", with.csv);
    }
}
