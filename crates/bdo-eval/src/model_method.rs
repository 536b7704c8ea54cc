//! Probes and fine-tuning as rows of a comparison: the shared signature of everything that predicts.

use crate::error::EvalError;
use crate::features::FeatureTable;
use crate::finetune::tuned::{count, tuned_table};
use crate::finetune::{TuneSettings, TuneWork, Unwatched, asked};
use crate::fit::loss_of;
use crate::fitted::HeadKind;
use crate::folder::WorkFolder;
use crate::head::{Head, LinearHead};
use crate::method::{Method, Outcome, Task};
use crate::outcome::SeedOutcome;
use crate::probe::{ProbeSettings, probe_features};
use bdo_model::frozen::{FrozenModel, model_blake3};
use bdo_train::ranks::Alone;
use burn::tensor::Device;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The protocol's probe on features of a frozen model.
#[derive(Clone, Debug)]
pub struct GridProbe {
    name: String,
    table: Arc<FeatureTable>,
    settings: ProbeSettings,
}

impl GridProbe {
    /// A row of this name; the target and the seeds of the settings are those of each task instead.
    pub fn new(name: &str, table: Arc<FeatureTable>, settings: ProbeSettings) -> Self {
        Self { name: name.to_owned(), table, settings }
    }
}

impl Method for GridProbe {
    fn name(&self) -> &str {
        &self.name
    }

    fn fingerprint(&self) -> String {
        let settings = serde_json::to_string(&self.settings).expect("settings hold only words and numbers");
        format!("probe/1 {} {settings}", self.table.origin_blake3())
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        let (found, member) = probe_features(&self.table, task.target, task.split, &self.settings)?;
        let fitted_on = format!("{} {}", self.table.origin_blake3(), task.split.blake3);
        let fitted_on_blake3 = blake3::hash(fitted_on.as_bytes()).to_hex().to_string();
        Ok(shared_outcome(found, member.parameters.len(), fitted_on_blake3))
    }
}

/// Fine-tuning of a pre-trained model, with its checkpoints and models in a folder of its own for each task.
#[derive(Clone, Debug)]
pub struct FineTuning {
    name: String,
    model: PathBuf,
    model_blake3: String,
    /// The pooled control of the frozen model, as [`TuneSettings::pooling`] says.
    table: Arc<FeatureTable>,
    folder: PathBuf,
    settings: TuneSettings,
    device: Device,
}

impl FineTuning {
    /// A row of this name, trained in a folder and on a device; the target and the seeds of the settings are those of each task
    /// instead.
    pub fn new(
        name: &str,
        model: &Path,
        table: Arc<FeatureTable>,
        (folder, device): (&Path, &Device),
        settings: TuneSettings,
    ) -> Result<Self, EvalError> {
        Ok(Self {
            name: name.to_owned(),
            model: model.to_path_buf(),
            model_blake3: model_blake3(model)?,
            table,
            folder: folder.to_path_buf(),
            settings,
            device: device.clone(),
        })
    }
}

impl Method for FineTuning {
    fn name(&self) -> &str {
        &self.name
    }

    fn fingerprint(&self) -> String {
        let settings = serde_json::to_string(&self.settings).expect("settings hold only words and numbers");
        format!("finetune/3 {} {settings}", self.model_blake3)
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        let frozen = FrozenModel::read_on(&self.model, &self.device)?;
        let work = TuneWork::new(&frozen, task.cohort, task.target, &self.settings, &self.table)?;
        // Several labels may share a division of the people.
        let label = blake3::hash(task.target.name.as_bytes()).to_hex();
        let place = self.folder.join(format!("{}-{}", &task.split.blake3[..16], &label[..8]));
        let folder = WorkFolder::open(&place, &asked(&frozen, task.cohort, task.target, &self.settings)?)?;
        // A comparison shows its own progress; a kill costs at most an epoch.
        let (found, _) = work.tune(&folder, task.split, &Alone, &Unwatched)?;
        let fitted_on = format!("{} {} {}", self.model_blake3, task.cohort.content_blake3()?, task.split.blake3);
        let config = frozen.model.config();
        // As it is written, the probe beside a head on movement among it.
        let width = self.settings.pooling(config).width(config.width, config.regions);
        let query = if self.settings.head == HeadKind::Attention { width } else { 0 };
        let head = LinearHead { width, outputs: loss_of(&task.target.kind).outputs() };
        let trained = count(&tuned_table(config)) + head.parameters() + query;
        let hash = blake3::hash(fitted_on.as_bytes()).to_hex().to_string();
        Ok(shared_outcome(found, trained, hash))
    }
}

/// What one seed found, in the words of a comparison.
pub fn shared_outcome(found: SeedOutcome, parameters: usize, fitted_on_blake3: String) -> Outcome {
    let point = found.chosen.get("point").and_then(|p| p.as_object()).into_iter().flatten();
    let mut chosen: BTreeMap<String, f64> =
        point.filter_map(|(key, value)| Some((key.clone(), value.as_f64()?))).collect();
    chosen.extend(found.chosen.get("epoch").and_then(serde_json::Value::as_f64).map(|e| ("epoch".to_owned(), e)));
    Outcome { predictions: found.predictions, parameters, fitted_on_blake3, chosen, flags: Vec::new() }
}
