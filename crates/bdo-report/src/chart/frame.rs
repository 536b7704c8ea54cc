//! Charts into SVG: the room for ticks, names and legend, the lines around the plot, and charts side by side.

use std::fmt::Write;

use super::marks::draw_series;
use super::{Axis, Chart, Marks, Reference};
use crate::escape;
use crate::scale::Span;
use crate::svg::{self, LETTER, wrap};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 330.0;

/// Charts side by side, `columns` in a row, as one drawing.
pub fn grid(charts: &[Chart], columns: usize) -> String {
    let columns = columns.clamp(1, charts.len().max(1));
    let (mut width, mut y, mut inside) = (0.0f64, 0.0, String::new());
    for row in charts.chunks(columns) {
        let (mut x, mut tallest) = (0.0, 0.0f64);
        for chart in row {
            let (svg, size) = inner(chart, x, y);
            inside += &svg;
            x += size.0;
            tallest = tallest.max(size.1);
        }
        width = width.max(x);
        y += tallest;
    }
    let titles: Vec<&str> = charts.iter().map(|c| c.title.as_str()).filter(|t| !t.is_empty()).collect();
    wrap(&inside, width, y, &titles.join("; "))
}

fn inner(chart: &Chart, x: f64, y: f64) -> (String, (f64, f64)) {
    let frame = Frame::of(chart, chart.size.unwrap_or((WIDTH, HEIGHT)));
    let mut svg = format!(
        r#"<svg class="chart" x="{x:.1}" y="{y:.1}" width="{0:.1}" height="{1:.1}" viewBox="0 0 {0:.1} {1:.1}">"#,
        frame.size.0, frame.size.1
    );
    frame.draw_axes(&mut svg, chart);
    references(&mut svg, chart, &frame);
    // Points outside given ends are clipped. The name follows from the place, so that equal names are equal plots.
    let place = format!("{:.1} {:.1} {:.1} {:.1}", frame.left, frame.top, frame.plot.0, frame.plot.1);
    let clip = format!("c{}", &blake3::hash(place.as_bytes()).to_hex()[..10]);
    let (x, y, wide, tall) = (frame.left - 5.0, frame.top - 5.0, frame.plot.0 + 10.0, frame.plot.1 + 10.0);
    let _ = write!(
        svg,
        r#"<clipPath id="{clip}"><rect x="{x:.1}" y="{y:.1}" width="{wide:.1}" height="{tall:.1}"/></clipPath><g clip-path="url(#{clip})">"#
    );
    for number in 0..chart.series.len() {
        draw_series(&mut svg, chart, number, &frame);
    }
    svg += "</g>";
    frame.draw_legend(&mut svg, chart);
    (svg + "</svg>", frame.size)
}

fn references(svg: &mut String, chart: &Chart, frame: &Frame) {
    let (left, right, bottom) = (frame.left, frame.left + frame.plot.0, frame.top + frame.plot.1);
    for reference in &chart.references {
        let drawn = match reference {
            // The name stands above the line, or below where above would leave the plot.
            Reference::Level(name, value) => frame.y(*value).map(|y| {
                let at = if y - 16.0 < frame.top { y + 14.0 } else { y - 5.0 };
                (name, format!("M{left:.1} {y:.1}H{right:.1}"), (right - 4.0, at), "end")
            }),
            Reference::Upright(name, value) => frame.x(*value).map(|x| {
                let turned = x + width_of(name) + 6.0 > right;
                let (anchor, at) = if turned { ("end", x - 5.0) } else { ("start", x + 5.0) };
                (name, format!("M{x:.1} {:.1}V{bottom:.1}", frame.top), (at, frame.top + 12.0), anchor)
            }),
            Reference::Identity(name) => {
                let ends = chart.x.range.zip(chart.y.range).map(|(x, y)| (x.0.max(y.0), x.1.min(y.1)));
                let place = |value: f64| frame.x(value).zip(frame.y(value));
                ends.and_then(|(low, high)| place(low).zip(place(high))).map(|((x0, y0), (x1, y1))| {
                    (name, format!("M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}"), (x1 - 8.0, y1 + 58.0), "end")
                })
            }
        };
        if let Some((name, path, at, anchor)) = drawn {
            let _ = write!(
                svg,
                r##"<path class="guide" stroke="#77777f" stroke-dasharray="3 4" fill="none" d="{path}"/>"##
            );
            svg::soft_text(svg, at, &format!(r#"text-anchor="{anchor}""#), name);
        }
    }
}

/// Mean width of a letter as a share of its size; sans-serif faces stay below it.
const LETTER_WIDTH: f64 = 0.56;
/// Longer names are shortened in legends and beside axes; tables and CSV files have them in full.
const LONGEST_NAME: usize = 26;
const LEGEND_ROW: f64 = 20.0;

/// Estimated width of a text.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER * LETTER_WIDTH
}

/// The plot inside its chart, and the scales along it.
pub(super) struct Frame {
    pub(super) size: (f64, f64),
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) plot: (f64, f64),
    x: Span,
    y: Span,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
    slanted: bool,
    legend: Vec<LegendKey>,
}

