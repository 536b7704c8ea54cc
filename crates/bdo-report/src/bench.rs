//! Measurements of speed and memory, and what models cost side by side.

use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point, grid, standing_alone};
use crate::figure::Figure;
use crate::page::Page;
use crate::palette::Colour;
use crate::scale::number;
use crate::source::flat;
use crate::table::{Cell, Table};

/// The measurements in a file: one object, a list of them, or one a line.
pub fn measurements(text: &str) -> Vec<Value> {
    let found: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        Ok(one) => vec![one],
        Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    };
    found.into_iter().filter(|m| m["median_ms"].is_number() || is_efficiency(m)).collect()
}

/// Whether a record is one of models side by side, as `bdo bench efficiency` makes it.
fn is_efficiency(record: &Value) -> bool {
    record["task"] == "efficiency" && record["rows"].as_array().is_some_and(|rows| !rows.is_empty())
}

/// A quantity of models side by side: title, unit with a factor, and the keys of a row with their names below the bars.
type Quantity<'a> = (String, &'a str, f64, &'a [(&'a str, &'a str)]);

/// What models cost, one chart a quantity, models told apart by colour. Bars stand on zero and say their number, since the
/// cheapest may be a hundredth of the dearest.
pub fn efficiency_charts(record: &Value) -> Vec<Chart> {
    let rows: &[Value] = record["rows"].as_array().map_or(&[], Vec::as_slice);
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
        let mut chart = Chart::new(title, Axis::of_names("", names), Axis::linear(*unit));
        chart.size = Some((380.0, 290.0));
        for (kind, row) in rows.iter().enumerate() {
            let title = row["title"].as_str().or(row["model"].as_str()).unwrap_or("?");
            let points = keys.iter().enumerate().filter_map(|(x, (key, name))| {
                let value = row[key].as_f64()? * factor;
                Some(Point {
                    note: Some(format!("{title}, {name}: {} {unit}", number(value))),
                    text: Some(brief(value)),
                    ..Point::at(x as f64, value)
                })
            });
            chart = chart.with(title, Colour::Kind(kind), Marks::GroupedBars, points.collect());
        }
        chart
    };
    quantities.iter().map(chart).filter(|chart| !chart.is_empty()).collect()
}

/// The charts as a drawing that stands alone.
pub fn efficiency_drawing(record: &Value) -> String {
    standing_alone(&grid(&efficiency_charts(record), 3))
}

/// Three digits that matter, so that numbers of neighbouring bars have room beside each other.
fn brief(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        size if size >= 0.09995 => format!("{value:.3}"),
        _ => number(value),
    }
}

/// Adds models side by side to a page.
fn show_efficiency(record: &Value, page: &mut Page, command: &str) {
    let said = |key: &str| match &record[key] {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    };
    page.facts(&[
        ("Cohort", said("data")),
        ("Width", said("size")),
        ("Scans", format!("{} in a batch, {} regions, {} frames", said("batch"), said("regions"), said("frames"))),
        ("Machine", format!("{} threads, {}", said("threads"), said("isa"))),
    ]);
    page.figure(
        &Figure::of_charts(
            "efficiency",
            "What models cost at equal width on the same scans",
            "Median of the timed steps; memory is the most the process of a model held during its steps, program and scans included; operations are those of matrix products, a multiply-add counted as two. Each bar says its number.",
            &efficiency_charts(record),
            3,
        )
        .made_by(command),
    );
}

/// Adds measurements to a page: a table, and time and memory over sizes.
pub fn show_bench(name: &str, rows: &[Value], page: &mut Page, command: &str) {
    page.section(&format!("Speed and memory: {name}"));
    let (side_by_side, rows): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| is_efficiency(row));
    for record in side_by_side {
        show_efficiency(record, page, command);
    }
    if rows.is_empty() {
        return;
    }
    let mut headings: Vec<String> = vec![];
    for row in &rows {
        for (key, _) in flat(row) {
            if !headings.contains(&key) && headings.len() < 24 {
                headings.push(key);
            }
        }
    }
    let cells = |row: &Value| {
        let known = flat(row);
        headings
            .iter()
            .map(|h| match known.iter().find(|(k, _)| k == h) {
                Some((_, text)) => text.parse::<f64>().map_or_else(|_| Cell::from(text.as_str()), Cell::from),
                None => Cell::Empty,
            })
            .collect()
    };
    let table = Table {
        caption: "Measurements; click a heading to sort".into(),
        rows: rows.iter().map(|row| cells(row)).collect(),
        headings: headings.clone(),
    };
    page.table(&table);
    let label = |row: &Value| {
        let word =
            |key: &str| row[key].as_str().map(str::to_owned).or_else(|| row[key].as_f64().map(|x| x.to_string()));
        [word("size"), word("batch").map(|b| format!("batch {b}")), word("precision")]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    };
    let points = |x: &str| {
        rows.iter()
            .filter_map(|r| {
                Some(Point {
                    note: Some(format!("{}: {} ms, {} {x}", label(r), r["median_ms"], r[x])),
                    ..Point::at(r[x].as_f64()?, r["median_ms"].as_f64()?)
                })
            })
            .collect::<Vec<_>>()
    };
    let mut charts = vec![];
    for (key, words) in [
        ("peak_rss_mb", "peak memory (MB, log scale)"),
        ("parameters", "parameters (log scale)"),
        ("flops_per_step", "operations a step (log scale)"),
    ] {
        let mut chart = Chart::new("", Axis::log(words), Axis::log("median time of a step (ms, log scale)")).with(
            "",
            Colour::Kind(charts.len()),
            Marks::Dots,
            points(key),
        );
        chart.size = Some((420.0, 320.0));
        if !chart.is_empty() {
            charts.push(chart);
        }
    }
    if !charts.is_empty() {
        page.figure(
            &Figure::of_charts(
                "bench",
                "Time against memory, parameters and operations",
                "One point a measurement; point at it for its name.",
                &charts,
                2,
            )
            .made_by(command),
        );
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
