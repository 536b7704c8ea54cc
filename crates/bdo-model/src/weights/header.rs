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

/// Entries by name; a name given twice is an error, where an ordinary map would keep the last one.
#[derive(Debug)]
pub(super) struct Header(pub(super) BTreeMap<String, Entry>);

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
        let mut metadata_seen = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<BTreeMap<String, String>>()?;
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
        Ok(Header(entries))
    }
}
