//! A confound table: named columns of numbers, one row a frame.

use std::collections::HashMap;
use std::path::Path;

use crate::durable::{self, FileError, InFile};
use crate::problem::{Problem, ReadError};

/// Largest table read; real ones are a few MiB.
const MOST_BYTES: u64 = 256 << 20;

/// A table as fMRIPrep writes it, with what its JSON says about the `CompCor` components.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfoundTable {
    path: String,
    pub names: Vec<String>,
    columns: Vec<Vec<f64>>,
    by_name: HashMap<String, usize>,
    /// For each component described in the JSON, in its order: its name and the mask it was computed in.
    pub(super) components: Vec<(String, Option<String>)>,
    pub blake3: String,
}

impl ConfoundTable {
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let size = std::fs::metadata(path).in_file("read", path)?.len();
        let name = path.display().to_string();
        if size > MOST_BYTES {
            return Err(content(&name, "size", format!("at most {MOST_BYTES} bytes"), size));
        }
        let sidecar = path.with_extension("json");
        let json = match durable::read(&sidecar) {
            Ok(bytes) => Some(bytes),
            Err(FileError { system, .. }) if system.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(e.into()),
        };
        Self::parse(&name, &durable::read(path)?, json.as_deref())
    }

    pub fn parse(path: &str, tsv: &[u8], json: Option<&[u8]>) -> Result<Self, ReadError> {
        let text = std::str::from_utf8(tsv)
            .map_err(|e| content(path, "text", "UTF-8", format!("other bytes at offset {}", e.valid_up_to())))?;
        let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
        let header = lines.next().map_or("", |(_, l)| l);
        let names: Vec<String> = header.split('\t').map(|n| n.trim().to_owned()).collect();
        if let Some(name) = names.iter().find(|n| n.is_empty() || n.parse::<f64>().is_ok()) {
            return Err(content(path, "header", "names of confounds separated by tabs", format!("{name:?}")));
        }
        let mut by_name = HashMap::new();
        for (i, name) in names.iter().enumerate() {
            if by_name.insert(name.clone(), i).is_some() {
                return Err(content(path, "header", "different names", format!("{name:?} twice")));
            }
        }
        let mut columns: Vec<Vec<f64>> = vec![vec![]; names.len()];
        for (number, line) in lines {
            let cells: Vec<&str> = line.trim_end_matches('\r').split('\t').collect();
            if cells.len() != names.len() {
                let expected = format!("{} columns in line {}", names.len(), number + 1);
                return Err(content(path, "table", expected, cells.len()));
            }
            for (column, cell) in columns.iter_mut().zip(cells) {
                // A cell that is no number is a missing value: tables have columns nobody asks for.
                column.push(cell.trim().parse().unwrap_or(f64::NAN));
            }
        }
        if columns.first().is_none_or(|c| c.len() < 2) {
            return Err(content(path, "table", "at least 2 rows", columns.first().map_or(0, Vec::len)));
        }
        let components = json.map(|bytes| components(path, bytes)).transpose()?.unwrap_or_default();
        let blake3 = blake3::hash(tsv).to_hex().to_string();
        Ok(Self { path: path.to_owned(), names, columns, by_name, components, blake3 })
    }

    pub fn frames(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    pub fn column(&self, name: &str) -> Option<&[f64]> {
        self.by_name.get(name).map(|i| self.columns[*i].as_slice())
    }

    /// Head motion per frame, where the table has it; the first frame moves by nothing.
    pub fn framewise_displacement_mm(&self) -> Option<Vec<f32>> {
        let column = self.column("framewise_displacement")?;
        Some(column.iter().map(|x| if x.is_nan() { 0.0 } else { *x as f32 }).collect())
    }

    /// A column without missing values: the first row's is replaced by the second row's, any other is an error.
    pub(super) fn filled(&self, name: &str) -> Result<Vec<f64>, ReadError> {
        let column = self.column(name).ok_or_else(|| self.lacks(name))?;
        let mut column = column.to_vec();
        if column[0].is_nan() {
            column[0] = column[1];
        }
        match column.iter().position(|x| !x.is_finite()) {
            None => Ok(column),
            Some(row) => {
                Err(self.content("values", format!("numbers in column {name}"), format!("none in row {}", row + 1)))
            }
        }
    }

    pub(super) fn lacks(&self, what: &str) -> ReadError {
        self.content("columns", what, "none")
    }

    pub(super) fn content(&self, what: &str, expected: impl ToString, found: impl ToString) -> ReadError {
        content(&self.path, what, expected, found)
    }
}

fn content(path: &str, what: &str, expected: impl ToString, found: impl ToString) -> ReadError {
    ReadError::content(path.as_ref(), Problem::new(what, expected, found))
}

/// Names and masks of the `CompCor` components, in the order of the JSON.
fn components(path: &str, bytes: &[u8]) -> Result<Vec<(String, Option<String>)>, ReadError> {
    let json: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(bytes).map_err(|e| content(path, "JSON beside the table", "an object", e))?;
    let mask = |v: &serde_json::Value| v.get("Mask").and_then(|m| m.as_str()).map(str::to_owned);
    Ok(json.iter().filter(|(k, _)| k.contains("comp_cor")).map(|(k, v)| (k.clone(), mask(v))).collect())
}
