//! What was predicted against what is true.

use std::collections::BTreeMap;

use bdo_eval::metric::most_probable;

use crate::chart::{Axis, Chart, Marks, Point, Reference, wrap};
use crate::confusion::Confusion;
use crate::escape;
use crate::figure::Figure;
use crate::palette::Colour;
use crate::scale::number;

/// Methods shown side by side; a page with more would be read by nobody.
pub(crate) const MOST_METHODS: usize = 6;
/// Bins of the calibration curve.
const BINS: usize = 10;
/// The share in a smaller bin says nothing.
const LEAST_IN_BIN: usize = 5;

/// One tested person in one repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The person.
    pub subject: String,
    /// The repetition.
    pub seed: u64,
    /// The number, or the place of the class.
    pub truth: f64,
    /// The number, or the probability of every class.
    pub predicted: Vec<f64>,
}

/// What one method said about one label.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// The method.
    pub method: String,
    /// The label.
    pub target: String,
    /// Names of the classes; empty for a number.
    pub classes: Vec<String>,
    /// Everybody tested, repetition by repetition.
    pub people: Vec<Said>,
}

/// Figures of several methods on one label.
pub fn prediction_figures(target: &str, methods: &[Predicted], command: &str) -> Vec<Figure> {
    let shown: Vec<&Predicted> = methods.iter().filter(|m| !m.people.is_empty()).take(MOST_METHODS).collect();
    let Some(first) = shown.first() else { return vec![] };
    let figures = match first.classes.len() {
        0 => vec![against_truth(target, &shown)],
        2 => vec![confusions(target, &shown), calibration(target, &shown)],
        _ => vec![confusions(target, &shown)],
    };
    figures.into_iter().map(|f| f.made_by(command)).collect()
}

fn confusions(target: &str, methods: &[&Predicted]) -> Figure {
    let (mut svg, mut x, mut y, mut width, mut row) = (String::new(), 0.0, 0.0, 0.0f64, 0.0f64);
    let mut csv = "method,true,predicted,count\n".to_owned();
    for method in methods {
        let pairs = method.people.iter().map(|p| (p.truth as usize, most_probable(&p.predicted)));
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
        title: format!("{target}: who was taken for whom"),
        caption: "Counts of tested people, all repetitions together; the colour is the share of a true class (dark 0, bright 1). The most probable class counts as predicted.".into(),
        svg: wrap(&svg, width, y + row, &format!("confusion matrices of {target}")),
        csv,
        command: String::new(),
        wide: methods.len() > 1,
    }
}

fn calibration(target: &str, methods: &[&Predicted]) -> Figure {
    let positive = methods[0].classes[1].clone();
    let mut curve = Chart::new(
        "",
        Axis::linear(format!("predicted probability of {positive}")).between(0.0, 1.0),
        Axis::linear("share that is").between(0.0, 1.0),
    )
    .against(Reference::Identity("perfect".into()));
    curve.size = Some((480.0, 430.0));
    for (i, method) in methods.iter().enumerate() {
        let mut bins: BTreeMap<usize, (f64, f64, usize)> = BTreeMap::new();
        for person in &method.people {
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
            let n = *n as f64;
            Point {
                note: Some(format!(
                    "{}: {n} predictions around {:.2}, {:.2} of them true",
                    method.method,
                    p / n,
                    is / n
                )),
                ..Point::at(p / n, is / n)
            }
        });
        curve = curve.with(&method.method, Colour::Kind(i), Marks::LineAndDots, points.collect());
    }
    Figure::of_charts(
        &format!("calibration-{target}"),
        &format!("{target}: are the probabilities meant?"),
        "Predictions of all repetitions in ten equal bins: their mean against the share of people of the class. Bins with fewer than five predictions are not drawn.",
        &[curve],
        1,
    )
}

fn against_truth(target: &str, methods: &[&Predicted]) -> Figure {
    let all = methods
        .iter()
        .flat_map(|m| &m.people)
        .flat_map(|p| [p.truth, p.predicted.first().copied().unwrap_or(f64::NAN)]);
    let (low, high) =
        all.filter(|x| x.is_finite()).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
    let room = (0.03 * (high - low)).max(1e-9);
    let charts: Vec<Chart> = methods
        .iter()
        .enumerate()
        .map(|(i, method)| {
            let points = method.people.iter().map(|p| {
                let said = p.predicted.first().copied().unwrap_or(f64::NAN);
                Point {
                    note: Some(format!(
                        "{} (seed {}): true {}, predicted {}",
                        p.subject,
                        p.seed,
                        number(p.truth),
                        number(said)
                    )),
                    ..Point::at(p.truth, said)
                }
            });
            let mut chart = Chart::new(
                &method.method,
                Axis::linear(format!("true {target}")).between(low - room, high + room),
                Axis::linear(format!("predicted {target}")).between(low - room, high + room),
            )
            .with("", Colour::Kind(i), Marks::Dots, points.collect())
            .against(Reference::Identity("equal".into()));
            chart.size = Some((360.0, 340.0));
            chart
        })
        .collect();
    let columns = charts.len().min(3);
    Figure::of_charts(
        &format!("predicted-{target}"),
        &format!("{target}: predicted against true"),
        "One point a tested person and repetition; both axes have the same ends.",
        &charts,
        columns,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(classes: &[&str]) -> Predicted {
        let people = (0..20).map(|i| Said {
            subject: format!("s{i}"),
            seed: 0,
            truth: if classes.is_empty() { f64::from(i) } else { f64::from(i % 2) },
            predicted: if classes.is_empty() {
                vec![f64::from(i) + 1.0]
            } else {
                vec![1.0 - f64::from(i) / 20.0, f64::from(i) / 20.0]
            },
        });
        Predicted {
            method: "m".into(),
            target: "t".into(),
            classes: classes.iter().map(|c| (*c).to_owned()).collect(),
            people: people.collect(),
        }
    }

    #[test]
    fn every_kind_of_label_has_its_figures() {
        assert_eq!(prediction_figures("t", &[method(&[])], "").len(), 1);
        assert_eq!(prediction_figures("t", &[method(&["a", "b"])], "").len(), 2);
        assert_eq!(prediction_figures("t", &[method(&["a", "b", "c"])], "").len(), 1);
        assert!(prediction_figures("t", &[], "").is_empty());
        let scatter = &prediction_figures("t", &[method(&[])], "")[0];
        assert_eq!(scatter.svg.matches("<circle").count(), 20);
        assert_eq!(scatter.csv.lines().count(), 21);
    }
}
