//! Writing so that a file is either the old one or the new one, whatever happens in between.

use super::{Problem, WeightsError};
use crate::parameters::{ParameterError, ParameterSpec, Parameters};
use safetensors::tensor::{Dtype, TensorView};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes exactly the parameters of a table as safetensors.
pub fn write_parameters(path: &Path, table: &[ParameterSpec], parameters: &Parameters) -> Result<(), WeightsError> {
    lay_out(table, parameters)
        .and_then(|bytes| replace(path, &bytes).map_err(Problem::from))
        .map_err(|problem| problem.at(path))
}

/// Writes a file through a temporary one beside it: fsync, rename, fsync of the folder.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), WeightsError> {
    replace(path, bytes).map_err(|error| Problem::from(error).at(path))
}

fn lay_out(table: &[ParameterSpec], parameters: &Parameters) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::with_capacity(table.len());
    for spec in table {
        let name = &spec.name;
        let array = parameters.0.get(name).ok_or_else(|| ParameterError::Missing { name: name.clone() })?;
        if array.shape != spec.shape {
            return Err(Problem::Shape {
                name: name.clone(),
                expected: spec.shape.clone(),
                found: array.shape.clone(),
            });
        }
        // A file that could not be read back must not be written.
        if let Some(index) = array.values.iter().position(|value| !value.is_finite()) {
            return Err(Problem::NotFinite { name: name.clone(), index, found: array.values[index] });
        }
        let raw: Vec<u8> = array.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        bytes.push((name, &spec.shape, raw));
    }
    if parameters.0.len() > table.len() {
        let name = parameters.0.keys().find(|name| table.iter().all(|spec| spec.name != **name));
        return Err(Problem::Unknown { name: name.cloned().unwrap_or_default() });
    }
    let views = bytes
        .iter()
        .map(|(name, shape, raw)| Ok((name.as_str(), TensorView::new(Dtype::F32, (*shape).clone(), raw)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    Ok(safetensors::serialize(views, None)?)
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let temporary = partial_name(path);
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first failure is the one to report; a leftover is only untidy.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Always the same, so that what a killed writer leaves is overwritten by the next one; a folder has one writer.
fn partial_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!(".{name}.tmp"))
}