struct LegendKey {
    series: usize,
    x: f64,
    y: f64,
}

impl Frame {
    pub(super) fn of(chart: &Chart, (width, height): (f64, f64)) -> Self {
        let (x, y) = spans(chart);
        let y_ticks = ticks(&chart.y, &y, (height / 60.0) as usize);
        let widest = y_ticks.iter().map(|(_, t)| width_of(t)).fold(0.0, f64::max);
        let mut left = widest + if chart.y.label.is_empty() { 14.0 } else { 34.0 };
        let mut right = 14.0;
        let x_ticks = ticks(&chart.x, &x, ((width - left) / 80.0) as usize);
        let widest_name = x_ticks.iter().map(|(_, t)| width_of(t)).fold(0.0, f64::max);
        let names = chart.x.categories.len() as f64;
        let slanted = names > 0.0 && widest_name + 6.0 > (width - left - right) / names;
        if slanted {
            // A slanted name ends below its tick and begins to the left of it.
            left = left.max(widest_name * 0.77 - (width - left - right) / names / 2.0 + 8.0);
        } else if names == 0.0 {
            // Half of the last number may extend beyond the end of the axis.
            right = x_ticks.last().map_or(right, |(_, text)| right.max(width_of(text) / 2.0 + 3.0));
        }
        let plot_width = (width - left - right).max(40.0);
        let below =
            26.0 + if chart.x.label.is_empty() { 0.0 } else { 22.0 } + if slanted { widest_name * 0.64 } else { 0.0 };
        let (legend, rows) = legend(chart, width);
        let top = 8.0 + if chart.title.is_empty() { 0.0 } else { 22.0 } + rows as f64 * LEGEND_ROW;
        let plot_height = (height - top - below).max(40.0);
        // A long legend or long names make the chart taller instead of its plot flat.
        let plot_height = plot_height.max(height * 0.45);
        let (size, plot) = ((width, top + plot_height + below), (plot_width, plot_height));
        Self { size, left, top, plot, x, y, x_ticks, y_ticks, slanted, legend }
    }

    pub(super) fn x(&self, value: f64) -> Option<f64> {
        Some(self.left + self.plot.0 * self.x.place(value)?)
    }

    pub(super) fn y(&self, value: f64) -> Option<f64> {
        Some(self.top + self.plot.1 * (1.0 - self.y.place(value)?))
    }

