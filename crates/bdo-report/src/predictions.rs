//! Figures of predictions: confusion, calibration, predicted against true values.

use std::collections::BTreeMap;

use bdo_eval::method::Prediction;
use bdo_eval::metric::most_probable;

use crate::chart::{Axis, Chart, Marks, Point, Reference};
use crate::confusion::Confusion;
use crate::escape;
use crate::figure::Figure;
use crate::palette::Colour;
use crate::scale::{ends, number};
use crate::svg::wrap;

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
            csv += &format!(
                "{},{},{},{count}\n",
                escape::csv(&method.method),
                escape::csv(&method.classes[i / k]),
                escape::csv(&method.classes[i % k])
            );
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
            let p = person.predicted.get(1).copied().unwrap_or(f64::NAN);
            if !p.is_finite() {
                continue;
            }
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
    Figure::of_charts(
        format!("calibration-{target}"),
        format!("{target}: calibration"),
        "Predictions of all repetitions in ten equal bins: their mean against the share of people of the class. Bins with fewer than five predictions are not drawn.",
        &[curve],
        1,
    )
}

fn against_truth(target: &str, methods: &[&Predicted]) -> Figure {
    let said = |p: &Prediction| p.predicted.first().copied().unwrap_or(f64::NAN);
    let (low, high) = ends(methods.iter().flat_map(|m| m.each()).flat_map(|p| [p.truth, said(p)]));
    let room = (0.03 * (high - low)).max(1e-9);
    let axis = |what: &str| Axis::linear(format!("{what} {target}")).between(low - room, high + room);
    let chart = |(i, method): (usize, &&Predicted)| {
        let points = method.people.iter().map(|(seed, p)| {
            let (truth, predicted) = (number(p.truth), number(said(p)));
            Point::at(p.truth, said(p))
                .noted(format!("{} (seed {seed}): true {truth}, predicted {predicted}", p.subject))
        });
        Chart::new(&method.method, axis("true"), axis("predicted"))
            .with("", Colour::Kind(i), Marks::Dots, points.collect())
            .against(Reference::Identity("equal".into()))
            .sized(360.0, 340.0)
    };
    let charts: Vec<Chart> = methods.iter().enumerate().map(chart).collect();
    Figure::of_charts(
        format!("predicted-{target}"),
        format!("{target}: predicted against true"),
        "One point per test person and repetition; both axes have the same ends.",
        &charts,
        charts.len().min(3),
    )
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
}
