//! Reading weights that may be damaged or hostile.

use super::header::Header;
use super::{Problem, WeightsError};
use crate::parameters::{Array, ParameterSpec, Parameters};
use bdo_data::durable::InFile;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// No honest header of ours comes near this.
const HEADER_LIMIT_BYTES: u64 = 16 << 20;

/// Reads exactly the parameters of a table: same names, same shapes, f32, finite, no gaps, nothing else.
pub fn read_parameters(path: &Path, table: &[ParameterSpec]) -> Result<Parameters, WeightsError> {
    read(path, table).map_err(|problem| problem.at(path))
}

fn read(path: &Path, table: &[ParameterSpec]) -> Result<Parameters, Problem> {
    let mut file = File::open(path).in_file("read", path)?;
    let size = file.metadata().in_file("read", path)?.len();
    if size < 8 {
        return Err(Problem::Truncated { expected: 8, found: size });
    }
    let mut length = [0u8; 8];
    file.read_exact(&mut length).in_file("read", path)?;
    let header_size = u64::from_le_bytes(length);
    if header_size > HEADER_LIMIT_BYTES {
        return Err(Problem::TooLarge { limit: HEADER_LIMIT_BYTES, found: header_size });
    }
    if size < 8 + header_size {
        return Err(Problem::Truncated { expected: 8 + header_size, found: size });
    }
    let mut text = vec![0u8; header_size as usize];
    file.read_exact(&mut text).in_file("read", path)?;
    let header: Header = serde_json::from_slice(&text)?;
    check_names_and_shapes(&header, table)?;
    let data_size = check_offsets(&header)?;
    let expected = 8 + header_size + data_size;
    if size < expected {
        return Err(Problem::Truncated { expected, found: size });
    }
    if size > expected {
        return Err(Problem::Trailing { expected, found: size });
    }
    read_values(path, &mut file, header)
}

fn check_names_and_shapes(header: &Header, table: &[ParameterSpec]) -> Result<(), Problem> {
    for spec in table {
        let entry = header.entries.get(&spec.name).ok_or_else(|| Problem::Missing { name: spec.name.clone() })?;
        if entry.dtype != "F32" {
            return Err(Problem::Dtype { name: spec.name.clone(), found: entry.dtype.clone() });
        }
        if entry.shape != spec.shape {
            return Err(Problem::Shape {
                name: spec.name.clone(),
                expected: spec.shape.clone(),
                found: entry.shape.clone(),
            });
        }
    }
    if header.entries.len() == table.len() {
        return Ok(());
    }
    let known: std::collections::BTreeSet<&str> = table.iter().map(|spec| spec.name.as_str()).collect();
    let name = header.entries.keys().find(|name| !known.contains(name.as_str())).cloned().unwrap_or_default();
    Err(Problem::Unknown { name })
}

/// Tensors in order of position must tile the data without gap or overlap. Returns the size of the data.
fn check_offsets(header: &Header) -> Result<u64, Problem> {
    let mut order: Vec<_> = header.entries.iter().collect();
    order.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut begin = 0;
    for (name, entry) in order {
        // The shape equals one the configuration asked for, whose limits keep this far from overflow.
        let end = begin + 4 * entry.shape.iter().product::<usize>() as u64;
        if entry.data_offsets != [begin, end] {
            return Err(Problem::Offsets {
                name: name.clone(),
                expected_begin: begin,
                expected_end: end,
                found_begin: entry.data_offsets[0],
                found_end: entry.data_offsets[1],
            });
        }
        begin = end;
    }
    Ok(begin)
}

fn read_values(path: &Path, file: &mut File, header: Header) -> Result<Parameters, Problem> {
    let expected = header.data_blake3;
    let mut order: Vec<_> = header.entries.into_iter().collect();
    order.sort_by_key(|(_, entry)| entry.data_offsets);
    let (mut found, mut hasher) = (BTreeMap::new(), blake3::Hasher::new());
    for (name, entry) in order {
        let mut bytes = vec![0u8; (entry.data_offsets[1] - entry.data_offsets[0]) as usize];
        file.read_exact(&mut bytes).in_file("read", path)?;
        hasher.update(&bytes);
        let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(Problem::NotFinite { name, index, found: values[index] });
        }
        found.insert(name, Array { shape: entry.shape, values });
    }
    let now = hasher.finalize().to_hex().to_string();
    match expected {
        Some(expected) if expected != now => Err(Problem::Changed { expected, found: now }),
        _ => Ok(Parameters(found)),
    }
}
