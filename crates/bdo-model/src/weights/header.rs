//! The header of a safetensors file, read without trust.

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Header entry of one tensor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    pub(super) data_offsets: [u64; 2],
}

/// Key of the metadata under which a file says the BLAKE3 of its values.
pub(super) const DATA_HASH: &str = "data_blake3";

/// Entries by name; a name given twice is an error, where an ordinary map would keep the last one.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) entries: BTreeMap<String, Entry>,
    /// BLAKE3 of the values, where the writer left it.
    pub(super) data_blake3: Option<String>,
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
