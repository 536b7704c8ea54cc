//! One vector a scan, with who it is of and what made it. Labels are deliberately absent.

use crate::error::EvalError;
use bdo_data::cohort::{Cohort, Observer};
use bdo_model::control::encode_cohort;
use bdo_model::frozen::FrozenModel;
use bdo_model::pooling::Pooling;
use serde::{Deserialize, Serialize};

/// Which scan a row is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanRow {
    /// The scan, spelled as its cohort spells it.
    pub scan: String,
    /// The person.
    pub subject: String,
    /// The session, where there are several.
    pub session: Option<String>,
}

/// What made a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableOrigin {
    /// Version of the software.
    pub version: String,
    /// Hash of the model.
    pub model_blake3: String,
    /// Hash of all the cohort holds.
    pub cohort_blake3: String,
    /// How frames became one vector.
    pub pooling: Pooling,
}

impl TableOrigin {
    /// What `frozen` makes of `cohort`.
    pub fn of(frozen: &FrozenModel, cohort: &Cohort, pooling: Pooling) -> Result<Self, EvalError> {
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_blake3: frozen.blake3_for(pooling),
            cohort_blake3: cohort.content_blake3()?,
            pooling,
        })
    }

    /// BLAKE3 over all of it.
    pub fn blake3(&self) -> String {
        let json = serde_json::to_vec(self).expect("an origin holds only words");
        blake3::hash(&json).to_hex().to_string()
    }
}

/// Features of the scans of a cohort, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureTable {
    /// Who and what each row is.
    pub rows: Vec<ScanRow>,
    /// Numbers a row.
    pub width: usize,
    /// Row-major [rows, width].
    pub values: Vec<f32>,
    /// What made it.
    pub origin: TableOrigin,
    /// Scans without a usable region, which have no row.
    pub passed_over: Vec<String>,
}

impl FeatureTable {
    /// Embeds every scan of a cohort.
    pub fn embed(
        frozen: &FrozenModel,
        cohort: &Cohort,
        pooling: Pooling,
        observer: &dyn Observer,
    ) -> Result<Self, EvalError> {
        Ok(Self::embed_each(frozen, cohort, &[pooling], observer)?.swap_remove(0))
    }

    /// One table for each pooling; scans are encoded once, which is nearly all of the work.
    pub fn embed_each(
        frozen: &FrozenModel,
        cohort: &Cohort,
        poolings: &[Pooling],
        observer: &dyn Observer,
    ) -> Result<Vec<Self>, EvalError> {
        poolings.iter().try_for_each(|pooling| frozen.able_to(*pooling))?;
        let scans: Vec<usize> = (0..cohort.len()).collect();
        let mut found: Vec<Vec<Option<Vec<f32>>>> = vec![vec![None; cohort.len()]; poolings.len()];
        let passed_over = encode_cohort(frozen, cohort, &scans, observer, |i, encoded| {
            for (features, pooling) in found.iter_mut().zip(poolings) {
                features[i] = Some(pooling.per_scan().apply(&encoded));
            }
        })?;
        let passed_over: Vec<String> = passed_over.into_iter().map(|i| cohort.index()[i].id.to_string()).collect();
        let mut tables = Vec::new();
        for (features, pooling) in found.into_iter().zip(poolings) {
            let pooling = pooling.per_scan();
            let mut table = Self {
                rows: Vec::new(),
                width: frozen.feature_width(pooling),
                values: Vec::new(),
                origin: TableOrigin::of(frozen, cohort, pooling)?,
                passed_over: passed_over.clone(),
            };
            for (entry, feature) in cohort.index().iter().zip(features) {
                let Some(feature) = feature else { continue };
                table.rows.push(scan_row(entry));
                table.values.extend(feature);
            }
            if table.rows.is_empty() {
                return Err(EvalError::NoScans { cohort: cohort.folder().to_path_buf() });
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// The vector of one row.
    pub fn feature(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

pub(crate) fn scan_row(entry: &bdo_data::cohort::IndexEntry) -> ScanRow {
    ScanRow { scan: entry.id.to_string(), subject: entry.id.subject.clone(), session: entry.id.session.clone() }
}
