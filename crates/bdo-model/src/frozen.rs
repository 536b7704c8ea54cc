//! A trained model that is only looked through.

use crate::error::ModelError;
use crate::intake::Windows;
use crate::model::Bdo;
use crate::ops::{Kernels, Precision};
use crate::pooling::Pooling;
use crate::readout::{READOUT_FILE, Readout};
use crate::weights::{
    AVERAGE_FILE, CONFIG_FILE, ModelDirectory, PREPROCESSOR_FILE, PreprocessorConfig, TrainingNotes, TrainingPeople,
    WEIGHTS_FILE,
};
use bdo_data::durable::{self, FileError};
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
    /// How it was trained, where that is known.
    pub notes: Option<TrainingNotes>,
    /// How scans are cut for it.
    pub windows: Windows,
    /// BLAKE3 of configuration, contract and weights.
    pub blake3: String,
    /// Where it lies.
    pub folder: PathBuf,
    /// Linear map from the control to regions, if it was fitted.
    pub readout: Option<Readout>,
}

/// Features are the same numbers on every machine up to rounding, so they are never computed in the reduced precision
/// that only some processors have.
const KERNELS: Kernels = Kernels::Fused(Precision::F32);

impl FrozenModel {
    /// Reads and checks a model directory, for the CPU.
    pub fn read(folder: &Path) -> Result<Self, ModelError> {
        Self::read_on(folder, &Device::flex())
    }

    /// The same for any device.
    pub fn read_on(folder: &Path, device: &Device) -> Result<Self, ModelError> {
        let directory = ModelDirectory::read(folder)?;
        let readout = Readout::read(folder, directory.config.regions, directory.config.width)?;
        let model = Bdo::from_parameters(&directory.config, directory.parameters, KERNELS, device)?;
        Ok(Self {
            model,
            contract: directory.preprocessor,
            people: directory.people,
            windows: directory.notes.as_ref().map_or(Windows::WHOLE_SCANS, |notes| Windows::of_training(&notes.mask)),
            notes: directory.notes,
            blake3: model_blake3(folder)?,
            folder: folder.to_path_buf(),
            readout,
        })
    }

    /// Refuses a pooling that needs a readout where the model has none.
    pub fn able_to(&self, pooling: Pooling) -> Result<(), ModelError> {
        if pooling.needs_readout() && self.readout.is_none() {
            return Err(ModelError::refused(
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

    /// BLAKE3 of the readout, where it has a part in features of this pooling.
    pub fn readout_blake3(&self, pooling: Pooling) -> Option<String> {
        let readout = self.readout.as_ref().filter(|_| pooling.needs_readout())?;
        Some(readout.note().numbers_blake3.clone())
    }
}

/// BLAKE3 of the files that decide what a model computes.
pub fn model_blake3(folder: &Path) -> Result<String, FileError> {
    let mut hasher = blake3::Hasher::new();
    let average = Some(AVERAGE_FILE).filter(|name| folder.join(name).exists());
    for name in [CONFIG_FILE, PREPROCESSOR_FILE, WEIGHTS_FILE].into_iter().chain(average) {
        hasher.update(blake3::hash(&durable::read(&folder.join(name))?).as_bytes());
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Features of Brain-JEPA come from its moving average, so tables of features must be told apart by it.
    #[test]
    fn the_hash_of_a_model_covers_a_moving_average() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        [CONFIG_FILE, PREPROCESSOR_FILE, WEIGHTS_FILE].iter().for_each(|name| write(name, name));
        let without = model_blake3(folder.path()).unwrap();
        write(AVERAGE_FILE, "one");
        let one = model_blake3(folder.path()).unwrap();
        write(AVERAGE_FILE, "another");
        let another = model_blake3(folder.path()).unwrap();
        assert!(without != one && one != another);
    }
}
