//! Labels of people.

use std::collections::BTreeMap;

use bdo_data::cohort::Cohort;
use bdo_data::participants::Label;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::page::Page;
use crate::palette::Colour;
use crate::scale::number;

const BINS: usize = 16;
/// More levels than this (an identifier) have no shape worth drawing.
const MOST_LEVELS: usize = 24;
/// Columns that are drawn; a table of hundreds of labels is described in words.
const MOST_COLUMNS: usize = 12;

pub(super) fn show(cohort: &Cohort, page: &mut Page, command: &str) {
    page.section("People");
    let (mut drawn, mut left_out) = (0, vec![]);
    for column in cohort.participants().columns() {
        let figure = match cohort.participants().label(column) {
            Some(Label::Number(values)) => {
                let values: Vec<f64> = values.iter().map(|v| v.unwrap_or(f64::NAN)).collect();
                histogram(&format!("people-{column}"), column, column, "people", &values)
            }
            Some(Label::Category(values)) => {
                let mut counts = BTreeMap::new();
                values.iter().flatten().for_each(|v| *counts.entry(v.clone()).or_insert(0) += 1);
                let missing = values.iter().filter(|v| v.is_none()).count();
                (1..=MOST_LEVELS)
                    .contains(&counts.len())
                    .then(|| counted(&format!("people-{column}"), column, &counts, missing))
            }
            None => None,
        };
        match figure.filter(|_| drawn < MOST_COLUMNS) {
            Some(figure) => {
                drawn += 1;
                page.figure(&figure.made_by(command));
            }
            None => left_out.push(column.clone()),
        }
    }
    if cohort.participants().columns().is_empty() {
        page.missing(
            "The cohort has no labels of people; a table of them is given at ingest:",
            "bdo ingest SOURCE OUT --participants FILE",
        );
    } else if !left_out.is_empty() {
        page.paragraph(&format!("Not drawn, since there are too many values or columns: {}.", left_out.join(", ")));
    }
}

/// Counts of numbers in equal intervals; `what` is counted.
pub(super) fn histogram(name: &str, title: &str, label: &str, what: &str, values: &[f64]) -> Option<Figure> {
    let known: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    let (low, high) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    if known.is_empty() {
        return None;
    }
    let step = if high > low { (high - low) / BINS as f64 } else { (high.abs() * 0.01).max(0.01) };
    let mut counts = vec![0usize; if high > low { BINS } else { 1 }];
    let last = counts.len() - 1;
    known.iter().for_each(|x| counts[(((x - low) / step) as usize).min(last)] += 1);
    let points = counts.iter().enumerate().map(|(i, n)| {
        let from = low + step * i as f64;
        let note = format!("{} to {}: {n}", number(from), number(from + step));
        Point { between: Some((from, from + step)), note: Some(note), ..Point::at(from + step / 2.0, *n as f64) }
    });
    let mut chart = Chart::new("", Axis::linear(label), Axis::linear(what)).with(
        "",
        Colour::Kind(0),
        Marks::Bars,
        points.collect(),
    );
    chart.size = Some((420.0, 260.0));
    Some(Figure::of_charts(
        name,
        title,
        &format!("{} values, {} missing.", known.len(), values.len() - known.len()),
        &[chart],
        1,
    ))
}

fn counted(name: &str, title: &str, counts: &BTreeMap<String, usize>, missing: usize) -> Figure {
    let names: Vec<String> = counts.keys().cloned().collect();
    let points = counts
        .iter()
        .enumerate()
        .map(|(i, (level, n))| Point { note: Some(format!("{level}: {n}")), ..Point::at(i as f64, *n as f64) });
    let mut chart = Chart::new("", Axis::of_names("", names), Axis::linear("people")).with(
        "",
        Colour::Kind(2),
        Marks::GroupedBars,
        points.collect(),
    );
    chart.size = Some((420.0, 260.0));
    Figure::of_charts(
        name,
        title,
        &format!("{} values, {missing} missing.", counts.values().sum::<usize>()),
        &[chart],
        1,
    )
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
