//! Features on disk beside what uses them, so that a second probe does not embed again. The key is the hash of model,
//! cohort and pooling: a cache can be stale for nobody.

use crate::error::EvalError;
use crate::table::{FeatureTable, ScanRow, TableOrigin};
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
    /// BLAKE3 of the file of numbers.
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
    let mut tables = Vec::new();
    for pooling in poolings {
        let origin = TableOrigin::of(frozen, cohort, pooling.per_scan())?;
        let (numbers, sidecar) = paths(folder, &origin);
        tables.push(read(&numbers, &sidecar, &origin));
    }
    let missing: Vec<Pooling> =
        poolings.iter().zip(&tables).filter(|(_, table)| table.is_none()).map(|(pooling, _)| *pooling).collect();
    if missing.is_empty() {
        return Ok(tables.into_iter().flatten().collect());
    }
    let mut made = FeatureTable::embed_each(frozen, cohort, &missing, observer)?.into_iter();
    durable::create_folder(folder)?;
    for table in tables.iter_mut().filter(|table| table.is_none()) {
        *table = made.next();
        if let Some(table) = table {
            store(folder, table)?;
        }
    }
    Ok(tables.into_iter().flatten().collect())
}

fn store(folder: &Path, table: &FeatureTable) -> Result<(), EvalError> {
    let (numbers, sidecar) = paths(folder, &table.origin);
    let array = Array { shape: vec![table.rows.len(), table.width], values: table.values.clone() };
    let parameters = Parameters(BTreeMap::from([("features".to_owned(), array)]));
    write_parameters(&numbers, &layout(table.rows.len(), table.width), &parameters)?;
    let note = Sidecar {
        origin: table.origin.clone(),
        rows: table.rows.clone(),
        width: table.width,
        passed_over: table.passed_over.clone(),
        blake3: blake3::hash(&durable::read(&numbers)?).to_hex().to_string(),
    };
    let text = serde_json::to_string(&note).expect("a sidecar holds only words and numbers") + "\n";
    durable::write(&sidecar, text.as_bytes())?;
    Ok(())
}

fn paths(folder: &Path, origin: &TableOrigin) -> (PathBuf, PathBuf) {
    let key = &origin.blake3()[..16];
    (folder.join(format!("{key}.safetensors")), folder.join(format!("{key}.json")))
}

fn layout(rows: usize, width: usize) -> Vec<ParameterSpec> {
    vec![ParameterSpec { name: "features".into(), shape: vec![rows, width], start: Start::Zeros, trainable: false }]
}

/// Anything that is not exactly what was asked for is no cache, and is made again.
fn read(numbers: &Path, sidecar: &Path, origin: &TableOrigin) -> Option<FeatureTable> {
    let note: Sidecar = serde_json::from_slice(&durable::read(sidecar).ok()?).ok()?;
    let intact = blake3::hash(&durable::read(numbers).ok()?).to_hex().as_str() == note.blake3;
    if note.origin != *origin || !intact {
        return None;
    }
    let mut parameters = read_parameters(numbers, &layout(note.rows.len(), note.width)).ok()?;
    let values = parameters.0.remove("features")?.values;
    Some(FeatureTable {
        rows: note.rows,
        width: note.width,
        values,
        origin: note.origin,
        passed_over: note.passed_over,
    })
}
