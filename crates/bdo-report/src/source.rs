//! Files of folders; what cannot be read is absent.

use std::path::{Path, PathBuf};

use crate::table::{Cell, Table};

pub(crate) fn json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// A text file; bytes that are not UTF-8 are replaced.
pub(crate) fn text(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned())
}

/// All JSON files below a folder, sorted by name, at most `depth` folders down.
pub(crate) fn json_files(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && depth > 0 {
            json_files(&path, depth - 1, found);
        } else if path.extension().is_some_and(|e| e == "json") {
            found.push(path);
        }
    }
}

/// The entries of a list; none of anything else.
pub(crate) fn list(value: &serde_json::Value) -> &[serde_json::Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Every item once, in the order of their first places.
pub(crate) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(vec![], |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

/// A value as text without quotes; "-" for null.
pub(crate) fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => "-".into(),
        other => other.to_string(),
    }
}

pub(crate) fn facts_table(caption: &str, value: &serde_json::Value, keep: impl Fn(&str, &Cell) -> bool) -> Table {
    let mut table = Table::new(caption, ["what", "value"]);
    for (name, text) in flat(value) {
        let cell = text.parse::<f64>().map_or_else(|_| Cell::from(text), Cell::from);
        if keep(&name, &cell) {
            table.row([name.into(), cell]);
        }
    }
    table
}

/// A JSON object as names and values, nested names joined by dots; of long lists only the length.
pub(crate) fn flat(value: &serde_json::Value) -> Vec<(String, String)> {
    let mut out = vec![];
    flatten("", value, &mut out);
    out
}

/// The same as text, one name and value per line.
pub(crate) fn lines(value: &serde_json::Value) -> String {
    flat(value).iter().fold(String::new(), |all, (name, value)| all + name + " = " + value + "\n")
}

fn flatten(name: &str, value: &serde_json::Value, out: &mut Vec<(String, String)>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, out);
            }
        }
        serde_json::Value::Array(list) if list.len() > 8 || list.iter().any(|v| v.is_object() || v.is_array()) => {
            out.push((name.to_owned(), format!("{} entries", list.len())));
        }
        serde_json::Value::Null => {}
        other => out.push((name.to_owned(), plain(other))),
    }
}
