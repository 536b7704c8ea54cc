//! The rows of a comparison that need a pre-trained model: the one that is given, or one for every split that has never
//! seen its test people.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_data::record::RunRecord;
use bdo_eval::cache::{cached_features, cached_features_each};
use bdo_eval::combat::UnseenSite;
use bdo_eval::confound::Nuisance;
use bdo_eval::features::FeatureTable;
use bdo_eval::finetune::{TunePoint, TuneSettings};
use bdo_eval::fitted::HeadKind;
use bdo_eval::method::{Method, MethodError, Outcome, Task};
use bdo_eval::model_method::{FineTuning, GridProbe};
use bdo_eval::probe::ProbeSettings;
use bdo_eval::reference::ClosedForm;
use bdo_model::frozen::FrozenModel;
use bdo_model::pooling::Pooling;
use bdo_train::folder::settings_of;
use bdo_train::run::{Request, pretrain};
use bdo_train::settings::Settings;

use super::pretrain::{Watcher, add_readout, preset};
use crate::cli::Common;
use crate::comparison_args::CompareArgs;
use crate::progress::Progress;

/// Names of the rows.
pub(crate) const NAMES: [&str; 11] = [
    "bdo-probe",
    "bdo-mean",
    "bdo-mean-std",
    "bdo-covariance",
    "bdo-correlation",
    "bdo-log-covariance",
    "bdo-regions",
    "bdo-coupling",
    "bdo-correlation-combat",
    "bdo-coupling-combat",
    "bdo-finetune",
];

/// One model for each split, by the hash of the split.
pub(crate) struct Models {
    by_split: BTreeMap<String, PathBuf>,
}

impl Models {
    /// The given model for all splits, or one trained on the training people of each.
    pub(crate) fn ready(
        args: &CompareArgs,
        cohort: &Cohort,
        splits: &[Split],
        common: &Common,
    ) -> anyhow::Result<Self> {
        let mut by_split = BTreeMap::new();
        for split in splits {
            let model = if let Some(model) = &args.model { model.clone() } else { train(args, cohort, split, common)? };
            by_split.insert(split.blake3.clone(), model);
        }
        Ok(Self { by_split })
    }

    /// Features for all the rows, each scan encoded once for each model; the rows then find them.
    pub(crate) fn embed(
        &self,
        names: &[&str],
        args: &CompareArgs,
        cohort: &Cohort,
        common: &Common,
    ) -> anyhow::Result<()> {
        let mut poolings: Vec<Pooling> = Vec::new();
        for pooling in names.iter().filter(|name| NAMES.contains(name)).filter_map(|name| pooling(name)) {
            if !poolings.contains(&pooling) {
                poolings.push(pooling);
            }
        }
        let models: BTreeSet<&PathBuf> = self.by_split.values().collect();
        for model in models {
            let frozen = FrozenModel::read(model)?;
            let progress = Progress::start("embed", cohort.len(), common.quiet)?;
            let tables = cached_features_each(&args.out.join("features"), &frozen, cohort, &poolings, &progress);
            progress.finish();
            tables?;
        }
        Ok(())
    }

    /// The row of this name.
    pub(crate) fn row(
        &self,
        name: &str,
        args: &CompareArgs,
        cohort: &Cohort,
        nuisance: &Arc<Nuisance>,
        common: &Common,
    ) -> anyhow::Result<Box<dyn Method>> {
        let mut rows: BTreeMap<String, Box<dyn Method>> = BTreeMap::new();
        let mut made: BTreeMap<&Path, Ingredients> = BTreeMap::new();
        for (split, model) in &self.by_split {
            let from = match made.get(model.as_path()) {
                Some(from) => from.clone(),
                None => Ingredients::of(name, model, args, cohort, common)?,
            };
            made.insert(model, from.clone());
            rows.insert(split.clone(), from.row(name, args, nuisance)?);
        }
        Ok(Box::new(OfSplits { name: name.to_owned(), rows }))
    }

    /// Features of a row for the confound audit: those of the first split's model.
    pub(crate) fn audited(
        &self,
        name: &str,
        args: &CompareArgs,
        cohort: &Cohort,
        common: &Common,
    ) -> anyhow::Result<FeatureTable> {
        let model = self.by_split.values().next().context("a comparison has at least one split")?;
        let pooling = pooling(name).with_context(|| format!("{name} has no features"))?;
        Ok(features(model, pooling, args, cohort, common)?.shared()?)
    }
}

fn train(args: &CompareArgs, cohort: &Cohort, split: &Split, common: &Common) -> anyhow::Result<PathBuf> {
    let out = args.out.join("pretraining").join(&split.blake3[..16]);
    let mut sets = args.set.clone();
    sets.push(format!("train.max_minutes={:?}", args.pretrain_minutes));
    let settings = Settings::resolve(&preset(args.config.as_deref())?, &sets)?;
    // The readout is what a pre-training leaves last. One that the clock ended has steps left, which a second look at the
    // comparison must not take: other weights would be other results.
    let model = out.join("model");
    let same = || RunRecord::read(&out).and_then(|record| settings_of(&record)).is_ok_and(|found| found == settings);
    if FrozenModel::read(&model).is_ok_and(|model| model.readout.is_some()) && same() {
        return Ok(model);
    }
    let request = Request {
        data: args.data.clone(),
        resume: out.exists(),
        out,
        settings: Some(settings),
        seed: split.seed(),
        people: Some(split.clone()),
    };
    bdo_kernels::allocator::tune_allocator();
    let watcher = Watcher::start(common.quiet)?;
    let summary = pretrain(&request, &watcher);
    watcher.finish();
    let model = summary?.model;
    add_readout(&model, cohort, common)?;
    Ok(model)
}

