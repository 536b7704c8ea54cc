//! The confound audit: how well do features predict what they should not know?

use bdo_data::cohort::Cohort;
use bdo_data::division::{Division, Scheme};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::comparison::primary_metric;
use crate::confound::Nuisance;
use crate::error::EvalError;
use crate::features::FeatureTable;
use crate::method::{FitOn, Task};
use crate::metric::Metrics;
use crate::reference::closed_form;
use bdo_data::target::Target;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    /// What the features are called.
    pub features: String,
    /// `site`, `tr_seconds`, `span_seconds` or `mean_fd_mm`.
    pub nuisance: String,
    /// Number of classes; 0 for a number.
    pub classes: usize,
    pub tested_people: usize,
    /// Which score says it best.
    pub primary: String,
    /// The scores, none where the nuisance does not vary or is not known.
    pub metrics: Option<Metrics>,
}

/// Predicts site, repetition time, scan length and head motion from features by the closed-form probe, on one random split a
/// nuisance. People of one repetition time, whose motion is not known, or of whom nobody is left to test, give a row without
/// scores.
pub fn audit(
    name: &str,
    table: &FeatureTable,
    cohort: &Cohort,
    division: &Division<'_>,
    nuisance: &Nuisance,
    seed: u64,
) -> Result<Vec<AuditRow>, EvalError> {
    let labels = nuisance.as_labels();
    let one = |column: &String| {
        let empty = |classes| AuditRow {
            features: name.to_owned(),
            nuisance: column.clone(),
            classes,
            tested_people: 0,
            primary: primary_metric(classes).to_owned(),
            metrics: None,
        };
        let Ok(target) = Target::of(&labels, column) else { return Ok(empty(0)) };
        let classes = target.classes().unwrap_or(0);
        let Ok(split) = division.split_labels(&labels, Some(column), Scheme::Random, seed) else {
            return Ok(empty(classes));
        };
        let task = Task { cohort, split: &split, target: &target, seed, fit_on: FitOn::TrainAndValidation };
        let outcome = match closed_form(&task, table, false) {
            Err(EvalError::Nobody { .. }) => return Ok(empty(classes)),
            found => found?,
        };
        let (tested_people, metrics) = (outcome.predictions.len(), task.score(&outcome.predictions));
        Ok(AuditRow { tested_people, metrics, ..empty(classes) })
    };
    labels.columns().par_iter().map(one).collect()
}
