//! Small drawings as SVG text.

use std::fmt::Write;

use crate::region::Region;

/// A text for HTML: names of files and people are not markup.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A histogram of 24 bars with its range below.
pub(super) fn histogram(title: &str, unit: &str, values: &[f64]) -> String {
    const BARS: usize = 24;
    let (width, height) = (360.0, 130.0);
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() {
        return format!("<figure><figcaption>{}: not known</figcaption></figure>", escaped(title));
    }
    let step = if high > low { (high - low) / BARS as f64 } else { 1.0 };
    let mut counts = [0_usize; BARS];
    for v in values {
        counts[(((v - low) / step) as usize).min(BARS - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let bar = width / BARS as f64;
    let mut svg = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {width} 160\" width=\"{width}\">",
        escaped(title)
    );
    for (i, count) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
        let h = height * *count as f64 / most;
        let (x, y) = (i as f64 * bar, height - h);
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{h:.1}\"><title>{count}</title></rect>",
            bar - 1.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"0\" y=\"150\">{low:.4}</text><text x=\"{width}\" y=\"150\" text-anchor=\"end\">{high:.4} {}</text></svg></figure>",
        escaped(unit)
    );
    svg
}

/// Regions seen from above, each shaded by a share from 0 (red) to 1 (grey); a strip in order where places are unknown.
pub(super) fn region_map(title: &str, regions: &[Region], shares: &[f64]) -> String {
    let placed = !regions.is_empty() && regions.iter().all(|r| r.centroid_mm.is_some());
    let mut svg = format!("<figure><figcaption>{}</figcaption>", escaped(title));
    svg += if placed {
        "<svg viewBox=\"-90 -90 180 200\" width=\"360\">"
    } else {
        "<svg viewBox=\"0 0 720 40\" width=\"720\">"
    };
    for (i, (region, share)) in regions.iter().zip(shares).enumerate() {
        let red = (255.0 * (1.0 - share)).round() as u8;
        let rest = (150.0 * share).round() as u8;
        let fill = format!("rgb({},{rest},{rest})", red.max(rest));
        let name = format!("<title>{}: {:.0} %</title>", escaped(&region.name), 100.0 * share);
        let _ = if let Some([x, y, _]) = region.centroid_mm.filter(|_| placed) {
            write!(svg, "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{fill}\">{name}</circle>", -y)
        } else {
            let width = 720.0 / regions.len() as f64;
            let x = i as f64 * width;
            write!(
                svg,
                "<rect x=\"{x:.2}\" y=\"0\" width=\"{width:.2}\" height=\"40\" style=\"fill:{fill}\">{name}</rect>"
            )
        };
    }
    svg + "</svg></figure>"
}
