//! The five baselines as rows of a comparison, and two of them fine-tuned.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bdo_baselines::connectivity::{ConnectivityKind, ConnectomeSet};
use bdo_baselines::foundation::{FoundationMethod, FoundationRun, Tuning};
use bdo_baselines::method::{ConnectivityMethod, NetworkKeys, Outcome as Trained, Run};
use bdo_baselines::pretrain::scans::grid_of;
use bdo_data::random::stream;
use bdo_eval::error::EvalError;
use bdo_eval::finetune::TunePoint;
use bdo_eval::fit::{Loss, loss_of};
use bdo_eval::method::{Method, Outcome, Task};
use bdo_eval::predict::Trusting;
use bdo_eval::supervised::recipe::Recipe;
use bdo_train::fit::Unobserved;
use bdo_train::ranks::Alone;
use bdo_train::settings::Settings;
use burn::tensor::Device;
use rand_chacha::rand_core::Rng;

use super::Field;
use super::pretraining::epochs_for;
use super::row::Row;
use super::workshop::Workshop;
use crate::args::Choice;
use crate::cli::Common;
use crate::commands::baseline::{predictions, pretrain_tokens};
use crate::commands::pretrain::continued;

impl Workshop<'_> {
    pub(super) fn network(&self, row: Row, method: ConnectivityMethod) -> anyhow::Result<BaselineRow> {
        let training = &self.field.args.training;
        let mut recipe = method.recipe();
        recipe.epochs = training.baseline_epochs.unwrap_or(recipe.epochs);
        recipe.max_minutes = training.baseline_minutes;
        let kind = Kind::Connectivity(method, recipe, self.connectomes(method.inputs())?, self.field.common.place()?);
        Ok(BaselineRow { row, kind, gflops: training.train_gflops })
    }

    pub(super) fn tokens(&self, row: Row, method: FoundationMethod, tuned: bool) -> anyhow::Result<BaselineRow> {
        let Field { args, cohort, common, .. } = self.field;
        let training = &args.training;
        let minutes = training.baseline_minutes;
        let mut sets = vec![format!("model.kind={}", method.name()), format!("train.max_minutes={minutes:?}")];
        sets.extend(training.baseline_epochs.map(|epochs| format!("train.epochs={epochs}")));
        let points = TunePoint::subset(training.finetune_budget);
        // The time is that of the whole row, whatever the number of configurations.
        let max_minutes = minutes / points.len().max(1) as f64;
        let tuning = Tuning { epochs: training.finetune_epochs, points, max_minutes };
        let settings = Settings::resolve(None, "", &sets)?.settings;
        let tokens = Tokens {
            method,
            tuning: tuned.then_some(tuning),
            encoder_parameters: method.encoder_count(cohort.regions().len(), &settings),
            settings,
            data: args.cohort.data.clone(),
            out: args.out.join("pretraining"),
            quiet: Common { quiet: true, ..(*common).clone() },
            device: common.place()?,
        };
        Ok(BaselineRow { row, kind: Kind::Tokens(Box::new(tokens)), gflops: training.train_gflops })
    }

    /// Matrices that several rows look at are computed once.
    fn connectomes(&self, kind: ConnectivityKind) -> anyhow::Result<Arc<ConnectomeSet>> {
        if let Some((_, set)) = self.connectomes.borrow().iter().find(|(k, _)| *k == kind) {
            return Ok(set.clone());
        }
        let set = Arc::new(ConnectomeSet::of_cohort(self.field.cohort, kind)?);
        self.connectomes.borrow_mut().push((kind, set.clone()));
        Ok(set)
    }
}

enum Kind {
    Connectivity(ConnectivityMethod, Recipe, Arc<ConnectomeSet>, Device),
    Tokens(Box<Tokens>),
}

/// What a row of a token model needs.
struct Tokens {
    method: FoundationMethod,
    settings: Settings,
    tuning: Option<Tuning>,
    encoder_parameters: usize,
    data: PathBuf,
    out: PathBuf,
    /// Progress is that of the comparison.
    quiet: Common,
    device: Device,
}

pub(super) struct BaselineRow {
    row: Row,
    kind: Kind,
    /// Billions of operations that decide how long it is trained, or pre-trained.
    gflops: Option<f64>,
}

/// What a row found, before it is put into units of the label.
struct Found {
    outcome: Trained,
    people: Vec<String>,
    flags: Vec<String>,
    parameters: usize,
    /// Operations of its training, or pre-training.
    flops: f64,
}

