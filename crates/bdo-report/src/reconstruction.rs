//! Hidden frames and what the model makes of them: maps of whole scans, and traces of single regions.

use std::fmt::Write;

use bdo_data::region::Region;

use crate::chart::{Axis, Chart, Marks, Point, wrap};
use crate::escape;
use crate::figure::Figure;
use crate::heatmap::{HeatMap, NAMES, Place};
use crate::network::{Order, network_of};
use crate::palette::{Colour, ColourScale};

const WIDTH: f64 = 205.0;
const HEIGHT: f64 = 150.0;
const GAP: f64 = 16.0;
const ROW: f64 = HEIGHT + 84.0;
/// Full colour of a signal, and of an error, in inter-quartile ranges.
const LIMIT: f64 = 1.5;
/// Traces that are shown; one a network, the first region of it in the atlas, so that none is picked for its looks.
const MOST_TRACES: usize = 8;

/// One visit of a scan: what there was, what was seen, what was predicted. Rows are drawn frames, columns regions.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconstructedScan {
    /// The scan.
    pub name: String,
    /// Times of the drawn frames since the first one.
    pub times_seconds: Vec<f64>,
    /// Which of them the model saw.
    pub context: Vec<bool>,
    /// Which regions carry a signal.
    pub region_valid: Vec<bool>,
    /// Row-major [frames, regions], in inter-quartile ranges of training people.
    pub original: Vec<f32>,
    /// The same, predicted from the frames that were seen.
    pub predicted: Vec<f32>,
    /// Standard deviation of each prediction, where it was computed.
    pub deviation: Option<Vec<f32>>,
}

impl ReconstructedScan {
    fn regions(&self) -> usize {
        self.region_valid.len()
    }

    /// Mean squared error and mean square at hidden frames.
    pub fn error(&self) -> (f64, f64) {
        let (mut error, mut square, mut count) = (0.0, 0.0, 0usize);
        for (t, _) in self.context.iter().enumerate().filter(|(_, seen)| !**seen) {
            for (r, _) in self.region_valid.iter().enumerate().filter(|(_, valid)| **valid) {
                let (a, b) = (
                    f64::from(self.original[t * self.regions() + r]),
                    f64::from(self.predicted[t * self.regions() + r]),
                );
                error += (a - b).powi(2);
                square += a * a;
                count += 1;
            }
        }
        let n = count.max(1) as f64;
        (error / n, square / n)
    }

    /// Regions down in order, frames across; `of` gives a value for a place in the table and its frame.
    fn map(&self, order: &Order, of: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.original.len());
        for r in &order.rows {
            values.extend(
                (0..self.context.len())
                    .map(|t| if self.region_valid[*r] { of(t * self.regions() + r, t) } else { f32::NAN }),
            );
        }
        values
    }
}

/// Original, what was seen, reconstruction and absolute error of each scan, regions grouped by network.
pub fn reconstruction_figure(scans: &[ReconstructedScan], regions: &[Region], command: &str) -> Option<Figure> {
    let fits = |s: &&ReconstructedScan| s.regions() == regions.len() && s.predicted.len() == s.original.len();
    let scans: Vec<&ReconstructedScan> = scans.iter().filter(fits).collect();
    if scans.is_empty() {
        return None;
    }
    let order = Order::of(regions);
    let left = NAMES + 8.0;
    let mut svg = String::new();
    for (row, scan) in scans.iter().enumerate() {
        let (error, square) = scan.error();
        let y = 44.0 + ROW * row as f64;
        let title = format!(
            "{}: error {error:.3} at hidden frames, mean square {square:.3}",
            escape::shortened(&scan.name, 60)
        );
        let _ = write!(
            svg,
            r##"<text class="ink" fill="#1b1b1f" x="{left:.1}" y="{:.1}" font-weight="bold">{}</text>"##,
            y - 26.0,
            escape::html(&title)
        );
        let signal = ColourScale::Around(LIMIT);
        let maps = [
            ("original", signal, scan.map(&order, |at, _| scan.original[at])),
            (
                "seen by the model",
                signal,
                scan.map(&order, |at, t| if scan.context[t] { scan.original[at] } else { f32::NAN }),
            ),
            ("reconstruction", signal, scan.map(&order, |at, _| scan.predicted[at])),
            (
                "absolute error",
                ColourScale::Between(0.0, LIMIT),
                scan.map(&order, |at, _| (scan.original[at] - scan.predicted[at]).abs()),
            ),
        ];
        for (column, (title, scale, values)) in maps.into_iter().enumerate() {
            // The colour bar of the signal stands behind the third map, that of the error behind the fourth.
            let unit = if column >= 2 { "inter-quartile ranges" } else { "" };
            let across = Some(("drawn frame".to_owned(), 0.0, scan.context.len() as f64));
            let map = HeatMap {
                title: title.into(),
                values,
                columns: scan.context.len(),
                scale,
                groups: order.groups.clone(),
                across,
                unit: unit.into(),
            };
            let x = left + (WIDTH + GAP) * column as f64 + if column == 3 { 56.0 } else { 0.0 };
            map.draw(&mut svg, Place { x, y, width: WIDTH, height: HEIGHT }, column == 0);
        }
    }
    Some(Figure {
        name: "reconstruction".into(),
        title: "Hidden frames and their reconstruction".into(),
        caption: format!(
            "{} scans of people the model was not trained on: drawn frames across (not equally spaced in time), regions down, grouped by network. Grey is hidden from the model, or a region without a signal. Values are centred on visible frames and divided by the inter-quartile range of training people. The CSV holds means over networks.",
            scans.len()
        ),
        svg: wrap(&svg, left + 4.0 * (WIDTH + GAP) + 120.0, 24.0 + ROW * scans.len() as f64, "reconstruction panels"),
        csv: network_means(&scans, regions),
        command: command.to_owned(),
        wide: true,
    })
}

