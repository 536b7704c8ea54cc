//! The model directory of a token model: weights, what scans must look like, and who was trained on.

use super::model::{TokenModel, TrainedJepa, TrainedLm};
use crate::brainjepa::BrainJepaConfig;
use crate::brainlm::BrainLmConfig;
use crate::token::grid::Grid;
use crate::token::place::Places;
use bdo_data::durable::{self, FileError};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, ParameterSpec, Parameters};
use bdo_model::weights::{
    CONFIG_FILE, PEOPLE_FILE, PREPROCESSOR_FILE, PreprocessorConfig, README_FILE, TrainingPeople, WeightsError,
    read_parameters, write_parameters,
};
use bdo_train::settings::Kind;
use burn::tensor::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What decides the shape of a token model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model_type", content = "config", rename_all = "lowercase")]
pub enum TokenConfig {
    /// BrainLM.
    BrainLm(BrainLmConfig),
    /// Brain-JEPA.
    BrainJepa(BrainJepaConfig),
}

/// A token model with its values, off any run.
#[derive(Clone, Debug)]
pub enum TrainedTokens {
    /// BrainLM.
    BrainLm(TrainedLm),
    /// Brain-JEPA.
    BrainJepa(TrainedJepa),
}

/// Everything a shareable token model consists of.
#[derive(Clone, Debug)]
pub struct TokenDirectory {
    /// Shape.
    pub config: TokenConfig,
    /// Where regions are.
    pub places: Option<Places>,
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

/// A model directory cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum DirectoryError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A file is not what it should be.
    #[error("{}: expected {expected}, found {found}", .path.display())]
    Content { path: PathBuf, expected: &'static str, found: String },
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

impl TokenConfig {
    /// The method.
    pub fn kind(&self) -> Kind {
        match self {
            Self::BrainLm(_) => Kind::BrainLm,
            Self::BrainJepa(_) => Kind::BrainJepa,
        }
    }

    /// Regions by windows.
    pub fn grid(&self) -> Grid {
        match self {
            Self::BrainLm(config) => config.grid,
            Self::BrainJepa(config) => config.grid,
        }
    }

    /// Files of weights, and what each of them holds.
    pub fn files(&self) -> Vec<(&'static str, Vec<ParameterSpec>)> {
        match self {
            Self::BrainLm(config) => TrainedLm::files(config),
            Self::BrainJepa(config) => TrainedJepa::files(config),
        }
    }
}

impl TokenDirectory {
    /// Reads and checks every file.
    pub fn read(folder: &Path) -> Result<Self, DirectoryError> {
        let ConfigFile { model, places } = read_json(&folder.join(CONFIG_FILE), "the configuration of a token model")?;
        let path = folder.join(PREPROCESSOR_FILE);
        let preprocessor: PreprocessorConfig = read_json(&path, "a preprocessing contract")?;
        let regions = model.grid().regions;
        let found = [preprocessor.roi_names.len(), preprocessor.medians.len(), preprocessor.iqrs.len()];
        if found != [regions; 3] {
            let found = format!("{found:?} names, medians and ranges for {regions} regions");
            return Err(DirectoryError::Content { path, expected: "one of each a region", found });
        }
        let path = folder.join(PEOPLE_FILE);
        let people: TrainingPeople = read_json(&path, "hashes of training people")?;
        let refused = |found: String| DirectoryError::Content { path, expected: "hashes", found };
        people.check().map_err(|error| refused(error.to_string()))?;
        let weights = model
            .files()
            .iter()
            .map(|(name, table)| Ok(read_parameters(&folder.join(name), table)?))
            .collect::<Result<_, DirectoryError>>()?;
        Ok(Self { config: model, places, weights, preprocessor, people })
    }

    /// Writes every file, each whole or not at all; the configuration last, since a reader starts with it.
    pub fn write(&self, folder: &Path, training: &str) -> Result<(), DirectoryError> {
        durable::create_folder(folder)?;
        for ((name, table), values) in self.config.files().iter().zip(&self.weights) {
            write_parameters(&folder.join(name), table, values)?;
        }
        durable::write_json(&folder.join(PREPROCESSOR_FILE), &self.preprocessor)?;
        durable::write_json(&folder.join(PEOPLE_FILE), &self.people)?;
        let card = format!(
            "# {}\n\nA token model of {} regions by {} windows of sixteen frames, for comparison with BDO.\n\n\
             Trained on {} people, {} scans: {training}\n",
            self.config.kind().name(),
            self.config.grid().regions,
            self.config.grid().windows,
            self.people.subjects.len(),
            self.people.scans.len(),
        );
        durable::write(&folder.join(README_FILE), card.as_bytes())?;
        let config = ConfigFile { model: self.config.clone(), places: self.places.clone() };
        Ok(durable::write_json(&folder.join(CONFIG_FILE), &config)?)
    }

    /// The model on a device, ready to make features or to be trained further.
    pub fn learner(&self, kernels: Kernels, device: &Device) -> Result<TrainedTokens, ParameterError> {
        let (places, weights) = (self.places.clone(), self.weights.clone());
        Ok(match &self.config {
            TokenConfig::BrainLm(config) => {
                TrainedTokens::BrainLm(TrainedLm::of_parameters(config, places, weights, kernels, device)?)
            }
            TokenConfig::BrainJepa(config) => {
                TrainedTokens::BrainJepa(TrainedJepa::of_parameters(config, places, weights, kernels, device)?)
            }
        })
    }
}

/// The method of a model directory, `None` if it holds no token model.
pub fn kind_of_model(folder: &Path) -> Option<Kind> {
    let file: ConfigFile = serde_json::from_slice(&durable::read(&folder.join(CONFIG_FILE)).ok()?).ok()?;
    Some(file.model.kind())
}

fn read_json<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, DirectoryError> {
    serde_json::from_slice(&durable::read(path)?).map_err(|error| DirectoryError::Content {
        path: path.to_path_buf(),
        expected,
        found: error.to_string(),
    })
}