impl Tokens {
    /// Pre-trains for the split, unless that has been done, then probes or tunes.
    fn run(
        &self,
        row: &BaselineRow,
        task: &Task<'_>,
        loss: Loss,
        seed: u64,
        label: &dyn Fn(&str) -> Option<f32>,
    ) -> Result<Found, EvalError> {
        let (split, name, mut settings) = (task.split, self.method.name(), self.settings.clone());
        let grid = grid_of(task.cohort)?.0;
        let per_scan = self.method.train_flops(grid, &settings);
        if let Some(gflops) = row.gflops {
            // Those who are pre-trained on, validation people too.
            let long = task.cohort.index().iter().filter(|entry| entry.frames >= grid.frames());
            let scans = long.filter(|entry| !split.test.contains(&entry.id.subject)).count();
            settings.train.epochs = epochs_for(gflops, per_scan, scans as f64);
        }
        // Another configuration is another run; labels that share a division of people share it.
        let folder = format!("{name}-{}-{}", &split.blake3[..16], &settings.blake3()[..8]);
        let out = self.out.join(folder);
        let pretrained = continued(&self.data, &out, settings, seed, Some(split.clone()), &self.quiet)
            .and_then(|request| pretrain_tokens(&request, &self.quiet, &Alone))
            .map_err(|error| EvalError::Other(error.into()))?;
        let features = out.join("features");
        let run = FoundationRun {
            run: Run { loss, seed, device: &self.device, states: None, ranks: &Alone },
            model: &pretrained.model,
            trusting: Trusting::default(),
            tuning: self.tuning.as_ref(),
            features: Some(&features),
        };
        let found = self.method.run(task.cohort, split, &run, label, &Unobserved)?;
        let mut flags = pretrained.notes;
        flags.extend(found.notes);
        let epochs = pretrained.steps as f64 / pretrained.plan.steps_per_epoch as f64;
        flags.extend(shorter("pre-trained for", epochs, row.row.own_epochs().unwrap_or(0.0)));
        if let Some(tuning) = &self.tuning {
            flags.push(format!("{} of 36 configurations tuned", tuning.points.len()));
        }
        let head = self.settings.method.size.width() + 1;
        let parameters = if self.tuning.is_some() { self.encoder_parameters + head } else { head };
        let flops = per_scan * epochs * pretrained.train_scans as f64;
        Ok(Found { outcome: found.outcome, people: found.people, flags, parameters, flops })
    }
}

/// What a training of equal compute came to.
fn spent(flops: f64) -> String {
    format!("{:.2} billion operations of training", flops / 1e9)
}

/// What a reader must know about a training that was cut short.
fn shorter(what: &str, epochs: f64, own: f64) -> Option<String> {
    (epochs < own - 0.5).then(|| format!("{what} {epochs:.0} epochs, the public code {own:.0}"))
}

impl BaselineRow {
    pub(super) fn frozen_parameters(&self) -> usize {
        match &self.kind {
            Kind::Tokens(tokens) if tokens.tuning.is_none() => tokens.encoder_parameters,
            _ => 0,
        }
    }
}

impl Method for BaselineRow {
    fn name(&self) -> &str {
        self.row.typed()
    }

    fn fingerprint(&self) -> String {
        let settings = match &self.kind {
            Kind::Connectivity(_, recipe, ..) => format!("{recipe:?}"),
            Kind::Tokens(tokens) => format!("{} {:?}", tokens.settings.blake3(), tokens.tuning),
        };
        let compute = self.gflops.map_or_else(String::new, |gflops| format!(" {gflops} GFLOP"));
        format!("baseline/2 {} {settings}{compute}", self.name())
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        let scale = task.target.scale(&task.split.train);
        let label = |subject: &str| task.target.value(subject).map(|y| scale.to_loss(y) as f32);
        let seed = stream("baseline run", &[0, task.seed]).next_u64();
        let loss = loss_of(&task.target.kind);
        let found = match &self.kind {
            Kind::Connectivity(method, recipe, set, device) => {
                let keys = NetworkKeys::new();
                let parts = set.parts(task.split, label);
                let per_scan = method.train_flops(set.regions, loss.outputs(), &keys)?;
                let scans = parts.train.len() as f64;
                let paid = |gflops: f64| (epochs_for(gflops, per_scan, scans) as usize).max(1);
                let recipe = &Recipe { epochs: self.gflops.map_or(recipe.epochs, paid), ..recipe.clone() };
                let run = Run { loss, seed, device, states: None, ranks: &Alone };
                let outcome = method.run(set.regions, (&keys, recipe), &parts, &run, &Unobserved)?;
                let own = method.recipe().epochs as f64;
                let flags = shorter("trained for", outcome.epochs as f64, own).into_iter().collect();
                let parameters = method.parameter_count(set.regions, loss.outputs(), &keys)?;
                let flops = per_scan * scans * outcome.epochs as f64;
                Found { outcome, people: set.people.clone(), flags, parameters, flops }
            }
            Kind::Tokens(tokens) => tokens.run(self, task, loss, seed, &label)?,
        };
        let fitted_on = format!("{} {}", self.fingerprint(), task.split.blake3);
        Ok(Outcome {
            predictions: predictions(&found.outcome, &found.people, task.target, scale),
            parameters: found.parameters,
            fitted_on_blake3: blake3::hash(fitted_on.as_bytes()).to_hex().to_string(),
            chosen: BTreeMap::from([
                ("epoch".to_owned(), found.outcome.epoch as f64),
                ("train_gflops".to_owned(), found.flops / 1e9),
            ]),
            flags: found.flags.into_iter().chain(self.gflops.map(|_| spent(found.flops))).collect(),
        })
    }
}
