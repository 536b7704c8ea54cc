//! Figures of predictions: confusion, calibration, predicted against true values.

use std::collections::BTreeMap;
use std::fmt::Write;

use bdo_eval::method::Prediction;
use bdo_eval::metric::most_probable;

use crate::chart::{Axis, Chart, Marks, Point, Reference};
use crate::figure::Figure;
use crate::palette::{Colour, ColourScale};
use crate::scale::{ends, number};
use crate::svg::wrap;
use crate::{escape, svg};

pub(crate) const MOST_METHODS: usize = 6;
const BINS: usize = 10;
/// Smaller bins are not drawn.
const LEAST_IN_BIN: usize = 5;

/// The predictions of one method for one label, by repetition; no classes for a number.
pub(crate) struct Predicted {
    pub(crate) method: String,
    pub(crate) classes: Vec<String>,
    pub(crate) people: Vec<(u64, Prediction)>,
}

impl Predicted {
    fn each(&self) -> impl Iterator<Item = &Prediction> {
        self.people.iter().map(|(_, prediction)| prediction)
    }
}

pub(crate) fn prediction_figures(target: &str, methods: &[Predicted]) -> Vec<Figure> {
    let shown: Vec<&Predicted> = methods.iter().filter(|m| !m.people.is_empty()).take(MOST_METHODS).collect();
    match shown.first().map(|first| first.classes.len()) {
        None => vec![],
        Some(0) => vec![against_truth(target, &shown)],
        Some(2) => vec![confusions(target, &shown), calibration(target, &shown)],
        Some(_) => vec![confusions(target, &shown)],
    }
}

fn confusions(target: &str, methods: &[&Predicted]) -> Figure {
    let (mut svg, mut x, mut y, mut width, mut row) = (String::new(), 0.0, 0.0, 0.0f64, 0.0f64);
    let mut csv = "method,true,predicted,count\n".to_owned();
    for method in methods {
        let pairs = method.each().map(|p| (p.truth as usize, most_probable(&p.predicted)));
        let found = Confusion::of(&method.classes, pairs);
        if x > 0.0 && x + 250.0 > 880.0 {
            (x, y, row) = (0.0, y + row, 0.0);
        }
        let size = found.draw(&mut svg, &method.method, x, y);
        x += size.0.max(260.0);
        row = row.max(size.1);
        width = width.max(x);
        for (i, count) in found.counts.iter().enumerate() {
            let k = method.classes.len();
            let (truth, said) = (&method.classes[i / k], &method.classes[i % k]);
            csv += &escape::csv_line([&method.method, truth, said, &count.to_string()]);
        }
    }
    Figure {
        name: format!("confusion-{target}"),
        title: format!("{target}: confusion matrices"),
        caption: "Counts of test people over all repetitions; the colour is the share of a true class (dark 0, bright 1). The predicted class is the most probable one.".into(),
        svg: wrap(&svg, width, y + row, &format!("confusion matrices of {target}")),
        csv,
        wide: methods.len() > 1,
    }
}

fn calibration(target: &str, methods: &[&Predicted]) -> Figure {
    let positive = methods[0].classes[1].clone();
    let mut curve = Chart::new(
        "",
        Axis::linear(format!("predicted probability of {positive}")).between(0.0, 1.0),
        Axis::linear(format!("share that is {positive}")).between(0.0, 1.0),
    )
    .against(Reference::Identity("perfect".into()))
    .sized(480.0, 430.0);
    for (i, method) in methods.iter().enumerate() {
        let mut bins: BTreeMap<usize, (f64, f64, usize)> = BTreeMap::new();
        for person in method.each() {
            let Some(p) = person.predicted.get(1).copied().filter(|p| p.is_finite()) else { continue };
            let bin = bins.entry(((p * BINS as f64) as usize).min(BINS - 1)).or_default();
            bin.0 += p;
            bin.1 += f64::from(u8::from(person.truth as usize == 1));
            bin.2 += 1;
        }
        let points = bins.values().filter(|(_, _, n)| *n >= LEAST_IN_BIN).map(|(p, is, n)| {
            let (mean, share) = (p / *n as f64, is / *n as f64);
            let note = format!("{}: {n} predictions around {mean:.2}, {share:.2} of them true", method.method);
            Point::at(mean, share).noted(note)
        });
        curve = curve.with(&method.method, Colour::Kind(i), Marks::LineAndDots, points.collect());
    }
    let caption = "Predictions of all repetitions in ten equal bins: their mean against the share of people of the class. Bins with fewer than five predictions are not drawn.";
    Figure::of_charts(format!("calibration-{target}"), format!("{target}: calibration"), caption, &[curve], 1)
}

fn against_truth(target: &str, methods: &[&Predicted]) -> Figure {
    let said = |p: &Prediction| p.predicted.first().copied().unwrap_or(f64::NAN);
    let (low, high) = ends(methods.iter().flat_map(|m| m.each()).flat_map(|p| [p.truth, said(p)]));
    let room = (0.03 * (high - low)).max(1e-9);
    let axis = |what: &str| Axis::linear(format!("{what} {target}")).between(low - room, high + room);
    let side = if methods.len() == 1 { (560.0, 480.0) } else { (360.0, 340.0) };
    let chart = |(i, method): (usize, &&Predicted)| {
        let points = method.people.iter().map(|(seed, p)| {
            let (truth, predicted) = (number(p.truth), number(said(p)));
            Point::at(p.truth, said(p))
                .noted(format!("{} (seed {seed}): true {truth}, predicted {predicted}", p.subject))
        });
        Chart::new(&method.method, axis("true"), axis("predicted"))
            .with("", Colour::Kind(i), Marks::Dots, points.collect())
            .against(Reference::Identity("equal".into()))
            .sized(side.0, side.1)
    };
    let charts: Vec<Chart> = methods.iter().enumerate().map(chart).collect();
    let caption = "One point per test person and repetition; both axes have the same ends.";
    let (name, title) = (format!("predicted-{target}"), format!("{target}: predicted against true"));
    Figure::of_charts(name, title, caption, &charts, charts.len().min(3))
}

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

    fn method(classes: &[&str]) -> Predicted {
        let people = (0..20).map(|i| {
            let (x, p) = (f64::from(i), f64::from(i) / 20.0);
            let (truth, predicted) =
                if classes.is_empty() { (x, vec![x + 1.0]) } else { (f64::from(i % 2), vec![1.0 - p, p]) };
            (0, Prediction { subject: format!("s{i}"), truth, predicted })
        });
        Predicted {
            method: "m".into(),
            classes: classes.iter().map(|c| (*c).to_owned()).collect(),
            people: people.collect(),
        }
    }

    #[test]
    fn every_kind_of_label_has_its_figures() {
        assert_eq!(prediction_figures("t", &[method(&[])]).len(), 1);
        assert_eq!(prediction_figures("t", &[method(&["a", "b"])]).len(), 2);
        assert_eq!(prediction_figures("t", &[method(&["a", "b", "c"])]).len(), 1);
        assert!(prediction_figures("t", &[]).is_empty());
        let scatter = &prediction_figures("t", &[method(&[])])[0];
        assert_eq!(scatter.svg.matches("<circle").count(), 20);
        assert_eq!(scatter.csv.lines().count(), 21);
    }

    #[test]
    fn pairs_are_counted_where_they_belong() {
        let classes = ["a".into(), "b".into()];
        let found = Confusion::of(&classes, [(0, 0), (0, 1), (1, 1), (1, 1), (7, 0)].into_iter());
        assert_eq!(found.counts, [1, 1, 0, 2]);
    }
}
