//! Labels of people.

use std::collections::{BTreeMap, BTreeSet};

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
/// Columns under the names that `bdo ingest` gives them.
const GIVEN: [&str; 5] = ["age", "sex", "diagnosis", "site", "mean_fd"];
const MOST_COLUMNS: usize = 12;

pub(super) fn show(cohort: &Cohort, page: &mut Page) {
    page.section("People");
    let (mut left_out, mut untold) = (vec![], vec![]);
    let mut drawn: Vec<(&String, Label)> = vec![];
    // Names that ingest gives come first: of a code and its name the name is drawn.
    let mut columns: Vec<&String> = cohort.participants().columns().iter().collect();
    columns.sort_by_key(|column| GIVEN.iter().position(|given| given == column).unwrap_or(GIVEN.len()));
    for column in columns {
        let name = format!("people-{column}");
        let label = cohort.participants().label(column);
        if let Some(reason) = label.as_ref().and_then(|label| tells_nothing(label, &drawn)) {
            untold.push(format!("{column} ({reason})"));
            continue;
        }
        let figure = match &label {
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
        match figure.filter(|_| drawn.len() < MOST_COLUMNS) {
            Some(figure) => {
                drawn.extend(label.map(|label| (column, label)));
                page.figure(&figure);
            }
            None => left_out.push(column.clone()),
        }
    }
    if !untold.is_empty() {
        page.paragraph(&format!("Not drawn, since they tell nothing more: {}.", untold.join(", ")));
    }
    if cohort.participants().columns().is_empty() {
        page.missing("The cohort has no labels; a table of them is given at ingest:", super::LABELS_COMMAND);
    } else if !left_out.is_empty() {
        page.paragraph(&format!("Not drawn, since there are too many values or columns: {}.", left_out.join(", ")));
    }
}

/// Why a figure of a column would tell nothing that those before it do not: everybody has one value, or it is another column in
/// other words, as a code beside the name it stands for.
fn tells_nothing(label: &Label, drawn: &[(&String, Label)]) -> Option<String> {
    let own = label.texts();
    let different: BTreeSet<&String> = own.iter().flatten().collect();
    if let (1, Some(value)) = (different.len(), different.first().filter(|_| own.iter().all(Option::is_some))) {
        return Some(format!("{value} for everybody"));
    }
    let repeats = |(_, other): &&(&String, Label)| {
        let other = other.texts();
        let pairs: BTreeSet<_> = own.iter().zip(&other).collect();
        let others: BTreeSet<_> = other.iter().flatten().collect();
        // One value for each of the other's; where nobody shares a value, only equal numbers are the same.
        let nobody_missing_alone = own.iter().zip(&other).all(|(a, b)| a.is_some() == b.is_some());
        nobody_missing_alone
            && different.len() == others.len()
            && pairs.iter().filter(|(a, _)| a.is_some()).count() == different.len()
            && (own == other || different.len() * 2 < own.len())
    };
    drawn.iter().find(repeats).map(|(name, _)| format!("the same as {name}"))
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
    fn twins_and_constants_are_not_drawn() {
        let words = |values: &[&str]| Label::Category(values.iter().map(|v| Some((*v).to_owned())).collect());
        let numbers = |values: &[f64]| Label::Number(values.iter().map(|v| Some(*v)).collect());
        let sex = ("sex".to_owned(), words(&["F", "M", "F", "F", "M"]));
        let age = ("age".to_owned(), numbers(&[20.5, 31.0, 22.0, 40.0, 8.0]));
        let drawn = [(&sex.0, sex.1.clone()), (&age.0, age.1.clone())];
        let says = |label: Label| tells_nothing(&label, &drawn);
        assert_eq!(says(numbers(&[2.0, 1.0, 2.0, 2.0, 1.0])), Some("the same as sex".into()));
        assert_eq!(says(age.1.clone()), Some("the same as age".into()));
        assert_eq!(says(numbers(&[2.0; 5])), Some("2 for everybody".into()));
        assert_eq!(says(numbers(&[1.0, 2.0, 3.0, 4.0, 5.0])), None, "other numbers, each once as those of age");
        assert_eq!(says(words(&["F", "M", "F", "M", "M"])), None, "one person is another");
        assert_eq!(says(Label::Number(vec![Some(2.0), Some(1.0), Some(2.0), None, Some(1.0)])), None);
    }

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
