//! Counts as bars.

use std::fmt::Write;

use crate::page::escape;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 140.0;
const BELOW: f64 = 34.0;
const ABOVE: f64 = 16.0;

/// Bars with a name below and a count above each.
pub fn bars(title: &str, counts: &[(String, usize)]) -> String {
    let most = counts.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1) as f64;
    let step = WIDTH / counts.len().max(1) as f64;
    let mut svg = format!(
        r#"<svg role="img" aria-label="{}" viewBox="0 0 {WIDTH} {}" class="bars">"#,
        escape(title),
        HEIGHT + BELOW + ABOVE
    );
    for (i, (name, n)) in counts.iter().enumerate() {
        let height = HEIGHT * *n as f64 / most;
        let (x, middle) = (i as f64 * step + 0.1 * step, (i as f64 + 0.5) * step);
        let _ = write!(
            svg,
            r#"<rect x="{x:.1}" y="{:.1}" width="{:.1}" height="{height:.1}"/><text x="{middle:.1}" y="{:.1}">{n}</text><text x="{middle:.1}" y="{:.1}">{}</text>"#,
            ABOVE + HEIGHT - height,
            0.8 * step,
            ABOVE + HEIGHT - height - 4.0,
            ABOVE + HEIGHT + 16.0,
            escape(name)
        );
    }
    svg + "</svg>"
}

/// Counts of numbers in equal intervals; the name of a bar is its lower edge.
pub fn intervals(values: &[f64], bins: usize) -> Vec<(String, usize)> {
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    if values.is_empty() {
        return vec![];
    }
    let step = ((high - low) / bins as f64).max(f64::MIN_POSITIVE);
    let mut counts = vec![0; bins];
    for x in values {
        counts[(((x - low) / step) as usize).min(bins - 1)] += 1;
    }
    counts.into_iter().enumerate().map(|(i, n)| (format!("{:.0}", low + step * i as f64), n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_once() {
        let counts = intervals(&[1.0, 1.0, 2.0, 3.0, 5.0], 4);
        assert_eq!(counts.iter().map(|(_, n)| n).sum::<usize>(), 5);
        assert_eq!(counts[0], ("1".to_owned(), 2));
        assert_eq!(counts[3].1, 1);
    }

    #[test]
    fn names_cannot_break_out_of_the_picture() {
        let svg = bars("t", &[("<script>\"&".to_owned(), 1)]);
        assert!(svg.contains("&lt;script&gt;&quot;&amp;") && !svg.contains("<script>"));
    }
}