fn network_means(scans: &[&ReconstructedScan], regions: &[Region]) -> String {
    let order = Order::of(regions);
    let mut csv = "scan,frame,time_s,seen,network,original,reconstruction,absolute_error\n".to_owned();
    for scan in scans {
        for t in 0..scan.context.len() {
            let mut start = 0;
            for (network, count) in &order.groups {
                let rows = order.rows[start..start + count].iter().filter(|r| scan.region_valid[**r]);
                start += count;
                let (mut sums, mut n) = ([0.0f64; 3], 0.0);
                for r in rows {
                    let (a, b) = (
                        f64::from(scan.original[t * scan.regions() + r]),
                        f64::from(scan.predicted[t * scan.regions() + r]),
                    );
                    [a, b, (a - b).abs()].into_iter().zip(&mut sums).for_each(|(x, s)| *s += x);
                    n += 1.0;
                }
                if n > 0.0 {
                    let _ = writeln!(
                        csv,
                        "{},{t},{:.3},{},{},{:.4},{:.4},{:.4}",
                        escape::csv(&scan.name),
                        scan.times_seconds[t],
                        scan.context[t],
                        escape::csv(network),
                        sums[0] / n,
                        sums[1] / n,
                        sums[2] / n
                    );
                }
            }
        }
    }
    csv
}

/// Traces of one region of each network, with a band of two standard deviations where they are known.
pub fn trace_figure(scan: &ReconstructedScan, regions: &[Region], command: &str) -> Option<Figure> {
    if scan.regions() != regions.len() || scan.times_seconds.is_empty() {
        return None;
    }
    let mut networks: Vec<String> = vec![];
    let mut chosen = vec![];
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
        chosen = (0..valid.len().min(6)).map(|i| valid[i * valid.len() / valid.len().min(6)]).collect();
    }
    let trace = |r: usize| {
        let at = |t: usize| t * scan.regions() + r;
        let points =
            |of: &dyn Fn(usize) -> Option<Point>| (0..scan.context.len()).filter_map(of).collect::<Vec<Point>>();
        let time = |t: usize| scan.times_seconds[t];
        let region = &regions[r];
        let title =
            format!("{}{}", region.name, region.network.as_ref().map_or_else(String::new, |n| format!(" ({n})")));
        let mut chart = Chart::new(title, Axis::linear("time (s)"), Axis::linear("inter-quartile ranges"));
        if let Some(deviation) = &scan.deviation {
            let band = points(&|t| {
                let (middle, wide) = (f64::from(scan.predicted[at(t)]), 2.0 * f64::from(deviation[at(t)]));
                Some(Point { between: Some((middle - wide, middle + wide)), ..Point::at(time(t), middle) })
            });
            chart = chart.with("two standard deviations", Colour::Kind(0), Marks::Band, band);
        }
        let value = |t: usize| f64::from(scan.original[at(t)]);
        chart = chart
            .with(
                "reconstruction",
                Colour::Kind(0),
                Marks::Line,
                points(&|t| Some(Point::at(time(t), f64::from(scan.predicted[at(t)])))),
            )
            .with(
                "hidden",
                Colour::Kind(1),
                Marks::Dots,
                points(&|t| (!scan.context[t]).then(|| Point::at(time(t), value(t)))),
            )
            .with(
                "seen",
                Colour::Kind(2),
                Marks::Dots,
                points(&|t| scan.context[t].then(|| Point::at(time(t), value(t)))),
            );
        chart.size = Some((520.0, 250.0));
        chart
    };
    let charts: Vec<Chart> = chosen.into_iter().take(MOST_TRACES).map(trace).collect();
    let band = if scan.deviation.is_some() {
        " The band is two standard deviations of the latent process, carried through the decoder; noise of the measurement is not in it."
    } else {
        " No deviations were computed for these predictions."
    };
    let caption = format!(
        "{}: one region of each network (the first in the atlas), or regions evenly spread over an atlas without networks. Only the frames marked as seen went into the model.{band}",
        scan.name
    );
    Some(Figure::of_charts("traces", "Traces of single regions", &caption, &charts, 2).made_by(command))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn scan(deviation: bool) -> ReconstructedScan {
        ReconstructedScan {
            name: "s".into(),
            times_seconds: vec![0.0, 1.0, 3.0],
            context: vec![true, false, true],
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
        let figure = reconstruction_figure(&[scan(false), scan(false)], &regions(), "c").unwrap();
        assert_eq!(figure.svg.matches("<image").count(), 8);
        assert_eq!(figure.csv.lines().count(), 1 + 2 * 3);
        assert_eq!(reconstruction_figure(&[scan(false)], &regions()[..2], "c"), None);
        assert_eq!(trace_figure(&scan(false), &regions()[..2], "c"), None);
    }

    #[test]
    fn a_band_is_drawn_where_deviations_are_known() {
        let with = trace_figure(&scan(true), &regions(), "c").unwrap();
        let without = trace_figure(&scan(false), &regions(), "c").unwrap();
        assert!(with.svg.contains("two standard deviations") && !without.svg.contains("two standard deviations"));
        // The band of the first frame: 1 - 2 * 0.5 to 1 + 2 * 0.5.
        assert!(with.csv.contains("two standard deviations,0,1,0,2"), "{}", with.csv);
    }
}
