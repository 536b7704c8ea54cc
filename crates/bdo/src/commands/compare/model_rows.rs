//! The rows of a comparison that need a pre-trained model: the one that is given, or one for every split that has never
//! seen its test people.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
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

use super::row::{BdoRow, Row};
use super::{CompareArgs, pretraining};
use crate::args::Choice;
use crate::cli::Common;
use crate::progress::Progress;

/// One model for each split, by the hash of the split.
pub(crate) struct Models {
    by_split: BTreeMap<String, PathBuf>,
}

impl Models {
    /// The given model for all splits, or one trained on the training people of each.
    pub(crate) fn ready(args: &CompareArgs, splits: &[Split], common: &Common) -> anyhow::Result<Self> {
        let mut by_split = BTreeMap::new();
        for split in splits {
            let model = if let Some(model) = &args.model { model.clone() } else { train(args, split, common)? };
            by_split.insert(split.blake3.clone(), model);
        }
        Ok(Self { by_split })
    }

    /// Features for all the rows, each scan encoded once for each model; the rows then find them.
    pub(crate) fn embed(
        &self,
        rows: &[(Row, BdoRow)],
        args: &CompareArgs,
        cohort: &Cohort,
        common: &Common,
    ) -> anyhow::Result<()> {
        let mut poolings: Vec<Pooling> = Vec::new();
        for pooling in rows.iter().filter_map(|(_, of)| of.pooling()) {
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

    /// A row, with the model of each split.
    pub(crate) fn row(
        &self,
        row: Row,
        of: BdoRow,
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
                None => Ingredients::of(of, model, args, cohort, common)?,
            };
            made.insert(model, from.clone());
            rows.insert(split.clone(), from.row(row.typed(), of, args, nuisance)?);
        }
        Ok(Box::new(OfSplits { row, rows }))
    }

    /// Features for the confound audit: those of the first split's model.
    pub(crate) fn audited(
        &self,
        pooling: Pooling,
        args: &CompareArgs,
        cohort: &Cohort,
        common: &Common,
    ) -> anyhow::Result<FeatureTable> {
        let model = self.by_split.values().next().context("a comparison has at least one split")?;
        features(model, pooling, args, cohort, common)
    }
}

fn train(args: &CompareArgs, split: &Split, common: &Common) -> anyhow::Result<PathBuf> {
    let out = pretraining::folder(&args.out, split);
    let minutes = format!("train.max_minutes={:?}", args.training.pretrain_minutes);
    let settings = args.training.configuration.resolve_bdo(&[minutes])?;
    // A finished pre-training has a readout. One that the clock ended has steps left, which a second look at the
    // comparison must not take: other weights would be other results.
    let model = out.join("model");
    let same = || RunRecord::read(&out).and_then(|record| settings_of(&record)).is_ok_and(|found| found == settings);
    if FrozenModel::read(&model).is_ok_and(|model| model.readout.is_some()) && same() {
        return Ok(model);
    }
    let request = Request {
        data: args.cohort.data.clone(),
        resume: out.exists(),
        out,
        settings: Some(settings),
        seed: split.seed(),
        people: Some(split.clone()),
    };
    bdo_kernels::allocator::tune_allocator();
    let progress = Progress::start("pretrain", 0, common.quiet)?;
    let summary = pretrain(&request, &progress);
    progress.finish();
    Ok(summary?.model)
}

fn features(
    model: &Path,
    pooling: Pooling,
    args: &CompareArgs,
    cohort: &Cohort,
    common: &Common,
) -> anyhow::Result<FeatureTable> {
    let frozen = FrozenModel::read(model)?;
    let progress = Progress::start("embed", cohort.len(), common.quiet)?;
    let table = cached_features(&args.out.join("features"), &frozen, cohort, pooling, &progress);
    progress.finish();
    Ok(table?)
}

/// What a row is made of, for one model.
#[derive(Clone)]
struct Ingredients {
    model: PathBuf,
    source: String,
    table: Option<Arc<FeatureTable>>,
}

impl Ingredients {
    fn of(row: BdoRow, model: &Path, args: &CompareArgs, cohort: &Cohort, common: &Common) -> anyhow::Result<Self> {
        let table = row.pooling().map(|p| features(model, p, args, cohort, common)).transpose()?.map(Arc::new);
        let source = table.as_ref().map_or_else(String::new, |t| t.origin_blake3());
        Ok(Self { model: model.to_path_buf(), source, table })
    }

    fn row(
        &self,
        name: &str,
        row: BdoRow,
        args: &CompareArgs,
        nuisance: &Arc<Nuisance>,
    ) -> anyhow::Result<Box<dyn Method>> {
        if let Some(table) = &self.table {
            if row == BdoRow::Probe {
                return Ok(Box::new(GridProbe::new(name, table.clone(), ProbeSettings::protocol(""))));
            }
            let plain = ClosedForm::new(name, table.clone(), &self.source);
            let combat = matches!(row, BdoRow::ClosedForm { combat: true, .. });
            return Ok(Box::new(if combat { plain.harmonised(nuisance.clone(), UnseenSite::Pooled) } else { plain }));
        }
        let settings = TuneSettings {
            target: String::new(),
            head: HeadKind::Linear,
            seeds: vec![0],
            epochs: args.training.finetune_epochs,
            frames: args.training.finetune_frames,
            points: TunePoint::subset(args.training.finetune_budget),
        };
        Ok(Box::new(FineTuning::new(name, &self.model, &args.out.join("finetuning"), settings)?))
    }
}

/// A row whose model depends on the split.
struct OfSplits {
    row: Row,
    rows: BTreeMap<String, Box<dyn Method>>,
}

impl Method for OfSplits {
    fn name(&self) -> &str {
        self.row.typed()
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
        self.row == Row::Bdo(BdoRow::Finetune)
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, MethodError> {
        let Some(row) = self.rows.get(&task.split.blake3) else {
            let known = format!("a model for each of {} splits, found none for {}", self.rows.len(), task.split.blake3);
            return Err(MethodError::Other(format!("{}: expected {known}", self.name()).into()));
        };
        row.run(task)
    }
}
