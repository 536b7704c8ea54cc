//! Where things lie in a chart: the room for ticks, names and legend, and the lines around the plot.

use std::fmt::Write;

use super::{Axis, Chart, Marks, Reference};
use crate::escape;
use crate::scale::Span;

/// Size of letters; a letter is taken to be this share of it wide, which sans-serif faces stay below on average.
pub(super) const LETTER: f64 = 13.0;
const LETTER_WIDTH: f64 = 0.56;
/// Names longer than this are cut in legends and beside axes; tables and CSV files have them whole.
const LONGEST_NAME: usize = 26;
const LEGEND_ROW: f64 = 20.0;

/// Estimated width of a text.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER * LETTER_WIDTH
}

/// The plot inside its chart, and the scales along it.
pub(super) struct Frame {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) plot_width: f64,
    pub(super) plot_height: f64,
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
            // A slanted name ends below its place and begins to the left of it.
            left = left.max(widest_name * 0.77 - (width - left - right) / names / 2.0 + 8.0);
        } else if names == 0.0 {
            // Half of the last number may stand beyond the end of the axis.
            right = x_ticks.last().map_or(right, |(_, text)| right.max(width_of(text) / 2.0 + 3.0));
        }
        let plot_width = (width - left - right).max(40.0);
        let below =
            26.0 + if chart.x.label.is_empty() { 0.0 } else { 22.0 } + if slanted { widest_name * 0.64 } else { 0.0 };
        let (legend, rows) = legend(chart, width);
        let top = 8.0 + if chart.title.is_empty() { 0.0 } else { 22.0 } + rows as f64 * LEGEND_ROW;
        let plot_height = (height - top - below).max(40.0);
        // A long legend or long names make a chart taller, never its plot flat.
        let plot_height = plot_height.max(height * 0.45);
        Self {
            width,
            height: top + plot_height + below,
            left,
            top,
            plot_width,
            plot_height,
            x,
            y,
            x_ticks,
            y_ticks,
            slanted,
            legend,
        }
    }

    pub(super) fn x(&self, value: f64) -> Option<f64> {
        Some(self.left + self.plot_width * self.x.place(value)?)
    }

    pub(super) fn y(&self, value: f64) -> Option<f64> {
        Some(self.top + self.plot_height * (1.0 - self.y.place(value)?))
    }

    /// Title, grid, ticks and names.
    pub(super) fn draw_axes(&self, svg: &mut String, chart: &Chart) {
        let (right, bottom) = (self.left + self.plot_width, self.top + self.plot_height);
        if !chart.title.is_empty() {
            let most = (self.width / (LETTER * LETTER_WIDTH)) as usize;
            let title = escape::html(&escape::shortened(&chart.title, most));
            let _ = write!(svg, r##"<text class="ink" fill="#1b1b1f" x="4" y="18" font-weight="bold">{title}</text>"##);
        }
        for (value, text) in &self.y_ticks {
            let Some(y) = self.y(*value) else { continue };
            let text = escape::html(text);
            let _ = write!(
                svg,
                r##"<path class="grid" stroke="#e3e3e8" d="M{:.1} {y:.1}H{right:.1}"/><text class="ink" fill="#1b1b1f" x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"##,
                self.left,
                self.left - 6.0,
                y + 4.5
            );
        }
        for (value, text) in &self.x_ticks {
            let Some(x) = self.x(*value) else { continue };
            let text = escape::html(text);
            let y = bottom + 18.0;
            let place = if self.slanted {
                format!(r#"text-anchor="end" transform="translate({:.1} {y:.1}) rotate(-40)""#, x + 5.0)
            } else {
                format!(r#"text-anchor="middle" x="{x:.1}" y="{y:.1}""#)
            };
            let _ = write!(
                svg,
                r##"<path class="axis" stroke="#77777f" d="M{x:.1} {bottom:.1}v4"/><text class="ink" fill="#1b1b1f" {place}>{text}</text>"##
            );
        }
        let _ = write!(
            svg,
            r##"<path class="axis" fill="none" stroke="#77777f" d="M{:.1} {:.1}V{bottom:.1}H{right:.1}"/>"##,
            self.left, self.top
        );
        if !chart.x.label.is_empty() {
            let (x, y) = (self.left + self.plot_width / 2.0, self.height - 6.0);
            let label = escape::html(&chart.x.label);
            let _ = write!(
                svg,
                r##"<text class="ink" fill="#1b1b1f" x="{x:.1}" y="{y:.1}" text-anchor="middle">{label}</text>"##
            );
        }
        if !chart.y.label.is_empty() {
            let y = self.top + self.plot_height / 2.0;
            let label = escape::html(&chart.y.label);
            let _ = write!(
                svg,
                r##"<text class="ink" fill="#1b1b1f" text-anchor="middle" transform="translate(14 {y:.1}) rotate(-90)">{label}</text>"##
            );
        }
    }

    /// One entry a series; a click or a key hides and shows it.
    pub(super) fn draw_legend(&self, svg: &mut String, chart: &Chart) {
        for key in &self.legend {
            let series = &chart.series[key.series];
            let (name, colour) = (escape::html(&escape::shortened(&series.name, LONGEST_NAME)), series.colour.css());
            let swatch = match series.marks {
                Marks::Line | Marks::Dashed | Marks::Faint => {
                    let dash = if series.marks == Marks::Dashed { r#" stroke-dasharray="6 4""# } else { "" };
                    format!(
                        r#"<path d="M{:.1} {:.1}h18" stroke="{colour}" stroke-width="2.5"{dash}/>"#,
                        key.x,
                        key.y - 4.5
                    )
                }
                Marks::Band => format!(
                    r#"<rect x="{:.1}" y="{:.1}" width="18" height="9" fill="{colour}" opacity="0.3"/>"#,
                    key.x,
                    key.y - 9.0
                ),
                _ => super::marks::marker(series.colour, key.x + 9.0, key.y - 4.5, 5.0, &format!(r#"fill="{colour}""#)),
            };
            let _ = write!(
                svg,
                r##"<g class="key" data-k="{}" role="button" tabindex="0" aria-pressed="true" aria-label="show {}">{swatch}<text class="ink" fill="#1b1b1f" x="{:.1}" y="{:.1}">{name}</text></g>"##,
                key.series,
                escape::html(&series.name),
                key.x + 23.0,
                key.y
            );
        }
    }
}

/// The scales along both axes: given ends, or ends around all that is drawn.
fn spans(chart: &Chart) -> (Span, Span) {
    let points = || chart.series.iter().flat_map(|s| s.points.iter().map(move |p| (s.marks, p)));
    let levels = |upright: bool| {
        chart.references.iter().filter_map(move |r| match r {
            Reference::Level(_, y) if !upright => Some(*y),
            Reference::Upright(_, x) if upright => Some(*x),
            _ => None,
        })
    };
    let across = |marks| marks == Marks::Across;
    let xs = points().flat_map(|(m, p)| {
        let ends = p.between.filter(|_| across(m));
        [Some(p.x), ends.map(|e| e.0), ends.map(|e| e.1)].into_iter().flatten()
    });
    let ys = points().flat_map(|(m, p)| {
        let ends = p.between.filter(|_| !across(m) && m != Marks::Bars);
        // Bars stand on zero; anything else would make differences look larger than they are.
        let ground = matches!(m, Marks::Bars | Marks::GroupedBars).then_some(0.0);
        [Some(p.y), ends.map(|e| e.0), ends.map(|e| e.1), ground].into_iter().flatten()
    });
    let bins = points().filter(|(m, _)| *m == Marks::Bars).filter_map(|(_, p)| p.between);
    let bins: Vec<f64> = bins.flat_map(|(l, h)| [l, h]).collect();
    let x = span(&chart.x, xs.chain(levels(true)).chain(bins));
    let mut y = span(&chart.y, ys.chain(levels(false)));
    if !chart.y.categories.is_empty() && levels(true).next().is_some() {
        // Room for the name of an upright line above the first row.
        y = Span::around(chart.y.scale, [].into_iter(), Some((-0.5, chart.y.categories.len() as f64 + 0.2)));
    }
    if chart.series.iter().any(|s| matches!(s.marks, Marks::Bars | Marks::GroupedBars)) && chart.y.range.is_none() {
        let highest = points().map(|(_, p)| p.y).filter(|y| y.is_finite()).fold(0.0, f64::max);
        if points().all(|(_, p)| p.y >= 0.0 || p.y.is_nan()) {
            // Numbers above bars want a line of their own.
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
