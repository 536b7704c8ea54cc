//! Labels of people.

use std::collections::BTreeMap;

use bdo_data::cohort::Cohort;
use bdo_data::participants::Label;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::page::Page;
use crate::palette::Colour;
use crate::scale::{ends, number};

const BINS: usize = 16;
/// Columns with more levels, such as identifiers, are not drawn.
const MOST_LEVELS: usize = 24;
/// Most columns that are drawn.
const MOST_COLUMNS: usize = 12;

pub(super) fn show(cohort: &Cohort, page: &mut Page) {
    page.section("People");
    let (mut drawn, mut left_out) = (0, vec![]);
    for column in cohort.participants().columns() {
        let name = format!("people-{column}");
        let figure = match cohort.participants().label(column) {
            Some(Label::Number(values)) => {
                let values: Vec<f64> = values.iter().map(|v| v.unwrap_or(f64::NAN)).collect();
                histogram(&name, column, column, "people", &values)
            }
            Some(Label::Category(values)) => {
                let mut counts = BTreeMap::new();
                values.iter().flatten().for_each(|v| *counts.entry(v.as_str()).or_insert(0) += 1);
                let missing = values.iter().filter(|v| v.is_none()).count();
                (1..=MOST_LEVELS).contains(&counts.len()).then(|| counted(&name, column, &counts, missing))
            }
            None => None,
        };
        match figure.filter(|_| drawn < MOST_COLUMNS) {
            Some(figure) => {
                drawn += 1;
                page.figure(&figure);
            }
            None => left_out.push(column.clone()),
        }
    }
    if cohort.participants().columns().is_empty() {
        page.missing(
            "The cohort has no labels; a table of them is given at ingest:",
            "bdo ingest SOURCE OUT --participants FILE",
        );
    } else if !left_out.is_empty() {
        page.paragraph(&format!("Not drawn, since there are too many values or columns: {}.", left_out.join(", ")));
    }
}

/// A histogram in equal bins; `what` is counted.
pub(super) fn histogram(name: &str, title: &str, label: &str, what: &str, values: &[f64]) -> Option<Figure> {
    let known: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    let (low, high) = ends(known.iter().copied());
    if known.is_empty() {
        return None;
    }
    let step = if high > low { (high - low) / BINS as f64 } else { (high.abs() * 0.01).max(0.01) };
    let mut counts = vec![0usize; if high > low { BINS } else { 1 }];
    let last = counts.len() - 1;
    known.iter().for_each(|x| counts[(((x - low) / step) as usize).min(last)] += 1);
    let points = counts.iter().enumerate().map(|(i, n)| {
        let (from, to) = (low + step * i as f64, low + step * i as f64 + step);
        let note = format!("{} to {}: {n}", number(from), number(to));
        Point::at(from + step / 2.0, *n as f64).between((from, to)).noted(note)
    });
    let chart = Chart::new("", Axis::linear(label), Axis::linear(what))
        .with("", Colour::Kind(0), Marks::Bars, points.collect())
        .sized(420.0, 260.0);
    Some(figure_of(name, title, chart, known.len(), values.len() - known.len()))
}

fn counted(name: &str, title: &str, counts: &BTreeMap<&str, usize>, missing: usize) -> Figure {
    let point =
        |(i, (level, n)): (usize, (&&str, &usize))| Point::at(i as f64, *n as f64).noted(format!("{level}: {n}"));
    let names = counts.keys().map(|name| (*name).to_owned()).collect();
    let chart = Chart::new("", Axis::of_names("", names), Axis::linear("people"))
        .with("", Colour::Kind(2), Marks::GroupedBars, counts.iter().enumerate().map(point).collect())
        .sized(420.0, 260.0);
    figure_of(name, title, chart, counts.values().sum(), missing)
}

fn figure_of(name: &str, title: &str, chart: Chart, known: usize, missing: usize) -> Figure {
    Figure::of_charts(name, title, format!("{known} values, {missing} missing."), &[chart], 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_once() {
        let figure = histogram("n", "t", "x", "y", &[1.0, 1.0, 2.0, 3.0, 5.0, f64::NAN]).unwrap();
        let counts: Vec<f64> =
            figure.csv.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().parse().unwrap()).collect();
        assert_eq!((counts.len(), counts.iter().sum::<f64>(), counts[0]), (BINS, 5.0, 2.0));
        assert!(figure.caption.contains("1 missing"));
        assert_eq!(histogram("n", "t", "x", "y", &[f64::NAN]), None);
        assert_eq!(histogram("n", "t", "x", "y", &[2.0, 2.0]).unwrap().csv.lines().count(), 2);
    }
}
