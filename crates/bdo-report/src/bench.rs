//! Measurements of speed and memory, and the cost of models side by side.

use std::path::Path;

use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point, grid};
use crate::figure::Figure;
use crate::page::Page;
use crate::palette::Colour;
use crate::scale::number;
use crate::source::{distinct, flat, list, plain, text};
use crate::svg::standing_alone;
use crate::table::{Cell, Table};

const MOST_COLUMNS: usize = 24;

/// The measurements in a file: one object, a list of them, or one per line.
pub(crate) fn measurements(text: &str) -> Vec<Value> {
    let found: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        Ok(one) => vec![one],
        Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    };
    found.into_iter().filter(|m| m["median_ms"].is_number() || is_efficiency(m)).collect()
}

/// Whether a record compares models, as `bdo bench efficiency` writes it.
fn is_efficiency(record: &Value) -> bool {
    record["task"] == "efficiency" && !list(&record["rows"]).is_empty()
}

/// A quantity: title, unit with a factor, and the keys of a row with their names below the bars.
type Quantity<'a> = (String, &'a str, f64, &'a [(&'a str, &'a str)]);

/// The cost of models, one chart per quantity and one colour per model. Bars have their numbers, since the cheapest may be
/// a hundredth of the dearest.
fn efficiency_charts(record: &Value) -> Vec<Chart> {
    let batch = record["batch"].as_u64().map_or_else(String::new, |batch| format!(", batch of {batch} scans"));
    let quantities: [Quantity<'_>; 6] = [
        (format!("Training step{batch}"), "ms", 1.0, &[("train_step_ms", "training")]),
        ("Embedding, one scan".into(), "ms", 1.0, &[("embed_ms_per_scan", "embedding")]),
        ("Peak memory".into(), "MiB", 1.0, &[("train_peak_mib", "training"), ("embed_peak_mib", "embedding")]),
        (
            "Tokens, one scan".into(),
            "tokens",
            1.0,
            &[("tokens", "embedding"), ("visible_tokens", "visible in training")],
        ),
        (
            "Operations, one scan".into(),
            "GFLOP",
            1e-9,
            &[("train_flops_per_scan", "training"), ("embed_flops_per_scan", "embedding")],
        ),
        ("Trained parameters".into(), "millions", 1e-6, &[("parameters", "parameters")]),
    ];
    let chart = |(title, unit, factor, keys): &Quantity<'_>| {
        let names = keys.iter().map(|(_, name)| (*name).to_owned()).collect();
        let mut chart = Chart::new(title, Axis::of_names("", names), Axis::linear(*unit)).sized(380.0, 290.0);
        for (kind, row) in list(&record["rows"]).iter().enumerate() {
            let title = row["title"].as_str().or(row["model"].as_str()).unwrap_or("?");
            let points = keys.iter().enumerate().filter_map(|(x, (key, name))| {
                let value = row[key].as_f64()? * factor;
                let note = format!("{title}, {name}: {} {unit}", number(value));
                Some(Point::at(x as f64, value).noted(note).titled(brief(value)))
            });
            chart = chart.with(title, Colour::Kind(kind), Marks::GroupedBars, points.collect());
        }
        chart
    };
    quantities.iter().map(chart).filter(|chart| !chart.is_empty()).collect()
}

pub fn efficiency_drawing(record: &Value) -> String {
    standing_alone(&grid(&efficiency_charts(record), 3))
}

/// Three significant digits, so that numbers of neighbouring bars have room.
fn brief(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        size if size >= 0.09995 => format!("{value:.3}"),
        _ => number(value),
    }
}

fn show_efficiency(record: &Value, page: &mut Page) {
    let said = |key: &str| plain(&record[key]);
    page.facts(&[
        ("Cohort", said("data")),
        ("Width", said("size")),
        ("Scans", format!("{} in a batch, {} regions, {} frames", said("batch"), said("regions"), said("frames"))),
        ("Machine", format!("{} threads, {}", said("threads"), said("isa"))),
    ]);
    let caption = "Median of the timed steps; memory is the peak of the process during the steps, program and scans included; operations are those of matrix products, a multiply-add counted as two.";
    let title = "Cost of models of equal width on the same scans";
    page.figure(&Figure::of_charts("efficiency", title, caption, &efficiency_charts(record), 3));
}

