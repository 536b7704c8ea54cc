//! The marks of the series of a chart.

use std::fmt::Write;

use super::frame::Frame;
use super::{Chart, Marks, Point, Series};
use crate::escape;
use crate::palette::Colour;
use crate::svg;

pub(super) fn draw_series(svg: &mut String, chart: &Chart, number: usize, frame: &Frame) {
    let series = &chart.series[number];
    let colour = series.colour.css();
    let _ = write!(svg, r#"<g data-s="{number}">"#);
    match series.marks {
        Marks::Line => line(svg, series, frame, &colour),
        Marks::Dots => dots(svg, series, frame, &colour, 3.4),
        Marks::LineAndDots => {
            line(svg, series, frame, &colour);
            dots(svg, series, frame, &colour, 3.8);
        }
        Marks::Band => band(svg, series, frame, &colour),
        Marks::Bars => {
            let bin = |point: &Point| point.between.unwrap_or((point.x - 0.4, point.x + 0.4));
            bars(svg, series, frame, (&colour, 0.8), bin);
        }
        Marks::GroupedBars => {
            let groups = || chart.series.iter().enumerate().filter(|(_, s)| s.marks == Marks::GroupedBars);
            let place = groups().position(|(i, _)| i == number).unwrap_or(0) as f64;
            let width = 0.8 / groups().count() as f64;
            let low = |point: &Point| point.x - 0.4 + place * width;
            bars(svg, series, frame, (&colour, 0.85), |point| (low(point), low(point) + width));
        }
        Marks::Across | Marks::UpAndDown => {
            intervals(svg, series, frame, &colour);
            dots(svg, series, frame, &colour, 4.5);
        }
    }
    svg.push_str("</g>");
}

/// The marker of a colour; `attributes` go into the element.
pub(super) fn marker(colour: Colour, x: f64, y: f64, r: f64, attributes: &str) -> String {
    match colour.marker() % 4 {
        0 => format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{r}" {attributes}/>"#),
        1 => {
            let (left, top, side) = (x - 0.9 * r, y - 0.9 * r, 1.8 * r);
            format!(r#"<rect x="{left:.1}" y="{top:.1}" width="{side:.1}" height="{side:.1}" {attributes}/>"#)
        }
        2 => {
            let (top, across, down, back) = (y - 1.2 * r, 1.15 * r, 2.0 * r, -2.3 * r);
            format!(r#"<path d="M{x:.1} {top:.1}l{across:.1} {down:.1}h{back:.1}z" {attributes}/>"#)
        }
        _ => {
            let (top, d) = (y - 1.3 * r, 1.3 * r);
            format!(r#"<path d="M{x:.1} {top:.1}l{d:.1} {d:.1}l-{d:.1} {d:.1}l-{d:.1} -{d:.1}z" {attributes}/>"#)
        }
    }
}

fn note(point: &Point) -> String {
    point.note.as_ref().map_or_else(String::new, |text| format!(r#" data-t="{}""#, escape::html(text)))
}

/// A path of straight lines.
fn path_through(points: impl Iterator<Item = (f64, f64)>) -> String {
    let step = |(i, (x, y)): (usize, (f64, f64))| format!("{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    points.enumerate().map(step).collect()
}

fn line(svg: &mut String, series: &Series, frame: &Frame, colour: &str) {
    let places: Vec<Option<(f64, f64)>> = series.points.iter().map(|p| frame.x(p.x).zip(frame.y(p.y))).collect();
    let mut path = String::new();
    // Points without a place interrupt the line.
    for run in places.split(Option::is_none) {
        path += &path_through(run.iter().copied().flatten());
        // A single point would be invisible.
        if run.len() == 1 {
            path += "h1";
        }
    }
    let _ = write!(svg, r#"<path fill="none" stroke="{colour}" stroke-linejoin="round" stroke-width="2" d="{path}"/>"#);
}

fn dots(svg: &mut String, series: &Series, frame: &Frame, colour: &str, r: f64) {
    // Smaller where many points would hide each other.
    let (r, opacity) = match series.points.len() {
        0..=50 => (r, 0.9),
        51..=150 => (r.min(2.8), 0.9),
        _ => (2.6, 0.75),
    };
    let _ = write!(svg, r#"<g fill="{colour}" fill-opacity="{opacity}">"#);
    for point in &series.points {
        if let (Some(x), Some(y)) = (frame.x(point.x), frame.y(point.y)) {
            svg.push_str(&marker(series.colour, x, y, r, &note(point)));
        }
    }
    svg.push_str("</g>");
}

fn band(svg: &mut String, series: &Series, frame: &Frame, colour: &str) {
    let ends: Vec<(f64, f64, f64)> = series
        .points
        .iter()
        .filter_map(|p| Some((frame.x(p.x)?, frame.y(p.between?.0)?, frame.y(p.between?.1)?)))
        .collect();
    let (upper, lower) = (ends.iter().map(|(x, _, high)| (*x, *high)), ends.iter().rev().map(|(x, low, _)| (*x, *low)));
    let path = path_through(upper.chain(lower));
    if !path.is_empty() {
        let _ = write!(svg, r#"<path fill="{colour}" fill-opacity="0.22" stroke="none" d="{path}Z"/>"#);
    }
}

/// Bars from zero; `ends` gives the left and right end of a bar.
fn bars(
    svg: &mut String,
    series: &Series,
    frame: &Frame,
    (colour, opacity): (&str, f64),
    ends: impl Fn(&Point) -> (f64, f64),
) {
    let ground = frame.y(0.0).unwrap_or(frame.top + frame.plot.1);
    let mut written = String::new();
    let _ = write!(svg, r#"<g fill="{colour}" fill-opacity="{opacity}">"#);
    for point in &series.points {
        let (low, high) = ends(point);
        if let (Some(from), Some(to), Some(y)) = (frame.x(low), frame.x(high), frame.y(point.y)) {
            let (wide, tall, top) = ((to - from - 1.0).max(0.5), (ground - y).abs(), y.min(ground));
            let note = note(point);
            let _ = write!(svg, r#"<rect x="{from:.1}" y="{top:.1}" width="{wide:.1}" height="{tall:.1}"{note}/>"#);
            if let Some(text) = &point.text {
                let at = (f64::midpoint(from, to), top - 4.0);
                svg::text(&mut written, at, r#"font-size="11" text-anchor="middle""#, text);
            }
        }
    }
    svg.push_str("</g>");
    svg.push_str(&written);
}

fn intervals(svg: &mut String, series: &Series, frame: &Frame, colour: &str) {
    let mut path = String::new();
    for point in &series.points {
        let Some((low, high)) = point.between else { continue };
        let drawn = if series.marks == Marks::Across {
            frame.y(point.y).zip(frame.x(low)).zip(frame.x(high)).map(|((y, a), b)| format!("M{a:.1} {y:.1}H{b:.1}"))
        } else {
            frame.x(point.x).zip(frame.y(low)).zip(frame.y(high)).map(|((x, a), b)| format!("M{x:.1} {a:.1}V{b:.1}"))
        };
        path += &drawn.unwrap_or_default();
    }
    let _ = write!(svg, r#"<path fill="none" stroke="{colour}" stroke-width="2" d="{path}"/>"#);
}
