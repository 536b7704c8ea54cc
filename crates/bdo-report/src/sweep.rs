//! A sweep: error and scores over the values of a setting.

use std::path::Path;

use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point, Reference, grid};
use crate::figure::Figure;
use crate::page::{Citation, Page};
use crate::palette::Colour;
use crate::source;
use crate::svg::standing_alone;
use crate::table::{Cell, Table};

/// The charts of a sweep's `table.json`: error with kriging, rank of predictions, and one chart per probed label.
fn sweep_charts(record: &Value) -> Vec<Chart> {
    let setting = record["vary"].as_str().unwrap_or("setting");
    let rows = source::list(&record["rows"]);
    let names: Vec<String> = rows.iter().map(|r| r["value"].as_str().unwrap_or("").to_owned()).collect();
    let points = |of: &dyn Fn(&Value) -> Option<f64>| {
        let point = |(i, row): (usize, &Value)| {
            Some(Point::at(i as f64, of(row)?).noted(format!("{setting} = {}: {:.4}", names[i], of(row)?)))
        };
        rows.iter().enumerate().filter_map(point).collect::<Vec<_>>()
    };
    let chart = |title: String, y: &str, of: &dyn Fn(&Value) -> Option<f64>| {
        Chart::new(title, Axis::of_names(setting, names.clone()), Axis::linear(y))
            .with("model", Colour::Kind(0), Marks::LineAndDots, points(of))
            .sized(400.0, 300.0)
    };
    let ratio = record["mask_ratio"].as_f64();
    let hidden = ratio.map_or_else(String::new, |r| format!(" at {r} hidden"));
    let mut error = chart(format!("error{hidden}"), "mean squared error", &|r| r["mse"].as_f64());
    if let Some(kriging) = rows.iter().find_map(|r| r["kriging_mse"].as_f64()) {
        error = error.against(Reference::Level("kriging".into(), kriging));
    }
    let mut charts = vec![error, chart(format!("correlation{hidden}"), "rho", &|r| r["rho"].as_f64())];
    let mut targets: Vec<String> =
        rows.iter().filter_map(|r| r["probes"].as_object()).flat_map(|p| p.keys().cloned()).collect();
    targets.sort();
    targets.dedup();
    for target in targets {
        let mut probe = chart(format!("{target}: probe"), "score", &|r| r["probes"][&target].as_f64());
        let untrained = points(&|r| r["untrained"][&target].as_f64());
        if !untrained.is_empty() {
            probe = probe.with("untrained", Colour::Kind(1), Marks::LineAndDots, untrained);
        }
        if let Some(connectivity) = rows.iter().find_map(|r| r["fc"][&target].as_f64()) {
            probe = probe.against(Reference::Level("connectivity".into(), connectivity));
        }
        charts.push(probe);
    }
    charts.retain(|c| !c.is_empty());
    charts
}

pub fn sweep_drawing(record: &Value) -> String {
    standing_alone(&grid(&sweep_charts(record), 3))
}

/// Which value is best, and whether kriging is beaten.
fn verdict(page: &mut Page, setting: &str, record: &Value) {
    let rows = source::list(&record["rows"]);
    let scored = || rows.iter().filter_map(|row| Some((row["mse"].as_f64()?, row)));
    let value = |row: &Value| row["value"].as_str().unwrap_or("-").to_owned();
    let best = scored().min_by(|a, b| a.0.total_cmp(&b.0));
    let worst = scored().max_by(|a, b| a.0.total_cmp(&b.0));
    let headline = match (best, worst) {
        (Some((least, best)), Some((most, worst))) => {
            let (best, worst) = (value(best), value(worst));
            format!("Smallest error at {setting} = {best}: {least:.4}; largest at {worst}: {most:.4}.")
        }
        _ => "No value has an error.".to_owned(),
    };
    let mut said = vec![];
    if let Some((error, kriging)) = best.and_then(|(error, row)| Some((error, row["kriging_mse"].as_f64()?))) {
        let word = if error < kriging { "better" } else { "not better" };
        said.push(format!("The best one is {word} than kriging ({kriging:.4})."));
    }
    let seeds = rows.first().and_then(|row| row["runs"].as_array()).map_or(1, Vec::len);
    said.push(format!("{} values, {seeds} per value: differences smaller than between seeds say nothing.", rows.len()));
    page.verdict("Sweep", &headline, &said);
}

pub(crate) fn show(folder: &Path, page: &mut Page) {
    let record: Value = source::json(&folder.join("table.json")).unwrap_or_default();
    let setting = record["vary"].as_str().unwrap_or("a setting");
    page.section(&format!("Effect of {setting}")).facts(&[
        ("Folder", folder.display().to_string()),
        ("Cohort", source::plain(&record["data"])),
        ("Hidden when scored", record["mask_ratio"].to_string()),
    ]);
    verdict(page, setting, &record);
    let charts = sweep_charts(&record);
    if charts.is_empty() {
        page.missing("table.json has no row with a score.", "bdo sweep");
        return;
    }
    let caption = "One model per value, trained alike and scored on the same people; dashed lines are kriging, the best linear prediction from the same visible frames, and the same probe on connectivity. Values are in the order given, not to scale.";
    let (name, title) = (format!("ablation-{setting}"), format!("Error and scores over {setting}"));
    page.figure(&Figure::of_charts(name, title, caption, &charts, 3));
    let headings = [setting, "steps", "training scans", "test scans", "error", "kriging", "rho"];
    let mut table = Table::new("Every value; click a heading to sort", headings);
    for row in source::list(&record["rows"]) {
        let value = row["value"].as_str().unwrap_or("");
        let first = value.parse::<f64>().map_or_else(|_| Cell::from(value), |x| Cell::Shown(x, value.to_owned()));
        let keys = ["steps", "scans", "test_scans", "mse", "kriging_mse", "rho"];
        let others = keys.iter().map(|key| Cell::from(row[key].as_f64()));
        table.row(std::iter::once(first).chain(others).collect::<Vec<_>>());
    }
    page.table(&table);
    for flag in source::list(&record["flags"]).iter().filter_map(Value::as_str) {
        page.missing(flag, "");
    }
    page.say(format!("A model was trained for each value of {setting}, everything else alike, and scored at masked frames of test people beside kriging."), &[Citation::Bdo, Citation::Kriging]);
}