/// Adds a file of measurements to a page: a table, and time and memory over sizes.
pub(crate) fn show(path: &Path, page: &mut Page) {
    page.section(&format!("Speed and memory: {}", path.display()));
    let all = measurements(&text(path).unwrap_or_default());
    let (side_by_side, rows): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|row| is_efficiency(row));
    let fastest = rows.iter().filter_map(|row| Some((row["median_ms"].as_f64()?, *row)));
    if let Some((ms, row)) = fastest.min_by(|a, b| a.0.total_cmp(&b.0)) {
        let headline = format!("Fastest: {} at {} ms per step.", plain(&row["size"]), number(ms));
        page.verdict("Speed and memory", &headline, &[format!("{} measurements.", rows.len())]);
    }
    for record in side_by_side {
        let models = list(&record["rows"]).iter();
        let timed = models.filter_map(|row| Some((row["train_step_ms"].as_f64()?, plain(&row["title"]))));
        if let Some((ms, title)) = timed.min_by(|a, b| a.0.total_cmp(&b.0)) {
            let headline = format!("The fastest to train is {title}: {} ms per step.", number(ms));
            page.verdict("Cost of models", &headline, &[]);
        }
        show_efficiency(record, page);
    }
    if rows.is_empty() {
        return;
    }
    let mut headings: Vec<String> = distinct(rows.iter().flat_map(|row| flat(row)).map(|(key, _)| key));
    headings.truncate(MOST_COLUMNS);
    let mut table = Table::new("Measurements; click a heading to sort", headings.clone());
    for row in &rows {
        let known = flat(row);
        let cell = |heading: &String| match known.iter().find(|(key, _)| key == heading) {
            Some((_, text)) => text.parse::<f64>().map_or_else(|_| Cell::from(text.as_str()), Cell::from),
            None => Cell::Empty,
        };
        table.row(headings.iter().map(cell).collect::<Vec<_>>());
    }
    page.table(&table);
    let label = |row: &Value| {
        let word = |key: &str, before: &str| (!row[key].is_null()).then(|| format!("{before}{}", plain(&row[key])));
        let words = [word("size", ""), word("batch", "batch "), word("precision", "")];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let mut charts = vec![];
    for (key, words) in [
        ("peak_rss_mb", "peak memory (MB, log scale)"),
        ("parameters", "parameters (log scale)"),
        ("flops_per_step", "operations per step (log scale)"),
    ] {
        let points = rows.iter().filter_map(|row| {
            let note = format!("{}: {} ms, {} {key}", label(row), row["median_ms"], row[key]);
            Some(Point::at(row[key].as_f64()?, row["median_ms"].as_f64()?).noted(note))
        });
        let chart = Chart::new("", Axis::log(words), Axis::log("median time per step (ms, log scale)"))
            .with("", Colour::Kind(charts.len()), Marks::Dots, points.collect())
            .sized(420.0, 320.0);
        if !chart.is_empty() {
            charts.push(chart);
        }
    }
    if !charts.is_empty() {
        let caption = "One point per measurement; point at it for its name.";
        page.figure(&Figure::of_charts("bench", "Time against memory, parameters and operations", caption, &charts, 2));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bars_of_models_say_their_numbers() {
        let row = |title: &str, ms: f64| json!({"model": title, "title": title, "train_step_ms": ms, "tokens": 1800});
        let record = json!({"task": "efficiency", "batch": 16, "rows": [row("A", 20.0), row("B", 1234.5)]});
        assert_eq!(measurements(&record.to_string()), std::slice::from_ref(&record));
        let svg = efficiency_drawing(&record);
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("Training step, batch of 16 scans"), "{svg}");
        for text in [">20<", ">1234<", ">1800<", ">A<", ">B<", ">ms<"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        // Two quantities are known; what is not measured has no chart.
        assert_eq!(svg.matches(r#"class="chart""#).count(), 2);
    }

    #[test]
    fn numbers_above_bars_are_short() {
        let shown = [0.012_345, 0.726_9, 1.234, 12.34, 64.0, 123.4, 12_345.6, 0.0].map(brief);
        assert_eq!(shown, ["0.0123", "0.727", "1.23", "12.3", "64", "123", "12346", "0"]);
    }
}
