//! The features of a frozen model: one vector per scan of a cohort.

use crate::error::EvalError;
use crate::features::{FeatureTable, Features, ScanRow, TableOrigin};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::shard::Shard;
use bdo_model::control::{Encoded, encode_cohort};
use bdo_model::frozen::FrozenModel;
use bdo_model::pooling::Pooling;

impl FeatureTable {
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
        Self::embed_looking(frozen, cohort, (poolings, None), observer, |_, _| ())
    }

    /// The same for a part of the scans; `look` is shown every scan with its control.
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
            let features = Features::new(rows.len(), frozen.feature_width(pooling), values)?;
            let origin = TableOrigin { shard, ..TableOrigin::of_frozen(frozen, cohort, pooling)? };
            tables.push(Self { passed_over: passed_over.clone(), ..Self::of_model(rows, features, origin)? });
        }
        Ok(tables)
    }
}
