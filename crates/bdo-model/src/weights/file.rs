//! A file of weights: reading one that may be damaged or hostile, and writing one.

use super::{Problem, WeightsError};
use crate::parameters::{Array, ParameterSpec, Parameters, check_table};
use bdo_data::durable::{self, InFile};
use safetensors::tensor::{Dtype, TensorView};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
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
    check_table(table, &header.entries, |entry| &entry.shape)?;
    if let Some((name, entry)) = header.entries.iter().find(|(_, entry)| entry.dtype != "F32") {
        return Err(Problem::Dtype { name: name.clone(), found: entry.dtype.clone() });
    }
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

/// Header entry of one tensor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// Key of the metadata under which a file says the BLAKE3 of its values.
const DATA_HASH: &str = "data_blake3";

/// Entries by name; a name given twice is an error, where an ordinary map would keep the last one.
#[derive(Debug)]
struct Header {
    entries: BTreeMap<String, Entry>,
    /// BLAKE3 of the values, where the writer left it.
    data_blake3: Option<String>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a map from tensor names to dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut entries = BTreeMap::new();
        let (mut metadata_seen, mut data_blake3) = (false, None);
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                data_blake3 = map.next_value::<BTreeMap<String, String>>()?.remove(DATA_HASH);
                if std::mem::replace(&mut metadata_seen, true) {
                    return Err(A::Error::custom("`__metadata__` appears twice, expected at most once"));
                }
                continue;
            }
            let entry = map.next_value::<Entry>()?;
            if entries.contains_key(&name) {
                return Err(A::Error::custom(format!("`{name}` appears twice, expected once")));
            }
            entries.insert(name, entry);
        }
        Ok(Header { entries, data_blake3 })
    }
}

/// Writes exactly the parameters of a table as safetensors.
pub fn write_parameters(path: &Path, table: &[ParameterSpec], parameters: &Parameters) -> Result<(), WeightsError> {
    let bytes = lay_out(table, parameters).map_err(|problem| problem.at(path))?;
    Ok(durable::write(path, &bytes)?)
}

fn lay_out(table: &[ParameterSpec], parameters: &Parameters) -> Result<Vec<u8>, Problem> {
    check_table(table, &parameters.0, |array| &array.shape)?;
    let mut bytes = Vec::with_capacity(table.len());
    for ParameterSpec { name, shape, .. } in table {
        let values = &parameters.0[name].values;
        // A file that could not be read back must not be written.
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(Problem::NotFinite { name: name.clone(), index, found: values[index] });
        }
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        bytes.push((name, shape, raw));
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
