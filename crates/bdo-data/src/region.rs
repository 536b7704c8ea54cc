//! A region of any parcellation: a name, and what else is known about it.

use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// One column of a series. Only the name is required; it is what regions are matched by, never their position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Name in the atlas' label table, unique in a cohort.
    pub name: String,
    /// Functional network, where the atlas has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// `L` or `R`, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hemisphere: Option<String>,
    /// Centre in MNI space, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub centroid_mm: Option<[f64; 3]>,
}

impl Region {
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), network: None, hemisphere: None, centroid_mm: None }
    }
}

/// The first name that occurs twice, if any.
pub fn repeated_name<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|n| !seen.insert(*n))
}

/// A problem where a name occurs twice.
pub(crate) fn ensure_different<'a>(what: &str, names: impl IntoIterator<Item = &'a str>) -> Result<(), Problem> {
    repeated_name(names).map_or(Ok(()), |twice| Err(Problem::new(what, "different names", format!("{twice:?} twice"))))
}

impl From<&crate::atlas::Region> for Region {
    fn from(region: &crate::atlas::Region) -> Self {
        Self {
            name: region.name.clone(),
            network: Some(region.network.to_string()),
            hemisphere: Some(region.hemisphere.to_string()),
            centroid_mm: region.centroid_mm,
        }
    }
}
