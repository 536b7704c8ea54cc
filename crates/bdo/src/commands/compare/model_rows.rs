//! The models behind rows of BDO: the one that is given, or one for every split that has never seen its test people; and
//! the same before their first step.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_eval::cache::{cached_features, cached_features_each};
use bdo_eval::features::FeatureTable;
use bdo_eval::untrained::untrained_twin;
use bdo_model::frozen::{FrozenModel, model_blake3};
use bdo_model::pooling::Pooling;
use bdo_model::readout::ensure_readout;

use super::compute::bdo_epochs;
use super::row::BdoRow;
use super::{CompareArgs, pretraining};
use crate::cli::Common;
use crate::commands::pretrain::trained_model;
use crate::progress::Progress;

/// One model for each split, by the hash of the split.
pub(crate) struct Models {
    trained: BTreeMap<String, PathBuf>,
    /// Empty where no row asks for them.
    untrained: BTreeMap<String, PathBuf>,
}

impl Models {
    /// The given model for all splits, or one trained on the training people of each; their untrained twins where some of
    /// the rows look at them.
    pub(crate) fn ready(
        rows: &[BdoRow],
        args: &CompareArgs,
        splits: &[Split],
        cohort: &Cohort,
        common: &Common,
    ) -> anyhow::Result<Self> {
        let mut models = Self { trained: BTreeMap::new(), untrained: BTreeMap::new() };
        let untrained: Vec<Pooling> =
            rows.iter().filter(|row| row.is_untrained()).filter_map(|r| r.pooling()).collect();
        for split in splits {
            let model = if let Some(model) = &args.model { model.clone() } else { train(args, split, cohort, common)? };
            if !untrained.is_empty() {
                let twin = args.out.join("untrained").join(&model_blake3(&model)?[..16]);
                if !untrained_twin(&model, &twin)? {
                    bail!("{}: expected the seed of its training in training.json, found none", model.display());
                }
                if untrained.iter().any(|pooling| pooling.needs_readout()) {
                    let device = common.place()?;
                    Progress::during("readout of the untrained model", 0, common, |progress| {
                        ensure_readout(&twin, &device, cohort, progress)
                    })?;
                }
                models.untrained.insert(split.blake3.clone(), twin);
            }
            models.trained.insert(split.blake3.clone(), model);
        }
        Ok(models)
    }

    /// Features for all the rows, each scan encoded once for each model; the rows then find them.
    pub(crate) fn embed(
        &self,
        rows: &[BdoRow],
        args: &CompareArgs,
        cohort: &Cohort,
        common: &Common,
    ) -> anyhow::Result<()> {
        for (folders, untrained) in [(&self.trained, false), (&self.untrained, true)] {
            let mut poolings: Vec<Pooling> = Vec::new();
            for pooling in rows.iter().filter(|row| row.is_untrained() == untrained).filter_map(|row| row.pooling()) {
                if !poolings.contains(&pooling) {
                    poolings.push(pooling);
                }
            }
            let folders: BTreeSet<&PathBuf> = folders.values().filter(|_| !poolings.is_empty()).collect();
            for folder in folders {
                let frozen = FrozenModel::read_on(folder, &common.place()?)?;
                Progress::during("embed", cohort.len(), common, |progress| {
                    cached_features_each(&args.out.join("features"), &frozen, cohort, &poolings, progress)
                })?;
            }
        }
        Ok(())
    }

    /// The model directory of a split.
    pub(crate) fn folder(&self, split: &str, untrained: bool) -> anyhow::Result<&Path> {
        let models = if untrained { &self.untrained } else { &self.trained };
        Ok(models.get(split).with_context(|| format!("expected a model for split {split}, found none"))?)
    }

    /// Features for the confound audit: those of the first split's model.
    pub(crate) fn audited(
        &self,
        pooling: Pooling,
        args: &CompareArgs,
        cohort: &Cohort,
        common: &Common,
    ) -> anyhow::Result<FeatureTable> {
        let model = self.trained.values().next().context("a comparison has at least one split")?;
        features(model, pooling, args, cohort, common)
    }
}

fn train(args: &CompareArgs, split: &Split, cohort: &Cohort, common: &Common) -> anyhow::Result<PathBuf> {
    let out = pretraining::folder(&args.out, split);
    let minutes = if args.training.train_gflops.is_some() { 0.0 } else { args.training.pretrain_minutes };
    let mut settings = args.training.configuration.resolve_bdo(&[format!("train.max_minutes={minutes:?}")])?;
    if let Some(gflops) = args.training.train_gflops {
        settings.train.epochs = bdo_epochs(gflops, &settings, cohort, &split.train);
    }
    trained_model(&args.cohort.data, &out, settings, split.seed(), Some(split.clone()), common)
}

pub(super) fn features(
    model: &Path,
    pooling: Pooling,
    args: &CompareArgs,
    cohort: &Cohort,
    common: &Common,
) -> anyhow::Result<FeatureTable> {
    let frozen = FrozenModel::read_on(model, &common.place()?)?;
    Progress::during("embed", cohort.len(), common, |progress| {
        cached_features(&args.out.join("features"), &frozen, cohort, pooling, progress)
    })
}