fn features(
    model: &Path,
    pooling: Pooling,
    args: &CompareArgs,
    cohort: &Cohort,
    common: &Common,
) -> anyhow::Result<bdo_eval::table::FeatureTable> {
    let frozen = FrozenModel::read(model)?;
    let progress = Progress::start("embed", cohort.len(), common.quiet)?;
    let table = cached_features(&args.out.join("features"), &frozen, cohort, pooling, &progress);
    progress.finish();
    Ok(table?)
}

/// How a row pools the control; fine-tuning does it inside.
fn pooling(name: &str) -> Option<Pooling> {
    match name {
        "bdo-finetune" => None,
        "bdo-mean-std" => Some(Pooling::MeanStd),
        "bdo-covariance" => Some(Pooling::Covariance),
        "bdo-correlation" | "bdo-correlation-combat" => Some(Pooling::Correlation),
        "bdo-regions" => Some(Pooling::Regions),
        "bdo-coupling" | "bdo-coupling-combat" => Some(Pooling::Coupling),
        "bdo-log-covariance" => Some(Pooling::LogCovariance),
        _ => Some(Pooling::Mean),
    }
}

/// What a row is made of, for one model.
#[derive(Clone)]
struct Ingredients {
    model: PathBuf,
    source: String,
    table: Option<Arc<bdo_eval::table::FeatureTable>>,
    shared: Option<Arc<FeatureTable>>,
}

impl Ingredients {
    fn of(name: &str, model: &Path, args: &CompareArgs, cohort: &Cohort, common: &Common) -> anyhow::Result<Self> {
        let table = pooling(name).map(|p| features(model, p, args, cohort, common)).transpose()?.map(Arc::new);
        let shared = match &table {
            Some(table) if name != "bdo-probe" => Some(Arc::new(table.shared()?)),
            _ => None,
        };
        let source = table.as_ref().map_or_else(String::new, |t| t.origin.blake3());
        Ok(Self { model: model.to_path_buf(), source, table, shared })
    }

    fn row(&self, name: &str, args: &CompareArgs, nuisance: &Arc<Nuisance>) -> anyhow::Result<Box<dyn Method>> {
        if let Some(shared) = &self.shared {
            let row = ClosedForm::new(name, shared.clone(), &self.source);
            let combat = name.ends_with("-combat");
            return Ok(Box::new(if combat { row.harmonised(nuisance.clone(), UnseenSite::Pooled) } else { row }));
        }
        if let Some(table) = &self.table {
            return Ok(Box::new(GridProbe::new(name, table.clone(), ProbeSettings::protocol(""))));
        }
        let settings = TuneSettings {
            target: String::new(),
            head: HeadKind::Linear,
            seeds: vec![0],
            epochs: args.finetune_epochs,
            frames: args.finetune_frames,
            points: TunePoint::subset(args.finetune_budget),
        };
        Ok(Box::new(FineTuning::new(name, &self.model, &args.out.join("finetuning"), settings)?))
    }
}

/// A row whose model depends on the split.
struct OfSplits {
    name: String,
    rows: BTreeMap<String, Box<dyn Method>>,
}

impl Method for OfSplits {
    fn name(&self) -> &str {
        &self.name
    }

    fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (split, row) in &self.rows {
            hasher.update(split.as_bytes()).update(row.fingerprint().as_bytes()).update(b"\0");
        }
        hasher.finalize().to_hex().to_string()
    }

    fn fingerprint_for(&self, split_blake3: &str) -> String {
        self.rows.get(split_blake3).map_or_else(|| self.fingerprint(), |row| row.fingerprint())
    }

    fn uses_pretraining(&self) -> bool {
        true
    }

    fn runs_alone(&self) -> bool {
        self.name == "bdo-finetune"
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, MethodError> {
        let Some(row) = self.rows.get(&task.split.blake3) else {
            let known = format!("a model for each of {} splits, found none for {}", self.rows.len(), task.split.blake3);
            return Err(MethodError::Other(format!("{}: expected {known}", self.name).into()));
        };
        row.run(task)
    }
}

/// Whether any of the rows needs a model; a model that none needs is a mistake worth saying.
pub(crate) fn needed(names: &[&str]) -> bool {
    names.iter().any(|name| NAMES.contains(name))
}

/// Refuses what cannot be meant.
pub(crate) fn check(args: &CompareArgs, names: &[&str]) -> anyhow::Result<()> {
    if args.model.is_none() && needed(names) && args.pretrain_minutes < 0.0 {
        bail!("--pretrain-minutes: expected at least 0 where no --model is given, found {}", args.pretrain_minutes);
    }
    Ok(())
}
