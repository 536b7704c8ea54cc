//! The preprocessing contract: what a series must have gone through before the model may see it.

use crate::config::ModelConfig;
use bdo_data::cohort::Cohort;
use bdo_data::scaler::Scaling;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Contents of `preprocessor_config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreprocessorConfig {
    /// Region names in the order the model expects.
    pub roi_names: Vec<String>,
    /// Name of the atlas.
    pub atlas_name: String,
    /// BLAKE3 of the atlas, hexadecimal.
    pub atlas_hash: String,
    /// Volumes dropped at the start of each scan.
    pub dropped_volumes: usize,
    /// Scaled time per second.
    pub time_scale: f64,
    /// What the medians and ranges are of; files without it are pooled.
    #[serde(default, skip_serializing_if = "Scaling::is_pooled")]
    pub scaling: Scaling,
    /// Median of each region, pooled after centring unless `scaling` says otherwise.
    pub medians: Vec<f64>,
    /// Inter-quartile range of each region, likewise; 0 marks a region that was missing.
    pub iqrs: Vec<f64>,
    /// Scans the statistics were fitted on.
    pub scan_count: usize,
    /// BLAKE3 of the list of those scans, hexadecimal.
    pub scan_list_hash: String,
    /// Scans of the training, by which a cohort whose regions have only numbers is recognised; `None` takes numbers for the
    /// same regions.
    #[serde(skip)]
    pub trained_scans: Option<BTreeSet<String>>,
}

/// The contract contradicts itself, the model or the data.
#[derive(Debug, thiserror::Error, PartialEq)]
#[allow(missing_docs)] // The messages say it.
pub enum ContractError {
    /// A list has the wrong length.
    #[error("`{field}` must have {expected} entries (one per region), found {found}")]
    Length { field: &'static str, expected: usize, found: usize },
    /// A region name appears twice.
    #[error("region `{name}` appears twice, expected once")]
    DuplicateRegion { name: String },
    /// A statistic is not a number, or an IQR is negative.
    #[error("`{field}` of region `{name}` must be finite{}, found {found}", if *field == "iqrs" { " and at least 0" } else { "" })]
    Statistic { field: &'static str, name: String, found: f64 },
    /// The contract was written for another clock.
    #[error("`time_scale` must equal the model's {expected}, found {found}")]
    TimeScale { expected: f64, found: f64 },
    /// Regions that are only numbered may be any.
    #[error(
        "expected the {expected} numbered regions of the cohort the model was trained on, found {found} of a cohort that shares no scan with it: \
         numbers do not say which atlas they are of; ingest with the atlas' region names (--labels), or say --same-atlas"
    )]
    Numbered { expected: usize, found: usize },
    /// The data lack regions the model needs.
    #[error("the data lack {} of the model's {expected} regions: {}", missing.len(), listed(missing))]
    MissingRegions { expected: usize, missing: Vec<String> },
}

/// Whether a name is only a place in a list, as ingestion gives it to columns without a header.
fn is_number(name: &str) -> bool {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let word = name[..name.len() - digits.len()].trim_end_matches(['-', '_', ' ', '#']).to_ascii_lowercase();
    !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && ["", "region", "roi", "parcel", "node", "label"].contains(&word.as_str())
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

impl PreprocessorConfig {
    /// Accepts the contract for a model, or says what contradicts.
    pub fn check(&self, config: &ModelConfig) -> Result<(), ContractError> {
        for (field, found) in
            [("roi_names", self.roi_names.len()), ("medians", self.medians.len()), ("iqrs", self.iqrs.len())]
        {
            if found != config.regions {
                return Err(ContractError::Length { field, expected: config.regions, found });
            }
        }
        let mut seen = BTreeSet::new();
        for (index, name) in self.roi_names.iter().enumerate() {
            if !seen.insert(name) {
                return Err(ContractError::DuplicateRegion { name: name.clone() });
            }
            let (median, iqr) = (self.medians[index], self.iqrs[index]);
            for (field, found, accepted) in
                [("medians", median, median.is_finite()), ("iqrs", iqr, iqr.is_finite() && iqr >= 0.0)]
            {
                if !accepted {
                    return Err(ContractError::Statistic { field, name: name.clone(), found });
                }
            }
        }
        if self.time_scale != config.time_scale {
            return Err(ContractError::TimeScale { expected: config.time_scale, found: self.time_scale });
        }
        Ok(())
    }

    /// For each region of the model, its column in a cohort. Regions are matched by name; where names are mere numbers, the
    /// cohort must be of the same atlas.
    pub fn match_cohort(&self, cohort: &Cohort) -> Result<Vec<usize>, ContractError> {
        let names: Vec<String> = cohort.regions().iter().map(|region| region.name.clone()).collect();
        if self.is_numbered()
            && let Some(trained) = &self.trained_scans
        {
            let same_names = cohort.manifest().atlas.names_blake3 == self.atlas_hash;
            if !same_names || !cohort.index().iter().any(|entry| trained.contains(&entry.blake3)) {
                return Err(ContractError::Numbered { expected: self.roi_names.len(), found: names.len() });
            }
        }
        self.match_regions(&names)
    }

    /// The same for series that no cohort holds: nothing says of which atlas mere numbers are.
    pub fn match_names(&self, names: &[String]) -> Result<Vec<usize>, ContractError> {
        if self.is_numbered() && self.trained_scans.is_some() {
            return Err(ContractError::Numbered { expected: self.roi_names.len(), found: names.len() });
        }
        self.match_regions(names)
    }

    fn is_numbered(&self) -> bool {
        self.roi_names.iter().all(|name| is_number(name))
    }

    /// For each region of the model, its column in the data. Position is never trusted: names are matched, data may
    /// hold more regions in any order, and missing ones are named.
    pub fn match_regions(&self, data_names: &[String]) -> Result<Vec<usize>, ContractError> {
        let mut columns = BTreeMap::new();
        for (column, name) in data_names.iter().enumerate() {
            if columns.insert(name, column).is_some() {
                return Err(ContractError::DuplicateRegion { name: name.clone() });
            }
        }
        let missing: Vec<String> = self.roi_names.iter().filter(|name| !columns.contains_key(name)).cloned().collect();
        if !missing.is_empty() {
            return Err(ContractError::MissingRegions { expected: self.roi_names.len(), missing });
        }
        Ok(self.roi_names.iter().map(|name| columns[name]).collect())
    }
}
