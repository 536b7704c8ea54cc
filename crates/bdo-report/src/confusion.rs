//! Who was taken for whom: counts of true against predicted classes.

use std::fmt::Write;

use crate::escape;
use crate::palette::ColourScale;

const SIDE: f64 = 64.0;

/// Counts, row-major: true classes down, predicted across.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    /// Names of the classes.
    pub classes: Vec<String>,
    /// classes x classes.
    pub counts: Vec<usize>,
}

impl Confusion {
    /// Counts pairs of a true class and the probabilities of all.
    pub fn of(classes: &[String], pairs: impl Iterator<Item = (usize, usize)>) -> Self {
        let k = classes.len();
        let mut counts = vec![0; k * k];
        pairs.filter(|(t, p)| *t < k && *p < k).for_each(|(truth, said)| counts[truth * k + said] += 1);
        Self { classes: classes.to_vec(), counts }
    }

    /// Draws the matrix at a place and gives its width and height. Colour is the share of a true class.
    pub(crate) fn draw(&self, svg: &mut String, title: &str, x: f64, y: f64) -> (f64, f64) {
        let k = self.classes.len();
        let side = SIDE.min(420.0 / k.max(1) as f64);
        let (left, top) = (x + 96.0, y + 66.0);
        let title = escape::html(&escape::shortened(title, 34));
        let _ = write!(
            svg,
            r##"<text class="ink" fill="#1b1b1f" x="{:.1}" y="{:.1}" font-weight="bold">{title}</text>"##,
            x + 4.0,
            y + 18.0
        );
        let _ = write!(
            svg,
            r##"<text class="soft" fill="#55555c" x="{left:.1}" y="{:.1}">predicted</text><text class="soft" fill="#55555c" x="{:.1}" y="{:.1}">true</text>"##,
            y + 40.0,
            x + 4.0,
            top - 8.0
        );
        for truth in 0..k {
            let row = &self.counts[truth * k..(truth + 1) * k];
            let people = row.iter().sum::<usize>().max(1) as f64;
            let name = escape::html(&escape::shortened(&self.classes[truth], 12));
            let _ = write!(
                svg,
                r##"<text class="ink" fill="#1b1b1f" font-size="12" x="{:.1}" y="{:.1}" text-anchor="end">{name}</text>"##,
                left - 6.0,
                top + side * (truth as f64 + 0.5) + 4.0
            );
            let _ = write!(
                svg,
                r##"<text class="ink" fill="#1b1b1f" font-size="12" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
                left + side * (truth as f64 + 0.5),
                top - 8.0,
                escape::html(&escape::shortened(&self.classes[truth], (side / 7.0) as usize))
            );
            for (said, count) in row.iter().enumerate() {
                let share = *count as f64 / people;
                let fill = ColourScale::Between(0.0, 1.0).css(share);
                let ink = if share > 0.55 { "#111" } else { "#fff" };
                let (cx, cy) = (left + side * said as f64, top + side * truth as f64);
                let text = escape::html(&format!(
                    "true {}, predicted {}: {count} ({:.0} %)",
                    self.classes[truth],
                    self.classes[said],
                    100.0 * share
                ));
                let _ = write!(
                    svg,
                    r#"<rect x="{cx:.1}" y="{cy:.1}" width="{:.1}" height="{:.1}" fill="{fill}" data-t="{text}"/><text pointer-events="none" font-size="12" fill="{ink}" x="{:.1}" y="{:.1}" text-anchor="middle">{count}</text>"#,
                    side - 1.0,
                    side - 1.0,
                    cx + side / 2.0,
                    cy + side / 2.0 + 4.0
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
        let found = Confusion::of(&["a".into(), "b".into()], [(0, 0), (0, 1), (1, 1), (1, 1), (7, 0)].into_iter());
        assert_eq!(found.counts, [1, 1, 0, 2]);
    }
}
