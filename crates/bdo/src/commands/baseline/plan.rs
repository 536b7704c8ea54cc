//! What `bdo baseline` trains: a method with all that decides its training, resolved from the arguments.

use std::path::PathBuf;

use anyhow::{Context, bail};
use bdo_baselines::foundation::{FoundationMethod, Tuning};
use bdo_baselines::method::{ConnectivityMethod, NetworkKeys};
use bdo_baselines::pretrain::directory::TokenDirectory;
use bdo_eval::finetune::TunePoint;
use bdo_eval::supervised::recipe::Recipe;
use bdo_model::frozen::model_blake3;
use bdo_model::weights::TrainingPeople;
use bdo_train::settings::Settings;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Baseline, BaselineArgs};

/// A method with all that decides its training.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Plan {
    Connectivity { method: ConnectivityMethod, model: NetworkKeys, train: Recipe },
    Foundation { method: FoundationMethod, pretraining: Pretraining, tuning: Option<Tuning> },
}

/// Where a token model comes from.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pretraining {
    /// Trained for each split.
    Own(Box<Settings>),
    /// One that is given.
    Given {
        folder: PathBuf,
        blake3: String,
        #[serde(skip)]
        people: TrainingPeople,
    },
}

impl Plan {
    /// The method's own training, then `--epochs`, then `--set`.
    pub(super) fn of(BaselineArgs { name, training: args, .. }: &BaselineArgs) -> anyhow::Result<Self> {
        let mut sets: Vec<String> = args.epochs.iter().map(|epochs| format!("train.epochs={epochs}")).collect();
        sets.extend(args.set.iter().cloned());
        match *name {
            Baseline::Network(method) => {
                if args.model.is_some() || args.finetune {
                    bail!("--model and --finetune: expected brainlm or brainjepa, found {}", method.name());
                }
                let (model, train): (Vec<_>, Vec<_>) =
                    assigned(&sets)?.into_iter().partition(|(key, _)| key.starts_with("model."));
                let model = model.into_iter().map(|(key, value)| (key["model.".len()..].to_owned(), value)).collect();
                method.check(&model).context("--set")?;
                Ok(Self::Connectivity { method, model, train: changed(&method.recipe(), train)? })
            }
            Baseline::Tokens(method) => {
                let pretraining = match &args.model {
                    Some(_) if !sets.is_empty() => {
                        bail!("--set and --epochs are about pre-training: expected none of them with --model")
                    }
                    Some(folder) => {
                        let TokenDirectory { config, mut people, mut preprocessor, .. } = TokenDirectory::read(folder)?;
                        args.same.trusting().apply(&mut people, &mut preprocessor);
                        if config.kind() != method.kind() {
                            let (expected, found) = (method.name(), config.kind().name());
                            bail!("--model: expected a model of {expected}, found one of {found}");
                        }
                        Pretraining::Given { folder: folder.clone(), blake3: model_blake3(folder)?, people }
                    }
                    None => {
                        sets.push(format!("model.kind={}", method.name()));
                        let resolved = Settings::resolve(None, "", &sets)?;
                        if let Some(key) = resolved.unused.first() {
                            bail!("--set {key}: expected a key that {} has", method.name());
                        }
                        Pretraining::Own(Box::new(resolved.settings))
                    }
                };
                let points = TunePoint::subset(args.finetune_budget);
                let tuning = Tuning { epochs: args.finetune_epochs, points, max_minutes: 0.0 };
                Ok(Self::Foundation { method, pretraining, tuning: args.finetune.then_some(tuning) })
            }
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Connectivity { method, .. } => method.name(),
            Self::Foundation { method, .. } => method.name(),
        }
    }

    /// Epochs of the supervised loop, for the progress bar; pre-training has its own.
    pub(super) fn epochs(&self) -> usize {
        match self {
            Self::Connectivity { train, .. } => train.epochs,
            Self::Foundation { tuning, .. } => tuning.as_ref().map_or(0, |t| t.epochs * t.points.len()),
        }
    }

    pub(super) fn parameter_count(&self, regions: usize, outputs: usize) -> anyhow::Result<usize> {
        Ok(match self {
            Self::Connectivity { method, model, .. } => method.parameter_count(regions, outputs, model)?,
            Self::Foundation { method, pretraining: Pretraining::Own(settings), .. } => {
                method.parameter_count(regions, settings)
            }
            Self::Foundation { pretraining: Pretraining::Given { folder, .. }, .. } => {
                TokenDirectory::read(folder)?.config.trained("")
            }
        })
    }
}

/// Keys and their values; what is no JSON is text.
fn assigned(sets: &[String]) -> anyhow::Result<Vec<(&str, Value)>> {
    sets.iter()
        .map(|set| {
            let (key, value) = set.split_once('=').with_context(|| format!("--set {set}: expected KEY=VALUE"))?;
            let value = value.trim();
            Ok((key.trim(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))))
        })
        .collect()
}

/// A recipe with some of its keys, named `train.NAME`, changed.
fn changed(recipe: &Recipe, values: Vec<(&str, Value)>) -> anyhow::Result<Recipe> {
    let mut table = serde_json::to_value(recipe)?;
    let keys = table.as_object().into_iter().flat_map(|table| table.keys());
    let known = keys.map(|key| format!("train.{key}")).collect::<Vec<_>>().join(", ");
    for (key, value) in values {
        let name = key.strip_prefix("train.").filter(|name| table.get(*name).is_some());
        table[name.with_context(|| format!("--set {key}: expected one of {known}"))?] = value;
    }
    for key in ["epochs", "batch_size"] {
        if table[key].as_u64() == Some(0) {
            bail!("train.{key}: expected at least 1, found 0");
        }
    }
    serde_json::from_value(table).context("--set: a value does not fit its key")
}
