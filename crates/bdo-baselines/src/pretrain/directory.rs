//! The model directory of a token model: weights, what scans must look like, and who was trained on.

use super::model::{TokenModel, TrainedJepa};
use crate::brainjepa::BrainJepaConfig;
use crate::brainlm::{BrainLm, BrainLmConfig};
use crate::cost::TokenCost;
use crate::token::grid::Grid;
use crate::token::place::Places;
use bdo_data::durable;
use bdo_eval::error::EvalError;
use bdo_model::parameters::{Parameters, trainable_count};
use bdo_model::weights::{
    CONFIG_FILE, PEOPLE_FILE, PREPROCESSOR_FILE, PreprocessorConfig, README_FILE, TrainingPeople, read_parameters,
    write_parameters,
};
use bdo_train::learner::WeightFiles;
use bdo_train::settings::{Kind, Settings};
use bdo_train::words::token_input;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model_type", content = "config", rename_all = "lowercase")]
pub enum TokenConfig {
    BrainLm(BrainLmConfig),
    BrainJepa(BrainJepaConfig),
}

/// Everything a shareable token model consists of.
#[derive(Clone, Debug)]
pub struct TokenDirectory {
    pub config: TokenConfig,
    /// One set a file.
    pub weights: Vec<Parameters>,
    /// How scans are brought into the form that was trained on.
    pub preprocessor: PreprocessorConfig,
    /// Hashes of those who were trained on.
    pub people: TrainingPeople,
}

/// `config.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    model: TokenConfig,
    places: Option<Places>,
}

impl TokenConfig {
    /// What settings make of a method on a grid, for regions with known centres or without; `None` for BDO.
    pub fn of(kind: Kind, settings: &Settings, grid: Grid, centres: bool) -> Option<Self> {
        let width = settings.method.size.width();
        match kind {
            Kind::BrainLm => Some(Self::BrainLm(BrainLmConfig {
                dropout: settings.model.dropout,
                attention_dropout: settings.method.attention_dropout,
                mask_ratio: settings.mask.ratio,
                ..BrainLmConfig::of_width(grid, width, centres)
            })),
            Kind::BrainJepa => Some(Self::BrainJepa(BrainJepaConfig::of_width(grid, width))),
            Kind::Bdo => None,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::BrainLm(_) => Kind::BrainLm,
            Self::BrainJepa(_) => Kind::BrainJepa,
        }
    }

    pub fn grid(&self) -> Grid {
        match self {
            Self::BrainLm(config) => config.grid,
            Self::BrainJepa(config) => config.grid,
        }
    }

    pub fn places(&mut self) -> &mut Option<Places> {
        match self {
            Self::BrainLm(config) => &mut config.places,
            Self::BrainJepa(config) => &mut config.places,
        }
    }

    /// Trained numbers under names that begin so.
    pub fn trained(&self, prefix: &str) -> usize {
        let table = self.files().swap_remove(0).1.into_iter();
        trainable_count(&table.filter(|spec| spec.name.starts_with(prefix)).collect::<Vec<_>>())
    }

    pub fn cost(&self) -> TokenCost {
        match self {
            Self::BrainLm(config) => TokenCost::of_brain_lm(config),
            Self::BrainJepa(config) => TokenCost::of_brain_jepa(config),
        }
    }

    /// Files of weights, and what each of them holds.
    pub fn files(&self) -> WeightFiles {
        match self {
            Self::BrainLm(config) => BrainLm::files(config),
            Self::BrainJepa(config) => TrainedJepa::files(config),
        }
    }
}

impl TokenDirectory {
    pub fn read(folder: &Path) -> Result<Self, EvalError> {
        let file: ConfigFile = read_json(&folder.join(CONFIG_FILE), "the configuration of a token model")?;
        let mut model = file.model;
        *model.places() = file.places;
        let path = folder.join(PREPROCESSOR_FILE);
        let mut preprocessor: PreprocessorConfig = read_json(&path, "a preprocessing contract")?;
        let regions = model.grid().regions;
        let found = [preprocessor.roi_names.len(), preprocessor.medians.len(), preprocessor.iqrs.len()];
        if found != [regions; 3] {
            let found = format!("{found:?} names, medians and ranges for {regions} regions");
            return Err(EvalError::refused(&path, "one of each a region", found));
        }
        let path = folder.join(PEOPLE_FILE);
        let people: TrainingPeople = read_json(&path, "hashes of training people")?;
        people.check().map_err(|error| EvalError::refused(&path, "hashes", error))?;
        preprocessor.trained_scans = Some(people.scans.clone());
        let weights = model
            .files()
            .iter()
            .map(|(name, table)| Ok(read_parameters(&folder.join(name), table)?))
            .collect::<Result<_, EvalError>>()?;
        Ok(Self { config: model, weights, preprocessor, people })
    }

    /// Writes every file, each whole or not at all; the configuration last, since a reader starts with it.
    pub fn write(&self, folder: &Path, training: &str) -> Result<(), EvalError> {
        durable::create_folder(folder)?;
        for ((name, table), values) in self.config.files().iter().zip(&self.weights) {
            write_parameters(&folder.join(name), table, values)?;
        }
        durable::write_json(&folder.join(PREPROCESSOR_FILE), &self.preprocessor)?;
        durable::write_json(&folder.join(PEOPLE_FILE), &self.people)?;
        let card = format!(
            "# {}\n\nA token model of {} regions by {} windows of sixteen frames, for comparison with BDO.\n\n\
             {}\n\nTrained on {} people, {} scans: {training}\n",
            self.config.kind().name(),
            self.config.grid().regions,
            self.config.grid().windows,
            token_input(self.preprocessor.scaling),
            self.people.subjects.len(),
            self.people.scans.len(),
        );
        durable::write(&folder.join(README_FILE), card.as_bytes())?;
        let mut model = self.config.clone();
        let places = model.places().take();
        Ok(durable::write_json(&folder.join(CONFIG_FILE), &ConfigFile { model, places })?)
    }
}

/// The method of a model directory, `None` if it holds no token model.
pub fn kind_of_model(folder: &Path) -> Option<Kind> {
    let file: ConfigFile = serde_json::from_slice(&durable::read(&folder.join(CONFIG_FILE)).ok()?).ok()?;
    Some(file.model.kind())
}

fn read_json<T: DeserializeOwned>(path: &Path, expected: &str) -> Result<T, EvalError> {
    serde_json::from_slice(&durable::read(path)?).map_err(|error| EvalError::refused(path, expected, error))
}
