//! Weights as bytes.

use super::header::DATA_HASH;
use super::{Problem, WeightsError};
use crate::parameters::{ParameterError, ParameterSpec, Parameters};
use bdo_data::durable;
use safetensors::tensor::{Dtype, TensorView};
use std::path::Path;

/// Writes exactly the parameters of a table as safetensors.
pub fn write_parameters(path: &Path, table: &[ParameterSpec], parameters: &Parameters) -> Result<(), WeightsError> {
    let bytes = lay_out(table, parameters).map_err(|problem| problem.at(path))?;
    Ok(durable::write(path, &bytes)?)
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
    // The values carry their hash: a changed weight that is still finite would go unnoticed otherwise.
    let bare = safetensors::serialize(views.clone(), None)?;
    let header = bare.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length) as usize);
    let hash = blake3::hash(bare.get(8 + header..).unwrap_or_default()).to_hex().to_string();
    drop(bare);
    Ok(safetensors::serialize(views, Some([(DATA_HASH.to_owned(), hash)].into()))?)
}
