//! Several runs side by side: validation over epochs, by size of the model and by share of the data.

use bdo_data::record::ValidationEntry;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::page::Page;
use crate::palette::Colour;
use crate::run::RunFolder;
use crate::source;
use crate::table::{Cell, Table};

/// Settings that may differ between the runs, with their names.
const SCALED: [(&str, &str, &str); 3] =
    [("model", "size", "size"), ("model", "width", "width"), ("train", "data_fraction", "share of the data")];

/// Adds a table of the runs, and one figure per setting that differs between them, or one figure of all runs.
pub(crate) fn show(runs: &[RunFolder], page: &mut Page) {
    page.section("Runs side by side").table(&table(runs));
    let mut figures: Vec<Figure> = SCALED
        .iter()
        .filter(|(section, key, _)| {
            runs.iter().any(|r| r.setting_text(section, key) != runs[0].setting_text(section, key))
        })
        .map(|(section, key, name)| figure(runs, name, |run| format!("{name} {}", run.setting_text(section, key))))
        .collect();
    if figures.is_empty() {
        figures.push(figure(runs, "run", |run| source::name(&run.path)));
    }
    figures.retain(|f| f.csv.lines().count() > 1);
    page.figures(&figures, "None of these runs has a validation yet.", "bdo pretrain");
}

fn figure(runs: &[RunFolder], what: &str, group: impl Fn(&RunFolder) -> String) -> Figure {
    let mut names: Vec<String> = runs.iter().map(&group).collect();
    names.sort_by(|a, b| order(a).total_cmp(&order(b)).then(a.cmp(b)));
    names.dedup();
    let chart = |label: &str, of: fn(&ValidationEntry) -> f64| {
        let mut chart = Chart::new("", Axis::linear("epochs"), Axis::linear(label)).sized(520.0, 340.0);
        for run in runs {
            let (Some(journal), Some(plan)) = (&run.journal, run.plan()) else { continue };
            let name = group(run);
            let colour = names.iter().position(|n| *n == name).unwrap_or(0);
            let points = journal.validations.iter().map(|v| {
                let note = format!("{name} ({}): {:.4} after {} steps", run.path.display(), of(v), v.step);
                Point::at(v.step as f64 / plan.steps_per_epoch as f64, of(v)).noted(note)
            });
            chart = chart.with(name.clone(), Colour::Kind(colour), Marks::LineAndDots, points.collect());
        }
        chart
    };
    let charts = [
        chart("mean squared error at hidden frames", |v| v.measures.get("mse")),
        chart("explained variance (%)", |v| 100.0 * v.measures.get("explained_variance")),
        chart("validation loss", |v| v.loss.total),
    ];
    let charts: Vec<Chart> = charts.into_iter().filter(|chart| !chart.is_empty()).collect();
    Figure::of_charts(
        format!("scalability-{what}"),
        format!("Validation over epochs, by {what}"),
        "One curve per run, on its validation people. Curves are comparable where the cohort and the split are the same (see the table).",
        &charts,
        2,
    )
}

/// Sizes by their size, numbers by their value.
fn order(name: &str) -> f64 {
    let last = name.rsplit(' ').next().unwrap_or("");
    ["tiny", "small", "base"]
        .iter()
        .position(|size| *size == last)
        .map_or_else(|| last.parse().unwrap_or(0.0), |place| place as f64 + 1.0)
}

fn table(runs: &[RunFolder]) -> Table {
    let mut table = Table::new(
        "The runs; click a heading to sort",
        [
            "run",
            "model",
            "size",
            "share of data",
            "mask ratio",
            "tau",
            "steps",
            "last loss",
            "last error",
            "explained %",
            "cohort BLAKE3",
        ],
    );
    for run in runs {
        let number =
            |section: &str, key: &str| Cell::from(run.setting(section, key).and_then(serde_json::Value::as_f64));
        let last = run.journal.as_ref().and_then(|j| j.validations.last());
        let cohort = run.record.as_ref().map_or("-", |r| &r.identity.cohort_blake3);
        table.row([
            run.path.display().to_string().into(),
            run.kind().into(),
            run.setting_text("model", "size").into(),
            number("train", "data_fraction"),
            number("mask", "ratio"),
            number("loss", "tau"),
            run.journal.as_ref().map(|j| j.steps_taken() as f64).into(),
            run.journal.as_ref().and_then(|j| j.steps.last()).map(|s| s.loss.total).into(),
            last.map(|v| v.measures.get("mse")).into(),
            last.map(|v| 100.0 * v.measures.get("explained_variance")).into(),
            cohort.chars().take(12).collect::<String>().into(),
        ]);
    }
    table
}
