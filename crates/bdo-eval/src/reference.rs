//! The rows every table has: connectivity, and what can be said without looking at a brain.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::closed_form::FittedProbe;
use crate::combat::{FittedCombat, UnseenSite};
use crate::confound::Nuisance;
use crate::error::EvalError;
use crate::features::{FeatureTable, Features};
use crate::method::{FitOn, Method, Outcome, Task};
use crate::problem::{Problem, joined};

/// Changes whenever the closed-form probe would give other numbers, so that stored results of an older one are not reused.
const CLOSED_FORM: &str = "closed-form/3";

/// Ridge or logistic regression on a fixed table of features: connectivity, or the features of any frozen model.
pub struct ClosedForm {
    name: String,
    table: Arc<FeatureTable>,
    source: String,
    harmonise: Option<(Arc<Nuisance>, UnseenSite)>,
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
    pub fn harmonised(mut self, nuisance: Arc<Nuisance>, unseen: UnseenSite) -> Self {
        self.harmonise = Some((nuisance, unseen));
        self
    }

    fn harmonised_table(
        &self,
        nuisance: &Nuisance,
        unseen: UnseenSite,
        task: &Task<'_>,
    ) -> Result<FeatureTable, EvalError> {
        let features = &self.table.features;
        let site = |i: usize| nuisance.site[i].as_deref().unwrap_or("unknown");
        let fitted: Vec<usize> = self.table.rows_of(|s| task.fits(s));
        let sites: Vec<&str> = fitted.iter().map(|i| site(*i)).collect();
        let combat = FittedCombat::fit(features, &fitted, &sites)?;
        let all = self.table.rows_of(|s| task.fits(s) || task.split.test.contains(s));
        let sites: Vec<&str> = all.iter().map(|i| site(*i)).collect();
        let values = combat.apply(features, &all, &sites, unseen)?;
        let rows = all.iter().map(|i| self.table.rows[*i].clone()).collect();
        FeatureTable::new(rows, Features::new(all.len(), features.width(), values)?)
    }
}

impl Method for ClosedForm {
    fn name(&self) -> &str {
        &self.name
    }

    fn fingerprint(&self) -> String {
        let harmonised = self.harmonise.as_ref().map_or(String::new(), |(_, unseen)| format!(" combat {unseen:?}"));
        format!("{CLOSED_FORM} {}{harmonised}", self.source)
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        match &self.harmonise {
            None => fitted_form(task, &self.table, self.pretrained),
            Some((nuisance, unseen)) => {
                fitted_form(task, &self.harmonised_table(nuisance, *unseen, task)?, self.pretrained)
            }
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
            Some(table) => closed_form(task, &table),
            // The row is always there; what it could not know is said.
            None => majority(task).map(|outcome| Outcome { flags: vec![absent.to_owned()], ..outcome }),
        }
    }
}

/// Ridge or logistic regression on a table: fitted on the task's people, the mean over scans predicted for each test person.
pub fn closed_form(task: &Task<'_>, table: &FeatureTable) -> Result<Outcome, EvalError> {
    fitted_form(task, table, false)
}

/// The same; features of an encoder let validation people choose the penalty, whom it has not seen as it has the others.
fn fitted_form(task: &Task<'_>, table: &FeatureTable, pretrained: bool) -> Result<Outcome, EvalError> {
    let problem = Problem::of(task, &table.rows)?;
    let probe = fitted_probe(&problem, task, table, pretrained)?;
    let (predictions, flags) = problem.answer(&probe.predict(&table.features, &problem.tested));
    Ok(Outcome {
        predictions,
        parameters: probe.parameters(),
        fitted_on_blake3: table.rows_blake3(&problem.fitted),
        chosen: BTreeMap::from([("penalty".to_owned(), probe.penalty)]),
        flags,
    })
}

/// The same, without predictions.
pub(crate) fn closed_form_probe(
    task: &Task<'_>,
    table: &FeatureTable,
    pretrained: bool,
) -> Result<FittedProbe, EvalError> {
    fitted_probe(&Problem::of(task, &table.rows)?, task, table, pretrained)
}

fn fitted_probe(
    problem: &Problem<'_>,
    task: &Task<'_>,
    table: &FeatureTable,
    pretrained: bool,
) -> Result<FittedProbe, EvalError> {
    let (features, labels) = (&table.features, problem.labels());
    if pretrained && !problem.choosing.is_empty() {
        let loss = |probe: &FittedProbe| problem.loss(&probe.predict(features, &problem.choosing));
        return FittedProbe::fit_by(features, &problem.fitted, labels, loss);
    }
    FittedProbe::fit(features, &problem.fitted, labels, &problem.groups, task.seed)
}

/// Class frequencies, or the mean, of the people fitted on.
fn majority(task: &Task<'_>) -> Result<Outcome, EvalError> {
    let mut fitted: Vec<&String> = task.split.train.subjects().iter().collect();
    if task.fit_on == FitOn::TrainAndValidation {
        fitted.extend(task.split.validation.subjects());
    }
    fitted.retain(|s| task.target.value(s).is_some());
    if fitted.is_empty() {
        return Err(EvalError::Nobody { what: "to fit on" });
    }
    let n = fitted.len() as f64;
    let said: Vec<f64> = match task.target.classes() {
        Some(classes) => {
            let count = |k: usize| fitted.iter().filter(|s| task.target.code(s) == Some(k)).count();
            (0..classes).map(|k| count(k) as f64 / n).collect()
        }
        None => vec![fitted.iter().filter_map(|s| task.target.value(s)).sum::<f64>() / n],
    };
    let tested = task.split.test.subjects().iter().filter(|s| task.target.value(s).is_some());
    let everybody: BTreeMap<String, Vec<f64>> = tested.map(|s| (s.clone(), said.clone())).collect();
    let mut hasher = blake3::Hasher::new();
    for s in &fitted {
        hasher.update(s.as_bytes()).update(b"\0");
    }
    Ok(Outcome {
        predictions: joined(task, everybody),
        parameters: said.len(),
        fitted_on_blake3: hasher.finalize().to_hex().to_string(),
        chosen: BTreeMap::new(),
        flags: vec![],
    })
}
