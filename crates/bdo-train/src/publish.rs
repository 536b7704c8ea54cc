//! The model directory of a run: what is shared with others.

use crate::settings::Settings;
use crate::source::ScanSource;
use crate::words::Words;
use bdo_data::cohort::CohortError;
use bdo_data::durable::FileError;
use bdo_data::record::{Identity, ValidationEntry};
use bdo_data::scaler::FittedRobustScaler;
use bdo_model::autocorrelation::Autocorrelation;
use bdo_model::model::Bdo;
use bdo_model::weights::{CardFacts, ModelDirectory, PreprocessorConfig, TrainingNotes, TrainingPeople, WeightsError};
use std::path::Path;

/// A model directory could not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum PublishError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Cohort(#[from] CohortError),
}

/// The parts of a model directory that do not change during a run.
#[derive(Clone, Debug)]
pub struct Publisher {
    preprocessor: PreprocessorConfig,
    autocorrelation: Autocorrelation,
    identity: Identity,
    settings: Settings,
    data: String,
}

impl Publisher {
    /// Collects the contract of a run.
    pub fn new(source: &ScanSource, identity: &Identity, settings: &Settings) -> Result<Self, PublishError> {
        let manifest = source.cohort().manifest();
        let preprocessor = contract(source, source.scaler(), settings.model.time_scale)?;
        let data = format!("{} scans of a cohort with atlas {}", source.train_scans().len(), manifest.atlas.name);
        let autocorrelation = Autocorrelation::of_scans(source.cohort(), source.train_scans(), source.scaler())?;
        let (identity, settings) = (identity.clone(), settings.clone());
        Ok(Self { preprocessor, autocorrelation, identity, settings, data })
    }

    /// Writes the directory for the present state. Hashes of the people are made for it, not kept: a cohort may have tens of
    /// thousands of them.
    pub fn write(
        &self,
        source: &ScanSource,
        folder: &Path,
        model: &Bdo,
        steps: u64,
        validation: Option<&ValidationEntry>,
    ) -> Result<(), PublishError> {
        let (settings, people) = (&self.settings, source.split());
        let words = Words::of(settings);
        let facts = CardFacts {
            name: "BDO".to_owned(),
            software_version: self.identity.version.clone(),
            data: self.data.clone(),
            training: format!(
                "{steps} steps with seed {}, configuration {}. {} {} {}",
                self.identity.seed, self.identity.settings_blake3, words.visits, words.objective, words.optimiser
            ),
            input: words.input,
            results: validation.map(card_line).into_iter().collect(),
        };
        let notes = TrainingNotes {
            mask: settings.mask,
            autocorrelation: self.autocorrelation.clone(),
            settings_blake3: self.identity.settings_blake3.clone(),
            cohort_blake3: self.identity.cohort_blake3.clone(),
            seed: self.identity.seed,
            steps,
            validation_people: people.validation.subjects().iter().map(|id| TrainingPeople::subject_hash(id)).collect(),
        };
        let directory = ModelDirectory {
            config: model.config().clone(),
            parameters: model.parameters(),
            preprocessor: self.preprocessor.clone(),
            people: people_of(source, |subject| people.train.contains(subject)),
            notes: Some(notes),
        };
        Ok(directory.write(folder, &facts)?)
    }
}

/// How scans are brought into the form that was trained on.
pub fn contract(
    source: &ScanSource,
    scaler: &FittedRobustScaler,
    time_scale: f64,
) -> Result<PreprocessorConfig, CohortError> {
    let cohort = source.cohort();
    let first = cohort.scan(source.train_scans()[0])?;
    let manifest = cohort.manifest();
    Ok(PreprocessorConfig {
        roi_names: scaler.region_names().to_vec(),
        atlas_name: manifest.atlas.name.clone(),
        atlas_hash: manifest.atlas.names_blake3.clone(),
        dropped_volumes: first.source.dropped_volumes as usize,
        time_scale,
        scaling: scaler.scaling(),
        medians: scaler.medians().iter().map(|x| f64::from(*x)).collect(),
        iqrs: scaler.iqrs().iter().map(|x| f64::from(*x)).collect(),
        scan_count: scaler.scans(),
        scan_list_hash: scaler.scans_blake3().to_owned(),
        trained_scans: None,
    })
}

/// The chosen people of a cohort and all their scans, as hashes.
pub fn people_of(source: &ScanSource, chosen: impl Fn(&str) -> bool) -> TrainingPeople {
    let scans = || source.cohort().index().iter().filter(|entry| chosen(&entry.id.subject));
    let people = source.cohort().participants();
    TrainingPeople {
        subjects: people.subjects().filter(|id| chosen(id)).map(TrainingPeople::subject_hash).collect(),
        scans: scans().map(|entry| entry.blake3.clone()).collect(),
        sources: scans().map(|entry| entry.source_blake3.clone()).filter(|hash| !hash.is_empty()).collect(),
        by_id: false,
    }
}

fn card_line(entry: &ValidationEntry) -> String {
    format!(
        "masked frames of {} scans of held-out validation people, after {} steps: mean squared error {:.4}, where \
         predicting the mean costs {:.4}",
        entry.scans,
        entry.step,
        entry.measures.get("mse"),
        entry.measures.get("mean_square")
    )
}
