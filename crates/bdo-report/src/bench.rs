//! Measurements of speed and memory.

use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::page::Page;
use crate::palette::Colour;
use crate::source::flat;
use crate::table::{Cell, Table};

/// The measurements in a file: one object, a list of them, or one a line.
pub fn measurements(text: &str) -> Vec<Value> {
    let found: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        Ok(one) => vec![one],
        Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    };
    found.into_iter().filter(|m| m["median_ms"].is_number()).collect()
}

/// Adds measurements to a page: a table, and time and memory over sizes.
pub fn show_bench(name: &str, rows: &[Value], page: &mut Page, command: &str) {
    page.section(&format!("Speed and memory: {name}"));
    let mut headings: Vec<String> = vec![];
    for row in rows {
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
        rows: rows.iter().map(cells).collect(),
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
