//! Scores over the values of a setting, one panel a score.

use std::fmt::Write;

use crate::page::escape;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 58.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 46.0;
const GAP: f64 = 24.0;

/// One score.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What is drawn, e.g. `mean squared error`.
    pub title: String,
    /// One point a value of the setting, where the score is defined.
    pub points: Vec<(String, Option<f64>)>,
    /// A line to compare with, and its name.
    pub reference: Option<(String, f64)>,
}

/// Panels side by side, as an SVG that stands alone. `setting` names the horizontal axis.
pub fn panels(setting: &str, panels: &[Panel]) -> String {
    let step = LEFT + WIDTH + GAP;
    let (width, height) = (step * panels.len() as f64, ABOVE + HEIGHT + BELOW);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>"##,
        escape(setting)
    );
    for (i, panel) in panels.iter().enumerate() {
        let _ = write!(svg, r#"<g transform="translate({:.1} {ABOVE})">"#, step * i as f64 + LEFT);
        draw(&mut svg, setting, panel);
        svg.push_str("</g>");
    }
    svg + "</svg>"
}

fn draw(svg: &mut String, setting: &str, panel: &Panel) {
    let reference = panel.reference.iter().map(|(_, y)| *y);
    let seen: Vec<f64> = panel.points.iter().filter_map(|(_, y)| *y).chain(reference).collect();
    let (low, high) = seen.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), y| (l.min(*y), h.max(*y)));
    let (low, high) = if seen.is_empty() { (0.0, 1.0) } else { (low, high) };
    // Room above and below, and a height even where all points are equal.
    let room = ((high - low) * 0.15).max(high.abs() * 1e-3).max(1e-9);
    let (low, high) = (low - room, high + room);
    let place = |y: f64| HEIGHT * (high - y) / (high - low);
    let column = |i: usize| WIDTH * (i as f64 + 0.5) / panel.points.len().max(1) as f64;
    let _ = write!(
        svg,
        r##"<text x="0" y="-12" font-weight="bold">{}</text><path d="M0 0V{HEIGHT}H{WIDTH}" fill="none" stroke="#888"/><text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
        escape(&panel.title),
        WIDTH / 2.0,
        HEIGHT + 38.0,
        escape(setting)
    );
    for tick in 0..=4 {
        let y = low + (high - low) * f64::from(tick) / 4.0;
        let _ = write!(
            svg,
            r##"<path d="M-4 {0:.1}H0" stroke="#888"/><text x="-7" y="{1:.1}" text-anchor="end">{y:.3}</text>"##,
            place(y),
            place(y) + 4.0
        );
    }
    if let Some((name, y)) = &panel.reference {
        let _ = write!(
            svg,
            r##"<path d="M0 {0:.1}H{WIDTH}" stroke="#b35900" stroke-dasharray="5 4"/><text x="{WIDTH}" y="{1:.1}" text-anchor="end" fill="#b35900">{2}</text>"##,
            place(*y),
            place(*y) - 4.0,
            escape(name)
        );
    }
    let drawn: Vec<(usize, f64)> = panel.points.iter().enumerate().filter_map(|(i, (_, y))| Some((i, (*y)?))).collect();
    let line: Vec<String> = drawn.iter().map(|(i, y)| format!("{:.1},{:.1}", column(*i), place(*y))).collect();
    let _ = write!(svg, r##"<polyline points="{}" fill="none" stroke="#1f5fa8" stroke-width="2"/>"##, line.join(" "));
    for (i, y) in drawn {
        let _ = write!(svg, r##"<circle cx="{:.1}" cy="{:.1}" r="4" fill="#1f5fa8"/>"##, column(i), place(y));
    }
    for (i, (name, _)) in panel.points.iter().enumerate() {
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            column(i),
            HEIGHT + 18.0,
            escape(name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defined_point_is_drawn_inside_and_names_are_only_text() {
        let points = vec![("0.5".to_owned(), Some(0.4)), ("<b>".to_owned(), None), ("0.9".to_owned(), Some(0.6))];
        let svg = panels(
            "mask.ratio",
            &[Panel { title: "error".to_owned(), points, reference: Some(("k".to_owned(), 0.5)) }],
        );
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(!svg.contains("<b>") && svg.contains("stroke-dasharray"));
        let heights = svg.split("cy=\"").skip(1).map(|rest| rest.split('"').next().unwrap_or("").parse::<f64>());
        assert!(heights.map(Result::unwrap_or_default).all(|y| (0.0..=HEIGHT).contains(&y)));
    }
}
