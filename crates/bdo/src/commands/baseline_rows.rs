//! The five baselines as rows of a comparison.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use bdo_baselines::connectivity::ConnectivityKind;
use bdo_baselines::connectome_set::ConnectomeSet;
use bdo_baselines::foundation::{FoundationMethod, FoundationRun};
use bdo_baselines::label::Labels;
use bdo_baselines::method::{ConnectivityMethod, Run};
use bdo_baselines::train::objective::Task as LabelKind;
use bdo_baselines::train::select::by_person;
use bdo_data::cohort::Cohort;
use bdo_data::random::stream;
use bdo_eval::method::{Method, MethodError, Outcome, Prediction, Task};
use bdo_model::ops::Kernels;
use rand_chacha::rand_core::Rng;

/// Names of the rows.
pub(crate) const NAMES: [&str; 5] = ["brainnetcnn", "braingnn", "brainnettf", "brainlm", "brainjepa"];

/// Width of the token models' encoder: the size that BDO's own rows have by default.
const WIDTH: usize = 192;

/// Makes rows; matrices that several rows look at are computed once.
#[derive(Default)]
pub(crate) struct Baselines {
    sets: Mutex<Vec<(ConnectivityKind, Arc<ConnectomeSet>)>>,
}

impl Baselines {
    /// The row of this name, `None` if it is no baseline. `epochs` replaces those of the method's own training.
    pub(crate) fn row(
        &self,
        name: &str,
        epochs: Option<usize>,
        cohort: &Cohort,
    ) -> anyhow::Result<Option<Box<dyn Method>>> {
        let kind = if let Some(method) = ConnectivityMethod::ALL.into_iter().find(|m| m.name() == name) {
            Kind::Connectivity(method, self.set(method.inputs(), cohort)?)
        } else if let Some(method) = FoundationMethod::ALL.into_iter().find(|m| m.name() == name) {
            Kind::Tokens(method)
        } else {
            return Ok(None);
        };
        Ok(Some(Box::new(BaselineRow { kind, epochs })))
    }

    fn set(&self, kind: ConnectivityKind, cohort: &Cohort) -> anyhow::Result<Arc<ConnectomeSet>> {
        let mut sets = self.sets.lock().ok().context("another row failed while it computed connectivity")?;
        if let Some((_, set)) = sets.iter().find(|(k, _)| *k == kind) {
            return Ok(set.clone());
        }
        let set = Arc::new(ConnectomeSet::of_cohort(cohort, kind)?);
        sets.push((kind, set.clone()));
        Ok(set)
    }
}

enum Kind {
    Connectivity(ConnectivityMethod, Arc<ConnectomeSet>),
    Tokens(FoundationMethod),
}

struct BaselineRow {
    kind: Kind,
    epochs: Option<usize>,
}

impl Method for BaselineRow {
    fn name(&self) -> &str {
        match &self.kind {
            Kind::Connectivity(method, _) => method.name(),
            Kind::Tokens(method) => method.name(),
        }
    }

    fn fingerprint(&self) -> String {
        format!("baseline/1 {} width {WIDTH} epochs {:?}", self.name(), self.epochs)
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, MethodError> {
        let labels = Labels::of(task.cohort.participants(), &task.target.name).map_err(other)?;
        let scale = labels.scale(&task.split.train);
        let label = |subject: &str| labels.value(subject).map(|y| scale.to_loss(y) as f32);
        let seed = stream("baseline run", &[0, task.seed]).next_u64();
        let (kernels, kind, regions) = (Kernels::default(), labels.task, task.cohort.regions().len());
        let (found, parts, people, flags, parameters) = match &self.kind {
            Kind::Connectivity(method, set) => {
                let mut recipe = method.recipe();
                recipe.epochs = self.epochs.unwrap_or(recipe.epochs);
                let parts = set.parts(task.split, label);
                let run = Run { recipe: &recipe, task: kind, seed, kernels, checkpoints: None };
                let found = method.run(set.regions(), &parts, &run, &mut |_| true).map_err(other)?;
                (found, parts, set.people().to_vec(), vec![], method.parameter_count(regions))
            }
            Kind::Tokens(method) => {
                let mut recipe = method.recipe();
                recipe.epochs = self.epochs.unwrap_or(recipe.epochs);
                let run = FoundationRun { width: WIDTH, recipe: &recipe, task: kind, seed, kernels };
                let found = method.run(task.cohort, task.split, &run, &label, &mut |_, _| true).map_err(other)?;
                (found.outcome, found.parts, found.people, found.notes, method.parameter_count(regions, WIDTH))
            }
        };
        let said = by_person(&parts.test, &found.test).into_iter().filter_map(|(person, (_, predicted))| {
            let subject = people[person].clone();
            let truth = task.target.value(&subject)?;
            let predicted = match kind {
                LabelKind::Class => vec![1.0 - predicted, predicted],
                LabelKind::Number => vec![scale.to_label(predicted)],
            };
            Some(Prediction { subject, truth, predicted })
        });
        let fitted_on = format!("{} {}", self.fingerprint(), task.split.blake3);
        Ok(Outcome {
            predictions: said.collect(),
            parameters,
            fitted_on_blake3: blake3::hash(fitted_on.as_bytes()).to_hex().to_string(),
            chosen: BTreeMap::from([("epoch".to_owned(), found.epoch as f64)]),
            flags,
        })
    }
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> MethodError {
    MethodError::Other(Box::new(error))
}
