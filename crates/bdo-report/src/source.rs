//! Reading what lies in folders; whatever cannot be read is absent.

use std::path::{Path, PathBuf};

/// A JSON file.
pub(crate) fn json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// A text file, foreign bytes replaced.
pub(crate) fn text(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned())
}

/// All JSON files below a folder, in order of their names, at most `depth` folders down.
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

/// A JSON object as names and values, nested names joined by dots; long lists are only counted.
pub(crate) fn flat(value: &serde_json::Value) -> Vec<(String, String)> {
    let mut out = vec![];
    flatten("", value, &mut out);
    out
}

/// The same as text, one name and value a line.
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
        serde_json::Value::String(text) => out.push((name.to_owned(), text.clone())),
        serde_json::Value::Null => {}
        other => out.push((name.to_owned(), other.to_string())),
    }
}
