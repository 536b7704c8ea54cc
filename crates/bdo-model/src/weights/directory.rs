//! A model directory in the layout model hubs use.

use super::{
    CardFacts, PreprocessorConfig, Problem, TRAINING_FILE, TrainingNotes, TrainingPeople, WeightsError, model_card,
    read_parameters, write_parameters,
};
use crate::config::ModelConfig;
use crate::parameters::{Parameters, parameter_table};
use bdo_data::durable::{self, InFile};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Model configuration.
pub const CONFIG_FILE: &str = "config.json";
/// Weights.
pub const WEIGHTS_FILE: &str = "model.safetensors";
/// The moving average, where features are made with it: Brain-JEPA.
pub const AVERAGE_FILE: &str = "ema.safetensors";
/// Preprocessing contract.
pub const PREPROCESSOR_FILE: &str = "preprocessor_config.json";
/// Hashes of training people and scans.
pub const PEOPLE_FILE: &str = "training_people.json";
/// Model card.
pub const README_FILE: &str = "README.md";

/// A JSON file of ours larger than this is not one: 1.6 million hashes fit into it.
const JSON_LIMIT_BYTES: u64 = 128 << 20;

/// Everything a shareable model consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelDirectory {
    /// `config.json`.
    pub config: ModelConfig,
    /// `model.safetensors`.
    pub parameters: Parameters,
    /// `preprocessor_config.json`.
    pub preprocessor: PreprocessorConfig,
    /// `training_people.json`.
    pub people: TrainingPeople,
    /// `training.json`, where there is one.
    pub notes: Option<TrainingNotes>,
}

impl ModelDirectory {
    /// Reads and checks every file.
    pub fn read(folder: &Path) -> Result<Self, WeightsError> {
        let path = folder.join(CONFIG_FILE);
        let config: ModelConfig = read_json(&path).map_err(|error| of_another_kind(&path).unwrap_or(error))?;
        let mut preprocessor: PreprocessorConfig = read_json(&folder.join(PREPROCESSOR_FILE))?;
        let people: TrainingPeople = read_json(&folder.join(PEOPLE_FILE))?;
        check(folder, &config, &preprocessor, &people)?;
        preprocessor.trained_scans = Some(people.scans.clone());
        let parameters = read_parameters(&folder.join(WEIGHTS_FILE), &parameter_table(&config))?;
        let path = folder.join(TRAINING_FILE);
        let notes = if path.is_file() { Some(read_json(&path)?) } else { None };
        Ok(Self { config, parameters, preprocessor, people, notes })
    }

    /// Checks and writes every file and the model card; each file appears whole or not at all.
    pub fn write(&self, folder: &Path, facts: &CardFacts) -> Result<(), WeightsError> {
        check(folder, &self.config, &self.preprocessor, &self.people)?;
        durable::create_folder(folder)?;
        write_parameters(&folder.join(WEIGHTS_FILE), &parameter_table(&self.config), &self.parameters)?;
        durable::write_json(&folder.join(PREPROCESSOR_FILE), &self.preprocessor)?;
        durable::write_json(&folder.join(PEOPLE_FILE), &self.people)?;
        if let Some(notes) = &self.notes {
            durable::write_json(&folder.join(TRAINING_FILE), notes)?;
        }
        let card = model_card(&self.config, &self.preprocessor, &self.people, facts);
        durable::write(&folder.join(README_FILE), card.as_bytes())?;
        // Last, because a reader starts with it: a folder whose configuration is there is complete.
        Ok(durable::write_json(&folder.join(CONFIG_FILE), &self.config)?)
    }
}

/// Accepts what three files of a folder say, or names the one that is wrong.
fn check(
    folder: &Path,
    config: &ModelConfig,
    preprocessor: &PreprocessorConfig,
    people: &TrainingPeople,
) -> Result<(), WeightsError> {
    config.check().map_err(|error| Problem::from(error).at(folder.join(CONFIG_FILE)))?;
    preprocessor.check(config).map_err(|error| Problem::from(error).at(folder.join(PREPROCESSOR_FILE)))?;
    people.check().map_err(|error| Problem::from(error).at(folder.join(PEOPLE_FILE)))
}

/// A better reason where a configuration is that of a baseline.
fn of_another_kind(path: &Path) -> Option<WeightsError> {
    let config: serde_json::Value = read_json(path).ok()?;
    let found = config["model"]["model_type"].as_str()?.to_owned();
    Some(Problem::Kind { found }.at(path))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, WeightsError> {
    let read = || -> Result<T, Problem> {
        let file = File::open(path).in_file("read", path)?;
        let found = file.metadata().in_file("read", path)?.len();
        if found > JSON_LIMIT_BYTES {
            return Err(Problem::TooLarge { limit: JSON_LIMIT_BYTES, found });
        }
        let mut text = Vec::new();
        file.take(JSON_LIMIT_BYTES).read_to_end(&mut text).in_file("read", path)?;
        Ok(serde_json::from_slice(&text)?)
    };
    read().map_err(|problem| problem.at(path))
}
