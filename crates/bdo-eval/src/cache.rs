//! Features on disk beside what uses them, so that a second probe does not embed again. The key is the hash of model,
//! cohort and pooling, so a cache cannot be stale.

use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow, TableOrigin};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::durable;
use bdo_model::frozen::FrozenModel;
use bdo_model::parameters::{Array, ParameterSpec, Parameters, Start};
use bdo_model::pooling::Pooling;
use bdo_model::weights::{read_parameters, write_parameters};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What lies beside the numbers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sidecar {
    origin: TableOrigin,
    rows: Vec<ScanRow>,
    width: usize,
    passed_over: Vec<String>,
    blake3: String,
}

/// The table from the cache in `folder`, or embedded and put there.
pub fn cached_features(
    folder: &Path,
    frozen: &FrozenModel,
    cohort: &Cohort,
    pooling: Pooling,
    observer: &dyn Observer,
) -> Result<FeatureTable, EvalError> {
    Ok(cached_features_each(folder, frozen, cohort, &[pooling], observer)?.swap_remove(0))
}

/// One table for each pooling; those that are missing are embedded together.
pub fn cached_features_each(
    folder: &Path,
    frozen: &FrozenModel,
    cohort: &Cohort,
    poolings: &[Pooling],
    observer: &dyn Observer,
) -> Result<Vec<FeatureTable>, EvalError> {
    let (mut tables, mut missing) = (Vec::new(), Vec::new());
    for pooling in poolings {
        let found = find(folder, &TableOrigin::of_frozen(frozen, cohort, pooling.per_scan())?);
        missing.extend(found.is_none().then_some(*pooling));
        tables.push(found);
    }
    let mut made = Vec::new();
    if !missing.is_empty() {
        made = FeatureTable::embed_looking(frozen, cohort, (&missing, None), observer, |_, _| ())?;
        made.iter().try_for_each(|table| keep(folder, table))?;
    }
    let mut made = made.into_iter();
    Ok(tables.into_iter().filter_map(|found| found.or_else(|| made.next())).collect())
}

/// Puts a table with an origin into the cache.
pub fn keep(folder: &Path, table: &FeatureTable) -> Result<(), EvalError> {
    let Some(origin) = &table.origin else { return Ok(()) };
    durable::create_folder(folder)?;
    let (numbers, sidecar) = paths(folder, origin);
    let (rows, width) = (table.rows.len(), table.features.width());
    let values = table.features.values().iter().map(|x| *x as f32).collect();
    let array = Array { shape: vec![rows, width], values };
    let parameters = Parameters(BTreeMap::from([("features".to_owned(), array)]));
    write_parameters(&numbers, &layout(rows, width), &parameters)?;
    let note = Sidecar {
        origin: origin.clone(),
        rows: table.rows.clone(),
        width,
        passed_over: table.passed_over.clone(),
        blake3: blake3::hash(&durable::read(&numbers)?).to_hex().to_string(),
    };
    let text = serde_json::to_string(&note).expect("a sidecar holds only words and numbers") + "\n";
    Ok(durable::write(&sidecar, text.as_bytes())?)
}

fn paths(folder: &Path, origin: &TableOrigin) -> (PathBuf, PathBuf) {
    let key = &origin.blake3()[..16];
    (folder.join(format!("{key}.safetensors")), folder.join(format!("{key}.json")))
}

fn layout(rows: usize, width: usize) -> Vec<ParameterSpec> {
    vec![ParameterSpec { name: "features".into(), shape: vec![rows, width], start: Start::Zeros, trainable: false }]
}

/// The table of this origin. Anything that is not exactly what was asked for is no cache, and is made again.
pub fn find(folder: &Path, origin: &TableOrigin) -> Option<FeatureTable> {
    let (numbers, sidecar) = paths(folder, origin);
    let note: Sidecar = serde_json::from_slice(&durable::read(&sidecar).ok()?).ok()?;
    let intact = blake3::hash(&durable::read(&numbers).ok()?).to_hex().as_str() == note.blake3;
    if note.origin != *origin || !intact {
        return None;
    }
    let mut parameters = read_parameters(&numbers, &layout(note.rows.len(), note.width)).ok()?;
    let values = parameters.0.remove("features")?.values.into_iter().map(f64::from).collect();
    let table = FeatureTable::of_model(note.rows, note.width, values, note.origin).ok()?;
    Some(FeatureTable { passed_over: note.passed_over, ..table })
}
