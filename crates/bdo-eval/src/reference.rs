//! The rows every table has: connectivity, and what can be said without looking at a brain.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::combat::FittedCombat;
use crate::confound::Nuisance;
use crate::error::EvalError;
use crate::features::FeatureTable;
use crate::method::{Method, Outcome, Task};
use crate::problem::Problem;

/// Changes whenever the closed-form probe would give other numbers, so that stored results of an older one are not reused.
const CLOSED_FORM: &str = "closed-form/3";

/// Ridge or logistic regression on a fixed table of features: connectivity, or the features of any frozen model.
pub struct ClosedForm {
    name: String,
    table: Arc<FeatureTable>,
    source: String,
    harmonise: Option<Arc<Nuisance>>,
    pretrained: bool,
}

impl ClosedForm {
    /// `source` is what made the features (settings, the hash of a model); it decides whether stored results are reused.
    pub fn new(name: &str, table: Arc<FeatureTable>, source: &str) -> Self {
        Self { name: name.to_owned(), table, source: source.to_owned(), harmonise: None, pretrained: false }
    }

    /// Says that the features come out of a pre-trained model.
    pub fn of_pretrained(mut self) -> Self {
        self.pretrained = true;
        self
    }

    /// Harmonises the features over sites first, fitted on the training people of each task. Rows of the table must be the
    /// scans of the cohort in its order.
    pub fn harmonised(mut self, nuisance: Arc<Nuisance>) -> Self {
        self.harmonise = Some(nuisance);
        self
    }

    fn harmonised_table(&self, nuisance: &Nuisance, task: &Task<'_>) -> Result<FeatureTable, EvalError> {
        let FeatureTable { features, rows, .. } = &*self.table;
        let sites = |rows: &[usize]| -> Vec<&str> {
            rows.iter().map(|i| nuisance.site[*i].as_deref().unwrap_or("unknown")).collect()
        };
        let fitted = self.table.rows_of(|s| task.fits(s));
        let combat = FittedCombat::fit(features, &fitted, &sites(&fitted));
        let all = self.table.rows_of(|s| task.fits(s) || task.split.test.contains(s));
        let values = combat.apply(features, &all, &sites(&all));
        FeatureTable::new(all.iter().map(|i| rows[*i].clone()).collect(), features.width(), values)
    }
}

impl Method for ClosedForm {
    fn name(&self) -> &str {
        &self.name
    }

    fn fingerprint(&self) -> String {
        let harmonised = if self.harmonise.is_some() { " combat Pooled" } else { "" };
        format!("{CLOSED_FORM} {}{harmonised}", self.source)
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        match &self.harmonise {
            None => closed_form(task, &self.table, self.pretrained),
            Some(nuisance) => closed_form(task, &self.harmonised_table(nuisance, task)?, self.pretrained),
        }
    }
}

/// What can be predicted without the series: head motion, the site, age and sex, or nothing at all.
pub struct NoBrain {
    kind: NoBrainKind,
    nuisance: Arc<Nuisance>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoBrainKind {
    /// Mean framewise displacement.
    Motion,
    Site,
    /// Age and sex, without the one that is predicted.
    AgeSex,
    /// How frequent the classes are, or the mean.
    Majority,
}

impl NoBrain {
    pub fn new(kind: NoBrainKind, nuisance: Arc<Nuisance>) -> Self {
        Self { kind, nuisance }
    }
}

impl Method for NoBrain {
    fn name(&self) -> &str {
        match self.kind {
            NoBrainKind::Motion => "motion",
            NoBrainKind::Site => "site",
            NoBrainKind::AgeSex => "age-sex",
            NoBrainKind::Majority => "majority",
        }
    }

    fn fingerprint(&self) -> String {
        CLOSED_FORM.to_owned()
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        let (table, absent) = match self.kind {
            NoBrainKind::Motion => (self.nuisance.motion_table()?, "head motion is not known: the majority"),
            NoBrainKind::Site => (self.nuisance.site_table()?, "there is one site only: the majority"),
            NoBrainKind::AgeSex => {
                (self.nuisance.demographic_table(task.target)?, "nothing but the label is left: the majority")
            }
            NoBrainKind::Majority => return majority(task),
        };
        match table {
            Some(table) => closed_form(task, &table, false),
            // The row is always there; what it could not know is said.
            None => majority(task).map(|outcome| Outcome { flags: vec![absent.to_owned()], ..outcome }),
        }
    }
}

/// Ridge or logistic regression on a table, of a pre-trained model or not: fitted on the task's people, the mean over scans
/// predicted for each test person.
pub fn closed_form(task: &Task<'_>, table: &FeatureTable, pretrained: bool) -> Result<Outcome, EvalError> {
    let problem = Problem::of(task, &table.rows)?;
    let probe = problem.probe(&table.features, pretrained)?;
    let (predictions, flags) = problem.answer(&probe.predict(&table.features, &problem.tested));
    Ok(Outcome {
        predictions,
        parameters: probe.parameters(),
        fitted_on_blake3: table.rows_blake3(&problem.fitted),
        chosen: BTreeMap::from([("penalty".to_owned(), probe.penalty)]),
        flags,
    })
}

/// Class frequencies, or the mean, of the people fitted on.
fn majority(task: &Task<'_>) -> Result<Outcome, EvalError> {
    let (split, target) = (task.split, task.target);
    let everybody = split.train.subjects().iter().chain(split.validation.subjects());
    let fitted: Vec<&String> = everybody.filter(|s| task.fits(s) && target.value(s).is_some()).collect();
    if fitted.is_empty() {
        return Err(EvalError::Nobody { what: "to fit on" });
    }
    let n = fitted.len() as f64;
    let said: Vec<f64> = match target.classes() {
        Some(classes) => {
            let count = |k: usize| fitted.iter().filter(|s| target.code(s) == Some(k)).count();
            (0..classes).map(|k| count(k) as f64 / n).collect()
        }
        None => vec![fitted.iter().filter_map(|s| target.value(s)).sum::<f64>() / n],
    };
    let mut hasher = blake3::Hasher::new();
    for s in &fitted {
        hasher.update(s.as_bytes()).update(b"\0");
    }
    Ok(Outcome {
        predictions: split.test.subjects().iter().filter_map(|s| task.prediction(s, said.clone())).collect(),
        parameters: said.len(),
        fitted_on_blake3: hasher.finalize().to_hex().to_string(),
        chosen: BTreeMap::new(),
        flags: vec![],
    })
}
