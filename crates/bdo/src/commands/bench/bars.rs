//! Panels of bars on a scale of powers of ten, as an SVG that stands alone.

use std::fmt::Write;

const WIDTH: f64 = 230.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 56.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 30.0;
const COLOURS: [&str; 3] = ["#1f5fa8", "#b35900", "#4d7c3a"];

/// One quantity of several models.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) bars: Vec<(String, f64)>,
}

/// Panels side by side. Bars begin at a power of ten below the least value: ratios are what is compared.
pub(super) fn figure(panels: &[Panel]) -> String {
    let step = LEFT + WIDTH + 14.0;
    let (width, height) = (step * panels.len() as f64, ABOVE + HEIGHT + BELOW);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="cost of models" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>"##
    );
    for (i, panel) in panels.iter().enumerate() {
        let _ = write!(svg, r#"<g transform="translate({:.1} {ABOVE})">"#, step * i as f64 + LEFT);
        draw(&mut svg, panel);
        svg.push_str("</g>");
    }
    svg + "</svg>\n"
}

fn draw(svg: &mut String, panel: &Panel) {
    let seen = || panel.bars.iter().map(|(_, y)| *y).filter(|y| y.is_finite() && *y > 0.0);
    let low = seen().fold(f64::INFINITY, f64::min).log10().floor();
    let high = seen().fold(f64::NEG_INFINITY, f64::max).log10().ceil();
    let (low, high) = if low.is_finite() && high.is_finite() { (low, high.max(low + 1.0)) } else { (0.0, 1.0) };
    let place = |y: f64| HEIGHT * (high - y.log10()) / (high - low);
    let _ = write!(
        svg,
        r##"<text x="0" y="-14" font-weight="bold">{}</text><path d="M0 0V{HEIGHT}H{WIDTH}" fill="none" stroke="#888"/>"##,
        panel.title
    );
    for power in low as i32..=high as i32 {
        let y = place(10f64.powi(power));
        let label = if power >= 0 { format!("{:.0}", 10f64.powi(power)) } else { format!("{}", 10f64.powi(power)) };
        let _ = write!(
            svg,
            r##"<path d="M-4 {y:.1}H0" stroke="#888"/><text x="-7" y="{:.1}" text-anchor="end">{label}</text>"##,
            y + 4.0
        );
    }
    let each = WIDTH / panel.bars.len().max(1) as f64;
    for (i, (name, value)) in panel.bars.iter().enumerate() {
        let middle = each * (i as f64 + 0.5);
        let _ = write!(svg, r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle">{name}</text>"#, HEIGHT + 18.0);
        if value.is_finite() && *value > 0.0 {
            let top = place(*value);
            let shown = if *value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
            let _ = write!(
                svg,
                r#"<rect x="{:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" fill="{}"/><text x="{middle:.1}" y="{:.1}" text-anchor="middle">{shown}</text>"#,
                middle - each * 0.3,
                each * 0.6,
                HEIGHT - top,
                COLOURS[i % COLOURS.len()],
                top - 4.0
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_logarithm() {
        let bars = vec![("a".to_owned(), 10.0), ("b".to_owned(), 1000.0), ("none".to_owned(), f64::NAN)];
        let svg = figure(&[Panel { title: "ms".to_owned(), bars }]);
        let heights: Vec<f64> = svg
            .split("<rect x=")
            .skip(1)
            .filter_map(|rest| rest.split("height=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights, [0.0, HEIGHT]);
    }
}
