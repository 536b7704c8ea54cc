//! A confound table: named columns of numbers, one row a frame.

use std::path::{Path, PathBuf};

use crate::durable::{self, FileError};
use crate::problem::{InContent, Problem, ReadError, ensure, read_at_most, utf8};
use crate::region::ensure_different;

/// Largest table read; real ones are a few MiB.
const MOST_BYTES: u64 = 256 << 20;

/// A table as fMRIPrep writes it, with what its JSON says about the `CompCor` components.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfoundTable {
    pub(super) path: PathBuf,
    pub names: Vec<String>,
    columns: Vec<Vec<f64>>,
    /// For each component described in the JSON, in its order: its name and the mask it was computed in.
    pub(super) components: Vec<(String, Option<String>)>,
}

impl ConfoundTable {
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let json = match durable::read(&path.with_extension("json")) {
            Ok(bytes) => Some(bytes),
            Err(FileError { system, .. }) if system.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(e.into()),
        };
        Self::parse(path, &read_at_most(path, MOST_BYTES)?, json.as_deref())
    }

    pub fn parse(path: impl AsRef<Path>, tsv: &[u8], json: Option<&[u8]>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let (names, columns) = columns(tsv).in_content(path)?;
        let components = json.map(components).transpose().in_content(path)?.unwrap_or_default();
        Ok(Self { path: path.to_path_buf(), names, columns, components })
    }

    pub fn frames(&self) -> usize {
        self.columns[0].len()
    }

    pub fn column(&self, name: &str) -> Option<&[f64]> {
        self.names.iter().position(|n| n == name).map(|i| self.columns[i].as_slice())
    }

    /// Head motion per frame, where the table has it; the first frame moves by nothing.
    pub fn framewise_displacement_mm(&self) -> Option<Vec<f32>> {
        let column = self.column("framewise_displacement")?;
        Some(column.iter().map(|x| if x.is_nan() { 0.0 } else { *x as f32 }).collect())
    }

    /// A column without missing values: the first row's is replaced by the second row's, any other is an error.
    pub(super) fn filled(&self, name: &str) -> Result<Vec<f64>, Problem> {
        let mut column = self.column(name).ok_or_else(|| lacking(name))?.to_vec();
        if column[0].is_nan() {
            column[0] = column[1];
        }
        let Some(row) = column.iter().position(|x| !x.is_finite()) else { return Ok(column) };
        Err(Problem::new("values", format!("numbers in column {name}"), format!("none in row {}", row + 1)))
    }
}

/// A table without columns that are needed.
pub(super) fn lacking(what: &str) -> Problem {
    Problem::new("columns", what, "none")
}

/// Names, and at least two rows of values.
fn columns(tsv: &[u8]) -> Result<(Vec<String>, Vec<Vec<f64>>), Problem> {
    let mut lines = utf8("text", tsv)?.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let header = lines.next().map_or("", |(_, l)| l);
    let names: Vec<String> = header.split('\t').map(|n| n.trim().to_owned()).collect();
    if let Some(name) = names.iter().find(|n| n.is_empty() || n.parse::<f64>().is_ok()) {
        return Err(Problem::new("header", "names of confounds separated by tabs", format!("{name:?}")));
    }
    ensure_different("header", names.iter().map(String::as_str))?;
    let mut columns: Vec<Vec<f64>> = vec![vec![]; names.len()];
    for (number, line) in lines {
        let cells: Vec<&str> = line.trim_end_matches('\r').split('\t').collect();
        let expected = format_args!("{} columns in line {}", names.len(), number + 1);
        ensure(cells.len() == names.len(), "table", expected, cells.len())?;
        for (column, cell) in columns.iter_mut().zip(cells) {
            // A cell that is no number is a missing value: tables have columns nobody asks for.
            column.push(cell.trim().parse().unwrap_or(f64::NAN));
        }
    }
    ensure(columns[0].len() >= 2, "table", "at least 2 rows", columns[0].len())?;
    Ok((names, columns))
}

/// Names and masks of the `CompCor` components, in the order of the JSON.
fn components(bytes: &[u8]) -> Result<Vec<(String, Option<String>)>, Problem> {
    let json: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(bytes).map_err(|e| Problem::new("JSON beside the table", "an object", e))?;
    let mask = |v: &serde_json::Value| v.get("Mask").and_then(|m| m.as_str()).map(str::to_owned);
    Ok(json.iter().filter(|(k, _)| k.contains("comp_cor")).map(|(k, v)| (k.clone(), mask(v))).collect())
}
