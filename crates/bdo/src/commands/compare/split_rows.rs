//! Rows whose features depend on the split: those of models, of what is fitted on training people, and stacks of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bdo_data::division::Split;
use bdo_eval::confound::Nuisance;
use bdo_eval::error::EvalError;
use bdo_eval::features::FeatureTable;
use bdo_eval::finetune::tuned::{count, tuned_table, used_table};
use bdo_eval::finetune::{HeadStart, TunePoint, TuneSettings};
use bdo_eval::fitted::HeadKind;
use bdo_eval::method::{Method, Outcome, Task};
use bdo_eval::model_method::{FineTuning, GridProbe};
use bdo_eval::probe::ProbeSettings;
use bdo_eval::reference::ClosedForm;
use bdo_eval::stack::{Member, Stack};
use bdo_model::pooling::Pooling;
use bdo_model::weights::ModelDirectory;
use burn::tensor::Device;

use super::CompareArgs;
use super::asked::Asked;
use super::feature_tables::FeatureTables;
use super::model_rows::Models;
use super::row::{self, BdoRow, Row};

/// A row with what it is under each split.
pub(crate) struct OfSplits {
    name: String,
    needs_model: bool,
    trains_for_long: bool,
    frozen_parameters: usize,
    rows: BTreeMap<String, Box<dyn Method>>,
}

/// What rows are made of.
pub(crate) struct Workshop<'a> {
    pub(crate) args: &'a CompareArgs,
    pub(crate) tables: &'a FeatureTables<'a>,
    pub(crate) models: Option<&'a Models>,
    pub(crate) nuisance: &'a Arc<Nuisance>,
}

impl Workshop<'_> {
    /// A row under some splits.
    pub(crate) fn row(&self, asked: &Asked, splits: &[Split]) -> anyhow::Result<Box<dyn Method>> {
        let mut rows: BTreeMap<String, Box<dyn Method>> = BTreeMap::new();
        let of_model = |row: &Row| if let Row::Bdo(of) = row { Some(*of) } else { None };
        let mut frozen_parameters = 0;
        for split in splits {
            for of in asked.members().iter().filter_map(of_model) {
                let folder = self.models.map(|models| models.folder(&split.blake3, of.is_untrained())).transpose()?;
                frozen_parameters = folder.map_or(Ok(0), |folder| frozen_count(folder, of))?;
            }
            rows.insert(split.blake3.clone(), self.under(asked, split)?);
        }
        Ok(Box::new(OfSplits {
            name: asked.name(),
            needs_model: asked.members().iter().any(|row| row.needs_model()),
            trains_for_long: asked.single() == Some(Row::Bdo(BdoRow::Finetune)),
            frozen_parameters,
            rows,
        }))
    }

    fn under(&self, asked: &Asked, split: &Split) -> anyhow::Result<Box<dyn Method>> {
        let (name, members) = (asked.name(), asked.members());
        if let (Some(Row::Bdo(BdoRow::Finetune)), Some(models)) = (asked.single(), self.models) {
            let mean = self.tables.under(row::pooled(Pooling::Mean), split, self.models)?;
            let (model, device) = (models.folder(&split.blake3, false)?, self.tables.common.place()?);
            return fine_tuning(&name, model, mean.table.clone(), self.args, &device);
        }
        let member = |row: &Row| self.tables.under(*row, split, self.models);
        let members = members.iter().map(member).collect::<anyhow::Result<Vec<Arc<Member>>>>()?;
        let Some(row) = asked.single() else { return Ok(Box::new(Stack::new(&name, members))) };
        let table = members[0].table.clone();
        if matches!(row, Row::Bdo(BdoRow::Probe { .. })) {
            return Ok(Box::new(GridProbe::new(&name, table, ProbeSettings::protocol(""))));
        }
        let plain = ClosedForm::new(&name, table, &members[0].source);
        let plain = if matches!(row, Row::Bdo(_)) { plain.of_pretrained() } else { plain };
        let combat =
            matches!(row, Row::Bdo(BdoRow::ClosedForm { combat: true, .. }) | Row::Connectivity { combat: true, .. });
        Ok(Box::new(if combat { plain.harmonised(self.nuisance.clone()) } else { plain }))
    }
}

/// Numbers of a model that a row uses without training them.
fn frozen_count(model: &Path, of: BdoRow) -> anyhow::Result<usize> {
    let config = ModelDirectory::read(model)?.config;
    let tuned = if of == BdoRow::Finetune { count(&tuned_table(&config)) } else { 0 };
    Ok(count(&used_table(&config)) - tuned)
}

fn fine_tuning(
    name: &str,
    model: &Path,
    mean_control: Arc<FeatureTable>,
    args: &CompareArgs,
    device: &Device,
) -> anyhow::Result<Box<dyn Method>> {
    let training = &args.training;
    let points = TunePoint::at_rates(&TunePoint::subset(training.finetune_budget), &training.finetune_rates);
    let settings = TuneSettings {
        target: String::new(),
        head: HeadKind::Linear,
        seeds: vec![0],
        epochs: training.finetune_epochs,
        // The time is that of the whole row, whatever the number of configurations.
        max_minutes: training.finetune_minutes / points.len().max(1) as f64,
        points,
        frames: 0,
        head_start: HeadStart::Probe,
    };
    Ok(Box::new(FineTuning::new(name, model, mean_control, (&args.out.join("finetuning"), device), settings)?))
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
        self.needs_model
    }

    fn trains_for_long(&self) -> bool {
        self.trains_for_long
    }

    fn frozen_parameters(&self) -> usize {
        self.frozen_parameters
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        let Some(row) = self.rows.get(&task.split.blake3) else {
            let expected = format!("a row for each of {} splits", self.rows.len());
            return Err(EvalError::named(self.name(), expected, format!("none for {}", task.split.blake3)));
        };
        row.run(task)
    }
}
