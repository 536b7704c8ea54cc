//! What `bdo infer` left: facts and scores.

use std::path::Path;

use crate::page::Page;
use crate::source::{flat, json};
use crate::table::{Cell, Table};

/// Adds an inference folder to a page.
pub fn show_inference(folder: &Path, page: &mut Page) {
    page.section("Inference");
    let facts = json(&folder.join("inference.json"));
    let rows = |value: &serde_json::Value| -> Vec<Vec<Cell>> {
        flat(value)
            .into_iter()
            .map(|(k, v)| vec![Cell::from(k), v.parse::<f64>().map_or_else(|_| Cell::from(v), Cell::from)])
            .collect()
    };
    page.facts(&[("Folder", folder.display().to_string())]);
    match facts {
        Some(facts) => page.table(&Table { rows: rows(&facts), ..Table::new("inference.json", &["what", "value"]) }),
        None => page.missing("inference.json cannot be read.", "bdo infer"),
    };
    match json(&folder.join("scores.json")) {
        Some(scores) => page.table(&Table { rows: rows(&scores), ..Table::new("scores.json", &["what", "value"]) }),
        None => page.missing("There is no scores.json in this folder: nothing was hidden that could be scored.", ""),
    };
}
