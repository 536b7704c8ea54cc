//! Charts into SVG. Colours are plain attributes, so that a drawing is whole outside its page; classes let the page's
//! light and dark modes override those of text and lines.

use std::fmt::Write;

use super::frame::{Frame, LETTER, width_of};
use super::marks::draw_series;
use super::{Chart, Reference};
use crate::escape;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 330.0;

/// A chart as a drawing of its own.
pub fn drawing(chart: &Chart) -> String {
    grid(std::slice::from_ref(chart), 1)
}

/// A drawing as a file of its own; inside a page the name of the format is not needed.
pub fn standing_alone(svg: &str) -> String {
    svg.replacen("<svg ", r#"<svg xmlns="http://www.w3.org/2000/svg" "#, 1)
}

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

/// The outer element of a drawing.
pub(crate) fn wrap(inside: &str, width: f64, height: f64, title: &str) -> String {
    format!(
        r##"<svg role="group" aria-label="{}" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="system-ui, sans-serif" font-size="{LETTER}"><rect class="paper" width="100%" height="100%" fill="#ffffff"/>{inside}</svg>"##,
        escape::html(title)
    )
}

fn inner(chart: &Chart, x: f64, y: f64) -> (String, (f64, f64)) {
    let frame = Frame::of(chart, chart.size.unwrap_or((WIDTH, HEIGHT)));
    let mut svg = format!(
        r#"<svg class="chart" x="{x:.1}" y="{y:.1}" width="{0:.1}" height="{1:.1}" viewBox="0 0 {0:.1} {1:.1}">"#,
        frame.width, frame.height
    );
    frame.draw_axes(&mut svg, chart);
    references(&mut svg, chart, &frame);
    // Points outside given ends stay outside the plot.
    // Named after what it is, so that equal names on one page are equal plots.
    let place = format!("{:.1} {:.1} {:.1} {:.1}", frame.left, frame.top, frame.plot_width, frame.plot_height);
    let clip = format!("c{}", &blake3::hash(place.as_bytes()).to_hex()[..10]);
    let _ = write!(
        svg,
        r#"<clipPath id="{clip}"><rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/></clipPath><g clip-path="url(#{clip})">"#,
        frame.left - 5.0,
        frame.top - 5.0,
        frame.plot_width + 10.0,
        frame.plot_height + 10.0
    );
    for number in 0..chart.series.len() {
        draw_series(&mut svg, chart, number, &frame);
    }
    svg += "</g>";
    frame.draw_legend(&mut svg, chart);
    (svg + "</svg>", (frame.width, frame.height))
}

fn references(svg: &mut String, chart: &Chart, frame: &Frame) {
    let (left, right, bottom) = (frame.left, frame.left + frame.plot_width, frame.top + frame.plot_height);
    let style = r##"class="guide" stroke="#77777f" stroke-dasharray="3 4" fill="none""##;
    for reference in &chart.references {
        match reference {
            Reference::Level(name, value) => {
                let Some(y) = frame.y(*value) else { continue };
                let name = escape::html(name);
                // Above the line, or below where above would leave the plot.
                let at = if y - 16.0 < frame.top { y + 14.0 } else { y - 5.0 };
                let _ = write!(
                    svg,
                    r##"<path {style} d="M{left:.1} {y:.1}H{right:.1}"/><text class="soft" fill="#55555c" x="{:.1}" y="{at:.1}" text-anchor="end">{name}</text>"##,
                    right - 4.0
                );
            }
            Reference::Upright(name, value) => {
                let Some(x) = frame.x(*value) else { continue };
                let turned = if x + width_of(name) + 6.0 > right { ("end", x - 5.0) } else { ("start", x + 5.0) };
                let name = escape::html(name);
                let _ = write!(
                    svg,
                    r##"<path {style} d="M{x:.1} {:.1}V{bottom:.1}"/><text class="soft" fill="#55555c" x="{:.1}" y="{:.1}" text-anchor="{}">{name}</text>"##,
                    frame.top,
                    turned.1,
                    frame.top + 12.0,
                    turned.0
                );
            }
            Reference::Identity(name) => {
                let ends = chart.x.range.zip(chart.y.range).map(|(x, y)| (x.0.max(y.0), x.1.min(y.1)));
                let Some((low, high)) = ends else { continue };
                if let (Some(x0), Some(y0), Some(x1), Some(y1)) =
                    (frame.x(low), frame.y(low), frame.x(high), frame.y(high))
                {
                    let name = escape::html(name);
                    let _ = write!(
                        svg,
                        r##"<path {style} d="M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}"/><text class="soft" fill="#55555c" x="{:.1}" y="{:.1}" text-anchor="end">{name}</text>"##,
                        x1 - 8.0,
                        y1 + 58.0
                    );
                }
            }
        }
    }
}
