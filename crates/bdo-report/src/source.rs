//! Files of folders; what cannot be read is absent.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::table::{Cell, Table};

pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Option<T> {
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
pub(crate) fn json_files(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    let found = |path: PathBuf| match path.extension() {
        _ if path.is_dir() && depth > 0 => json_files(&path, depth - 1),
        Some(extension) if extension == "json" => vec![path],
        _ => vec![],
    };
    paths.into_iter().flat_map(found).collect()
}

/// The entries of a list; none of anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
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
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

pub(crate) fn facts_table(caption: &str, value: &Value, keep: impl Fn(&str, &Cell) -> bool) -> Table {
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
pub(crate) fn flat(value: &Value) -> Vec<(String, String)> {
    let below = |(key, value): (&String, &Value)| match value {
        Value::Null => vec![],
        Value::Object(_) => flat(value).into_iter().map(|(name, text)| (format!("{key}.{name}"), text)).collect(),
        Value::Array(list) if list.len() > 8 || list.iter().any(|v| v.is_object() || v.is_array()) => {
            vec![(key.clone(), format!("{} entries", list.len()))]
        }
        other => vec![(key.clone(), plain(other))],
    };
    value.as_object().into_iter().flatten().flat_map(below).collect()
}

/// The same as text, one name and value per line.
pub(crate) fn lines(value: &Value) -> String {
    flat(value).iter().fold(String::new(), |all, (name, value)| all + name + " = " + value + "\n")
}
