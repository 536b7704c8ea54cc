//! Confusion matrices: counts of true against predicted classes.

use std::fmt::Write;

use crate::escape;
use crate::palette::ColourScale;
use crate::svg;

const SIDE: f64 = 64.0;

/// Counts, row-major: true classes down, predicted classes across.
pub(crate) struct Confusion<'a> {
    pub(crate) classes: &'a [String],
    pub(crate) counts: Vec<usize>,
}

impl<'a> Confusion<'a> {
    pub(crate) fn of(classes: &'a [String], pairs: impl Iterator<Item = (usize, usize)>) -> Self {
        let k = classes.len();
        let mut counts = vec![0; k * k];
        pairs.filter(|(t, p)| *t < k && *p < k).for_each(|(truth, said)| counts[truth * k + said] += 1);
        Self { classes, counts }
    }

    /// Draws the matrix at a place and returns its width and height. The colour is the share of a true class.
    pub(crate) fn draw(&self, out: &mut String, title: &str, x: f64, y: f64) -> (f64, f64) {
        let k = self.classes.len();
        let side = SIDE.min(420.0 / k.max(1) as f64);
        let (left, top) = (x + 96.0, y + 66.0);
        svg::text(out, (x + 4.0, y + 18.0), r#"font-weight="bold""#, &escape::shortened(title, 34));
        svg::soft_text(out, (left, y + 40.0), "", "predicted");
        svg::soft_text(out, (x + 4.0, top - 8.0), "", "true");
        for truth in 0..k {
            let row = &self.counts[truth * k..(truth + 1) * k];
            let people = row.iter().sum::<usize>().max(1) as f64;
            let (name, middle) = (&self.classes[truth], side * (truth as f64 + 0.5));
            let at = (left - 6.0, top + middle + 4.0);
            svg::text(out, at, r#"font-size="12" text-anchor="end""#, &escape::shortened(name, 12));
            let short = escape::shortened(name, (side / 7.0) as usize);
            svg::text(out, (left + middle, top - 8.0), r#"font-size="12" text-anchor="middle""#, &short);
            for (said, count) in row.iter().enumerate() {
                let share = *count as f64 / people;
                let fill = ColourScale::Between(0.0, 1.0).css(share);
                let ink = if share > 0.55 { "#111" } else { "#fff" };
                let (cx, cy) = (left + side * said as f64, top + side * truth as f64);
                let (percent, predicted) = (100.0 * share, &self.classes[said]);
                let text = escape::html(&format!("true {name}, predicted {predicted}: {count} ({percent:.0} %)"));
                let (inner, tx, ty) = (side - 1.0, cx + side / 2.0, cy + side / 2.0 + 4.0);
                let _ = write!(
                    out,
                    r#"<rect x="{cx:.1}" y="{cy:.1}" width="{inner:.1}" height="{inner:.1}" fill="{fill}" data-t="{text}"/><text pointer-events="none" font-size="12" fill="{ink}" x="{tx:.1}" y="{ty:.1}" text-anchor="middle">{count}</text>"#
                );
            }
        }
        (96.0 + side * k as f64 + 24.0, 66.0 + side * k as f64 + 14.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_where_they_belong() {
        let classes = ["a".into(), "b".into()];
        let found = Confusion::of(&classes, [(0, 0), (0, 1), (1, 1), (1, 1), (7, 0)].into_iter());
        assert_eq!(found.counts, [1, 1, 0, 2]);
    }
}