    pub(super) fn draw_axes(&self, svg: &mut String, chart: &Chart) {
        let (right, bottom) = (self.left + self.plot.0, self.top + self.plot.1);
        if !chart.title.is_empty() {
            let most = (self.size.0 / (LETTER * LETTER_WIDTH)) as usize;
            svg::text(svg, (4.0, 18.0), r#"font-weight="bold""#, &escape::shortened(&chart.title, most));
        }
        for (value, text) in &self.y_ticks {
            let Some(y) = self.y(*value) else { continue };
            let _ = write!(svg, r##"<path class="grid" stroke="#e3e3e8" d="M{:.1} {y:.1}H{right:.1}"/>"##, self.left);
            svg::text(svg, (self.left - 6.0, y + 4.5), r#"text-anchor="end""#, text);
        }
        for (value, text) in &self.x_ticks {
            let Some(x) = self.x(*value) else { continue };
            svg::axis(svg, "", &format!("M{x:.1} {bottom:.1}v4"));
            if self.slanted {
                svg::turned_text(svg, (x + 5.0, bottom + 18.0), -40.0, r#"text-anchor="end""#, text);
            } else {
                svg::text(svg, (x, bottom + 18.0), r#"text-anchor="middle""#, text);
            }
        }
        svg::axis(svg, "", &format!("M{:.1} {:.1}V{bottom:.1}H{right:.1}", self.left, self.top));
        let middle = (self.left + self.plot.0 / 2.0, self.top + self.plot.1 / 2.0);
        if !chart.x.label.is_empty() {
            svg::text(svg, (middle.0, self.size.1 - 6.0), r#"text-anchor="middle""#, &chart.x.label);
        }
        if !chart.y.label.is_empty() {
            svg::turned_text(svg, (14.0, middle.1), -90.0, r#"text-anchor="middle""#, &chart.y.label);
        }
    }

    /// One entry per series; a click or a key hides and shows it.
    pub(super) fn draw_legend(&self, svg: &mut String, chart: &Chart) {
        for LegendKey { series: number, x, y } in &self.legend {
            let series = &chart.series[*number];
            let colour = series.colour.css();
            let swatch = match series.marks {
                Marks::Line => {
                    format!(r#"<path d="M{x:.1} {:.1}h18" stroke="{colour}" stroke-width="2.5"/>"#, y - 4.5)
                }
                Marks::Band => format!(
                    r#"<rect x="{x:.1}" y="{:.1}" width="18" height="9" fill="{colour}" opacity="0.3"/>"#,
                    y - 9.0
                ),
                _ => super::marks::marker(series.colour, x + 9.0, y - 4.5, 5.0, &format!(r#"fill="{colour}""#)),
            };
            let name = escape::html(&series.name);
            let _ = write!(
                svg,
                r#"<g class="key" data-k="{number}" role="button" tabindex="0" aria-pressed="true" aria-label="show {name}">{swatch}"#
            );
            svg::text(svg, (x + 23.0, *y), "", &escape::shortened(&series.name, LONGEST_NAME));
            svg.push_str("</g>");
        }
    }
}

/// The scales along both axes: the given ends, or ends around all points.
fn spans(chart: &Chart) -> (Span, Span) {
    let points = || chart.series.iter().flat_map(|s| s.points.iter().map(move |p| (s.marks, p)));
    let levels = |upright: bool| {
        chart.references.iter().filter_map(move |r| match r {
            Reference::Level(_, y) if !upright => Some(*y),
            Reference::Upright(_, x) if upright => Some(*x),
            _ => None,
        })
    };
    let is_bar = |marks| matches!(marks, Marks::Bars | Marks::GroupedBars);
    // Intervals and bins lie along one of the axes.
    let ends = |lying: bool| {
        let along = points().filter(move |(m, _)| matches!(m, Marks::Across | Marks::Bars) == lying);
        along.filter_map(|(_, p)| p.between).flat_map(|(low, high)| [low, high])
    };
    // Bars begin at zero; anything else would make differences look larger than they are.
    let ground = points().filter(|(m, _)| is_bar(*m)).map(|_| 0.0);
    let x = span(&chart.x, points().map(|(_, p)| p.x).chain(ends(true)).chain(levels(true)));
    let mut y = span(&chart.y, points().map(|(_, p)| p.y).chain(ends(false)).chain(levels(false)).chain(ground));
    if !chart.y.categories.is_empty() && levels(true).next().is_some() {
        // Room for the name of an upright line above the first row.
        y = Span::around(chart.y.scale, [].into_iter(), Some((-0.5, chart.y.categories.len() as f64 + 0.2)));
    }
    if chart.series.iter().any(|s| is_bar(s.marks)) && chart.y.range.is_none() {
        let highest = points().map(|(_, p)| p.y).filter(|y| y.is_finite()).fold(0.0, f64::max);
        if points().all(|(_, p)| p.y >= 0.0 || p.y.is_nan()) {
            // Room for the numbers above bars.
            let room = if points().any(|(_, p)| p.text.is_some()) { 1.15 } else { 1.08 };
            y = span(&chart.y.clone().between(0.0, if highest > 0.0 { highest * room } else { 1.0 }), [].into_iter());
        }
    }
    (x, y)
}

fn span(axis: &Axis, values: impl Iterator<Item = f64>) -> Span {
    let given = if axis.categories.is_empty() { axis.range } else { Some((-0.5, axis.categories.len() as f64 - 0.5)) };
    Span::around(axis.scale, values, given)
}

fn ticks(axis: &Axis, span: &Span, wanted: usize) -> Vec<(f64, String)> {
    if axis.categories.is_empty() {
        return span.ticks(wanted.clamp(2, 8));
    }
    axis.categories.iter().enumerate().map(|(i, name)| (i as f64, escape::shortened(name, LONGEST_NAME))).collect()
}

/// Places of the entries, row by row; a single series needs none.
fn legend(chart: &Chart, width: f64) -> (Vec<LegendKey>, usize) {
    let named: Vec<usize> = (0..chart.series.len()).filter(|i| !chart.series[*i].name.is_empty()).collect();
    if named.len() < 2 {
        return (vec![], 0);
    }
    let top = if chart.title.is_empty() { 8.0 } else { 30.0 };
    let (mut keys, mut x, mut row) = (vec![], 4.0, 0);
    for series in named {
        let wide = 23.0 + width_of(&escape::shortened(&chart.series[series].name, LONGEST_NAME)) + 14.0;
        if x + wide > width && x > 4.0 {
            (x, row) = (4.0, row + 1);
        }
        keys.push(LegendKey { series, x, y: top + row as f64 * LEGEND_ROW + 11.0 });
        x += wide;
    }
    (keys, row + 1)
}
