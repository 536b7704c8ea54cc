//! A trained model that is only looked through.

use crate::downstream::control::Windows;
use crate::error::EvalError;
use crate::pooling::Pooling;
use crate::readout::{READOUT_FILE, Readout};
use bdo_data::durable;
use bdo_data::scaler::ScaledScan;
use bdo_data::scan::Scan;
use bdo_model::model::Bdo;
use bdo_model::ops::{Kernels, Precision};
use bdo_model::weights::{
    CONFIG_FILE, ContractError, ModelDirectory, PREPROCESSOR_FILE, PreprocessorConfig, TrainingPeople, WEIGHTS_FILE,
};
use bdo_train::publish::read_notes;
use burn::tensor::Device;
use std::path::{Path, PathBuf};

/// A model directory, read and put together outside any gradient tape.
#[derive(Debug)]
pub struct FrozenModel {
    /// The model.
    pub model: Bdo,
    /// Its preprocessing contract.
    pub contract: PreprocessorConfig,
    /// Whom it was pre-trained on.
    pub people: TrainingPeople,
    /// How scans are cut for it.
    pub windows: Windows,
    /// BLAKE3 of configuration, contract and weights.
    pub blake3: String,
    /// Where it lies.
    pub folder: PathBuf,
    /// What its control says of the regions, if that was fitted.
    pub readout: Option<Readout>,
}

/// Features are the same numbers on every machine up to rounding, so they are never computed in the reduced precision
/// that only some processors have.
pub(crate) const KERNELS: Kernels = Kernels::Fused(Precision::F32);

impl FrozenModel {
    /// Reads and checks a model directory.
    pub fn read(folder: &Path) -> Result<Self, EvalError> {
        let directory = ModelDirectory::read(folder)?;
        let readout = Readout::read(folder, directory.config.regions, directory.config.width)?;
        let model = Bdo::from_parameters(&directory.config, directory.parameters, KERNELS, &Device::flex())?;
        Ok(Self {
            model,
            contract: directory.preprocessor,
            people: directory.people,
            windows: read_notes(folder).map_or(Windows::WHOLE_SCANS, |notes| Windows::of_training(&notes.mask)),
            blake3: model_blake3(folder)?,
            folder: folder.to_path_buf(),
            readout,
        })
    }

    /// Refuses a pooling that needs a readout where the model has none.
    pub fn able_to(&self, pooling: Pooling) -> Result<(), EvalError> {
        if pooling.needs_readout() && self.readout.is_none() {
            return Err(EvalError::refused(
                &self.folder,
                format!(
                    "a model with {READOUT_FILE}, which pooling {} reads (`bdo pretrain --resume` on its run adds one)",
                    pooling.name()
                ),
                "none that belongs to its weights",
            ));
        }
        Ok(())
    }

    /// Numbers a scan.
    pub fn feature_width(&self, pooling: Pooling) -> usize {
        pooling.width(self.model.config().width, self.model.config().regions)
    }

    /// BLAKE3 of all that decides features of this pooling: that of the model, and of the readout where it has a part.
    pub fn blake3_for(&self, pooling: Pooling) -> String {
        match &self.readout {
            Some(readout) if pooling.needs_readout() => {
                let both = format!("{} {}", self.blake3, readout.note().numbers_blake3);
                blake3::hash(both.as_bytes()).to_hex().to_string()
            }
            _ => self.blake3.clone(),
        }
    }
}

/// BLAKE3 of the files that decide what a model computes.
pub fn model_blake3(folder: &Path) -> Result<String, EvalError> {
    let mut hasher = blake3::Hasher::new();
    for name in [CONFIG_FILE, PREPROCESSOR_FILE, WEIGHTS_FILE] {
        hasher.update(blake3::hash(&durable::read(&folder.join(name))?).as_bytes());
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Brings scans of a cohort into the form the contract asks for: regions by name, centred on all kept frames, scaled.
#[derive(Clone, Debug)]
pub struct Intake<'a> {
    contract: &'a PreprocessorConfig,
    /// For each region of the model, its column in the data.
    columns: Vec<usize>,
}

impl<'a> Intake<'a> {
    /// Matches regions by name; their order in the data is irrelevant.
    pub fn new(contract: &'a PreprocessorConfig, data_names: &[String]) -> Result<Self, ContractError> {
        Ok(Self { contract, columns: contract.match_regions(data_names)? })
    }

    /// `None` if no region carries a signal the model knows.
    pub fn scale(&self, scan: &Scan) -> Option<ScaledScan> {
        let (frames, regions) = (scan.frames(), self.columns.len());
        let width = scan.series.len() / frames.max(1);
        let usable = scan.valid_regions();
        let region_valid: Vec<bool> =
            self.columns.iter().zip(&self.contract.iqrs).map(|(&column, &iqr)| usable[column] && iqr > 0.0).collect();
        if !region_valid.contains(&true) {
            return None;
        }
        let mut values = vec![0.0f32; frames * regions];
        for (r, &column) in self.columns.iter().enumerate().filter(|(r, _)| region_valid[*r]) {
            let value = |frame: usize| f64::from(scan.series[frame * width + column]);
            let mean = (0..frames).map(value).sum::<f64>() / frames as f64;
            // Rounded where the scaler of pre-training rounds, so that the model sees the very numbers it learned from.
            let (median, iqr) = (self.contract.medians[r] as f32, self.contract.iqrs[r] as f32);
            for frame in 0..frames {
                values[frame * regions + r] = ((value(frame) - mean) as f32 - median) / iqr;
            }
        }
        let first = scan.frame_times_seconds[0];
        let times_seconds = scan.frame_times_seconds.iter().map(|t| t - first).collect();
        Some(ScaledScan { times_seconds, values, region_valid })
    }
}
