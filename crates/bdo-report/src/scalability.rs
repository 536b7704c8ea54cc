//! Several runs together: how error falls over passes, by size of the model and by share of the data.

use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::palette::Colour;
use crate::run_folder::{RunFolder, plain};
use crate::table::Table;

/// Settings that scaling is about, with how they are called.
const SCALED: [(&str, &str); 3] =
    [("/model/size", "size"), ("/model/width", "width"), ("/train/data_fraction", "share of the data")];

/// One figure for each of size and share of data that differs between the runs, or one of all runs.
pub fn scalability_figures(runs: &[RunFolder], command: &str) -> Vec<Figure> {
    let of = |run: &RunFolder, pointer: &str| run.setting(pointer).map_or_else(|| "-".to_owned(), plain);
    let mut figures: Vec<Figure> = SCALED
        .iter()
        .filter(|(pointer, _)| runs.iter().any(|r| of(r, pointer) != of(&runs[0], pointer)))
        .map(|(pointer, name)| figure(runs, name, |run| format!("{name} {}", of(run, pointer))))
        .collect();
    if figures.is_empty() {
        figures.push(figure(runs, "run", |run| {
            run.path.file_name().map_or_else(|| "run".into(), |n| n.to_string_lossy().into_owned())
        }));
    }
    figures.into_iter().filter(|f| f.csv.lines().count() > 1).map(|f| f.made_by(command)).collect()
}

fn figure(runs: &[RunFolder], what: &str, group: impl Fn(&RunFolder) -> String) -> Figure {
    let mut names: Vec<String> = runs.iter().map(&group).collect();
    names.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(b)));
    names.dedup();
    let mut charts = vec![];
    for (label, explained) in [("mean squared error at hidden frames", false), ("explained variance (%)", true)] {
        let mut chart = Chart::new("", Axis::linear("passes over the data"), Axis::linear(label));
        for run in runs {
            let (Some(journal), Some(per)) = (&run.journal, run.steps_per_epoch()) else { continue };
            let name = group(run);
            let colour = names.iter().position(|n| *n == name).unwrap_or(0);
            let points = journal.validations.iter().map(|v| {
                let y = if explained { 100.0 * v.explained_variance } else { v.mse };
                Point {
                    note: Some(format!("{name} ({}): {y:.4} after {} steps", run.path.display(), v.step)),
                    ..Point::at(v.step as f64 / per, y)
                }
            });
            chart = chart.with(name.clone(), Colour::Kind(colour), Marks::LineAndDots, points.collect());
        }
        chart.size = Some((520.0, 340.0));
        charts.push(chart);
    }
    Figure::of_charts(
        &format!("scalability-{what}"),
        &format!("Validation over passes, by {what}"),
        "One curve a run, on its held-out people. Curves are comparable where the cohort and the division of people are the same (see the table).",
        &charts,
        2,
    )
}

/// Sizes by their size, numbers by their value.
fn order(name: &str) -> f64 {
    let last = name.rsplit(' ').next().unwrap_or("");
    match last {
        "tiny" => 1.0,
        "small" => 2.0,
        "base" => 3.0,
        other => other.parse().unwrap_or(0.0),
    }
}

/// What differs between runs, one a row.
pub fn runs_table(runs: &[RunFolder]) -> Table {
    let mut table = Table::new(
        "The runs; click a heading to sort",
        &["run", "size", "share of data", "mask ratio", "tau", "steps", "last error", "explained %", "cohort BLAKE3"],
    );
    for run in runs {
        let setting = |pointer: &str| run.setting(pointer).map_or_else(|| "-".to_owned(), plain);
        let last = run.journal.as_ref().and_then(|j| j.validations.last());
        table.rows.push(vec![
            run.path.display().to_string().into(),
            setting("/model/size").into(),
            run.setting("/train/data_fraction").and_then(Value::as_f64).into(),
            run.setting("/mask/ratio").and_then(Value::as_f64).into(),
            run.setting("/loss/tau").and_then(Value::as_f64).into(),
            run.journal.as_ref().map(|j| j.steps_taken() as f64).into(),
            last.map(|v| v.mse).into(),
            last.map(|v| 100.0 * v.explained_variance).into(),
            run.record["identity"]["cohort_blake3"]
                .as_str()
                .map_or_else(|| "-".to_owned(), |h| h.chars().take(12).collect())
                .into(),
        ]);
    }
    table
}
