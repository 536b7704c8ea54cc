//! Numbers that describe scans: one row per scan, one column per feature, NaN where a value is missing.

use crate::error::EvalError;
use bdo_data::cohort::{Cohort, CohortError, IndexEntry, Observer};
use bdo_data::shard::Shard;
use bdo_model::control::{Encoded, encode_cohort};
use bdo_model::frozen::FrozenModel;
use bdo_model::pooling::Pooling;
use serde::{Deserialize, Serialize};

/// A row-major matrix of features.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    width: usize,
    values: Vec<f64>,
    /// So many neighbouring columns are scaled together; 1 where each has a unit of its own.
    together: usize,
    /// What every such run of columns weighs beside the others; empty where all weigh the same.
    weights: Vec<f64>,
}

impl Features {
    /// Takes row-major values, which must be finite or NaN.
    pub fn new(rows: usize, width: usize, values: Vec<f64>) -> Result<Self, EvalError> {
        if values.len() != rows * width {
            return Err(EvalError::named("features", format!("{rows} x {width} values"), values.len()));
        }
        if let Some(at) = values.iter().position(|x| x.is_infinite()) {
            // NaN marks what is missing; infinite values have no place in a linear model.
            let found = format!("{} in row {}, column {}", values[at], at / width, at % width);
            return Err(EvalError::named("features", "finite values or NaN", found));
        }
        Ok(Self { width, values, together: 1, weights: vec![] })
    }

    /// How many neighbouring columns are to be scaled together.
    pub fn together(&self) -> usize {
        self.together
    }

    /// What each run of them weighs beside the others; empty where all weigh the same.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The same with other weights, one for each run of columns.
    pub fn weighing(&self, weights: Vec<f64>) -> Self {
        Self { weights, ..self.clone() }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.width..][..self.width]
    }

    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.values[i * self.width..][..self.width]
    }

    /// Some of the columns, scaled as they were.
    pub fn columns(&self, columns: std::ops::Range<usize>) -> Self {
        let rows = self.values.chunks_exact(self.width);
        let values = rows.flat_map(|row| row[columns.clone()].iter().copied()).collect();
        Self { width: columns.len(), values, together: self.together, weights: vec![] }
    }

    /// All values, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

/// Which scan a row is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanRow {
    /// The scan, spelled as its cohort spells it.
    pub scan: String,
    pub subject: String,
    /// The session, where there are several.
    pub session: Option<String>,
}

impl ScanRow {
    pub fn of(entry: &IndexEntry) -> Self {
        Self { scan: entry.id.to_string(), subject: entry.id.subject.clone(), session: entry.id.session.clone() }
    }
}

/// What made the features of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableOrigin {
    pub version: String,
    pub model_blake3: String,
    /// Hash of its readout, where that has a part in the features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readout_blake3: Option<String>,
    /// Hash of all the cohort holds.
    pub cohort_blake3: String,
    pub pooling: Pooling,
    /// Which part of the scans is in the table, where it is not all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

impl TableOrigin {
    /// Features that a model, given by its hash, makes of a cohort.
    pub fn of(model_blake3: String, cohort: &Cohort, pooling: Pooling) -> Result<Self, CohortError> {
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_blake3,
            readout_blake3: None,
            cohort_blake3: cohort.content_blake3()?,
            pooling,
            shard: None,
        })
    }

    pub fn of_frozen(frozen: &FrozenModel, cohort: &Cohort, pooling: Pooling) -> Result<Self, CohortError> {
        let readout_blake3 = frozen.readout_blake3(pooling);
        Ok(Self { readout_blake3, ..Self::of(frozen.blake3.clone(), cohort, pooling)? })
    }

    pub fn blake3(&self) -> String {
        let json = serde_json::to_vec(self).expect("an origin holds only words");
        blake3::hash(&json).to_hex().to_string()
    }
}

/// Features with the scan each row is of. A person may have several rows. Labels are deliberately absent.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureTable {
    pub rows: Vec<ScanRow>,
    pub features: Features,
    /// The model and cohort they were made of; none where no model made them.
    pub origin: Option<TableOrigin>,
    /// Scans without a usable region, which have no row.
    pub passed_over: Vec<String>,
    /// Whether each scan is like those the model knows, where that was asked.
    pub trust: Option<Vec<String>>,
}

