//! Charts into SVG.

use std::fmt::Write;

use super::frame::{Frame, width_of};
use super::marks::draw_series;
use super::{Chart, Reference};
use crate::svg::{self, wrap};

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
    let _ = write!(
        svg,
        r#"<clipPath id="{clip}"><rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/></clipPath><g clip-path="url(#{clip})">"#,
        frame.left - 5.0,
        frame.top - 5.0,
        frame.plot.0 + 10.0,
        frame.plot.1 + 10.0
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
