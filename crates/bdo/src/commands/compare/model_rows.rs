//! The models behind rows of BDO: the one that is given, or one for every split that has never seen its test people; and
//! the same before their first step.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bdo_data::division::Split;
use bdo_eval::cache::{cached_features, cached_features_each};
use bdo_eval::features::FeatureTable;
use bdo_eval::untrained::untrained_twin;
use bdo_model::frozen::{FrozenModel, model_blake3};
use bdo_model::pooling::Pooling;
use bdo_model::readout::ensure_readout;

use super::row::BdoRow;
use super::{Field, pretraining};
use crate::commands::pretrain::{continued, trained_model};
use crate::progress::Progress;

/// The model that rows look at under some splits.
pub(super) struct Models {
    pub(super) trained: PathBuf,
    /// `None` where no row asks for it.
    untrained: Option<PathBuf>,
}

impl Models {
    /// The given model, or one trained on the training people of a split; its untrained twin where some of the rows look at it.
    /// Each scan is encoded once by either for all the rows, which then find their features.
    pub(super) fn ready(rows: &[BdoRow], split: &Split, field: &Field<'_>) -> anyhow::Result<Self> {
        let (args, cohort, common) = (field.args, field.cohort, field.common);
        let trained = if let Some(model) = &args.model { model.clone() } else { train(field, split)? };
        let poolings = |untrained: bool| {
            let mut found: Vec<Pooling> = vec![];
            for pooling in rows.iter().filter(|row| row.is_untrained() == untrained).filter_map(|row| row.pooling()) {
                if !found.contains(&pooling) {
                    found.push(pooling);
                }
            }
            found
        };
        let mut models = Self { trained, untrained: None };
        let of_twin = poolings(true);
        if !of_twin.is_empty() {
            let model = &models.trained;
            let twin = args.out.join("untrained").join(&model_blake3(model)?[..16]);
            if !untrained_twin(model, &twin)? {
                bail!("{}: expected the seed of its training in training.json, found none", model.display());
            }
            if of_twin.iter().any(|pooling| pooling.needs_readout()) {
                let progress = Progress::start("readout of the untrained model", 0, common)?;
                ensure_readout(&twin, &common.place()?, cohort, &progress)?;
            }
            models.untrained = Some(twin);
        }
        for (model, poolings) in [(Some(&models.trained), poolings(false)), (models.untrained.as_ref(), of_twin)] {
            if let Some(model) = model.filter(|_| !poolings.is_empty()) {
                let frozen = FrozenModel::read_on(model, &common.place()?)?;
                let progress = Progress::start("embed", cohort.len(), common)?;
                cached_features_each(&field.features(), &frozen, cohort, &poolings, &progress)?;
            }
        }
        Ok(models)
    }

    pub(super) fn folder(&self, of: BdoRow) -> anyhow::Result<&Path> {
        if of.is_untrained() {
            return self.untrained.as_deref().context("expected an untrained model, found none");
        }
        Ok(&self.trained)
    }
}

fn train(Field { args, cohort, common, .. }: &Field<'_>, split: &Split) -> anyhow::Result<PathBuf> {
    let out = pretraining::folder(&args.out, split);
    let minutes = if args.training.train_gflops.is_some() { 0.0 } else { args.training.pretrain_minutes };
    let mut settings = args.training.configuration.resolve_bdo(&[format!("train.max_minutes={minutes:?}")])?;
    if let Some(gflops) = args.training.train_gflops {
        settings.train.epochs = pretraining::bdo_epochs(gflops, &settings, cohort, &split.train);
    }
    let people = Some(split.clone());
    trained_model(&continued(&args.cohort.data, &out, settings, split.seed(), people, common)?, common)
}

impl Field<'_> {
    /// Where features are kept.
    fn features(&self) -> PathBuf {
        self.args.out.join("features")
    }

    pub(super) fn features_of(&self, model: &Path, pooling: Pooling) -> anyhow::Result<FeatureTable> {
        let frozen = FrozenModel::read_on(model, &self.common.place()?)?;
        let progress = Progress::start("embed", self.cohort.len(), self.common)?;
        Ok(cached_features(&self.features(), &frozen, self.cohort, pooling, &progress)?)
    }
}