impl FeatureTable {
    /// Takes row-major values, `width` of each scan.
    pub fn new(rows: Vec<ScanRow>, width: usize, values: Vec<f64>) -> Result<Self, EvalError> {
        let features = Features::new(rows.len(), width, values)?;
        Ok(Self { rows, features, origin: None, passed_over: vec![], trust: None })
    }

    /// Features that a model made. The numbers of a mean have one unit, and the larger ones say more: scaled one by one, directions
    /// that hold little but noise would count as much as any other. Those of a movement likewise, at each of its distances.
    pub fn of_model(
        rows: Vec<ScanRow>,
        width: usize,
        values: Vec<f64>,
        origin: TableOrigin,
    ) -> Result<Self, EvalError> {
        let mut table = Self::new(rows, width, values)?;
        table.features.together = match origin.pooling {
            Pooling::Mean => width.max(1),
            Pooling::MeanMovement => (width / 3).max(1),
            _ => 1,
        };
        Ok(Self { origin: Some(origin), ..table })
    }

    /// BLAKE3 of the origin; empty where no model made the features.
    pub fn origin_blake3(&self) -> String {
        self.origin.as_ref().map(TableOrigin::blake3).unwrap_or_default()
    }

    /// One row as models made it: features of a model are f32, so nothing is lost.
    pub fn feature(&self, row: usize) -> Vec<f32> {
        self.features.row(row).iter().map(|x| *x as f32).collect()
    }

    /// The rows of the people for whom `wanted` holds, in order.
    pub fn rows_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        (0..self.rows.len()).filter(|i| wanted(&self.rows[*i].subject)).collect()
    }

    /// BLAKE3 of the people and values of some rows: what a fit on them was fitted on.
    pub fn rows_blake3(&self, rows: &[usize]) -> String {
        let mut hasher = blake3::Hasher::new();
        for &i in rows {
            hasher.update(self.rows[i].subject.as_bytes()).update(b"\0");
            for x in self.features.row(i) {
                hasher.update(&x.to_le_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// The features of a frozen model: one vector per scan of a cohort.
impl FeatureTable {
    pub fn embed(
        frozen: &FrozenModel,
        cohort: &Cohort,
        pooling: Pooling,
        observer: &dyn Observer,
    ) -> Result<Self, EvalError> {
        Ok(Self::embed_looking(frozen, cohort, (&[pooling], None), observer, |_, _| ())?.swap_remove(0))
    }

    /// One table for each pooling, of all scans or of a part of them, which are encoded once: that is nearly all of the work. `look`
    /// is shown every scan with its control.
    pub fn embed_looking(
        frozen: &FrozenModel,
        cohort: &Cohort,
        (poolings, shard): (&[Pooling], Option<Shard>),
        observer: &dyn Observer,
        mut look: impl FnMut(usize, &Encoded<'_>),
    ) -> Result<Vec<Self>, EvalError> {
        poolings.iter().try_for_each(|pooling| frozen.able_to(*pooling))?;
        let scans: Vec<usize> = shard.map_or(0..cohort.len(), |shard| shard.range(cohort.len())).collect();
        let mut found: Vec<Vec<Option<Vec<f32>>>> = vec![vec![None; cohort.len()]; poolings.len()];
        let passed_over = encode_cohort(frozen, cohort, &scans, observer, |i, encoded| {
            look(i, &encoded);
            for (features, pooling) in found.iter_mut().zip(poolings) {
                features[i] = Some(pooling.per_scan().apply(&encoded));
            }
        })?;
        let passed_over: Vec<String> = passed_over.into_iter().map(|i| cohort.index()[i].id.to_string()).collect();
        let mut tables = Vec::new();
        for (features, pooling) in found.into_iter().zip(poolings) {
            let pooling = pooling.per_scan();
            let (mut rows, mut values) = (vec![], vec![]);
            for (entry, feature) in cohort.index().iter().zip(features) {
                let Some(feature) = feature else { continue };
                rows.push(ScanRow::of(entry));
                values.extend(feature.iter().map(|x| f64::from(*x)));
            }
            if rows.is_empty() && shard.is_none() {
                let cohort = cohort.folder().display();
                return Err(EvalError::named(cohort, "at least one scan with a usable region", "none"));
            }
            let (width, origin) = (frozen.feature_width(pooling), TableOrigin::of_frozen(frozen, cohort, pooling)?);
            let table = Self::of_model(rows, width, values, TableOrigin { shard, ..origin })?;
            tables.push(Self { passed_over: passed_over.clone(), ..table });
        }
        Ok(tables)
    }
}
