//! A model directory of which one file is any bytes: the first byte chooses the file, the rest is its content.

use std::path::Path;
use std::sync::OnceLock;

use bdo_model::config::ModelConfig;
use bdo_model::init::initial_parameters;
use bdo_model::weights::{
    CONFIG_FILE, CardFacts, ModelDirectory, PEOPLE_FILE, PREPROCESSOR_FILE, PreprocessorConfig, TrainingPeople,
    WEIGHTS_FILE,
};

const FILES: [&str; 4] = [CONFIG_FILE, WEIGHTS_FILE, PREPROCESSOR_FILE, PEOPLE_FILE];

/// Reads the directory.
pub fn model_directory(bytes: &[u8]) {
    static SCRATCH: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let scratch = SCRATCH.get_or_init(|| tempfile::tempdir().ok().filter(|folder| write_sound(folder.path())));
    let (Some(scratch), Some((first, rest))) = (scratch, bytes.split_first()) else { return };
    let path = scratch.path().join(FILES[usize::from(*first) % FILES.len()]);
    let Ok(sound) = std::fs::read(&path) else { return };
    if std::fs::write(&path, rest).is_ok() {
        let _ = ModelDirectory::read(scratch.path());
    }
    // A file that could not be put back would make every later input a refusal, and the run a lie.
    std::fs::write(&path, sound).expect("the scratch folder can be written");
}

/// The sound files, as inputs.
pub fn seeds() -> Vec<Vec<u8>> {
    let Ok(folder) = tempfile::tempdir() else { return vec![] };
    if !write_sound(folder.path()) {
        return vec![];
    }
    let input = |(i, name): (usize, &&str)| {
        let content = std::fs::read(folder.path().join(name)).ok()?;
        Some([&[i as u8][..], &content].concat())
    };
    FILES.iter().enumerate().filter_map(input).collect()
}

fn write_sound(folder: &Path) -> bool {
    let config = ModelConfig { regions: 2, width: 4, blocks: 1, heads: 1, basis_count: 2, ..ModelConfig::default() };
    toy(config, vec![0.1, -0.2], vec![1.0, 2.0]).write(folder, &CardFacts::default()).is_ok()
}

/// A fresh model with these medians and ranges of its regions.
pub fn toy(config: ModelConfig, medians: Vec<f64>, iqrs: Vec<f64>) -> ModelDirectory {
    ModelDirectory {
        notes: None,
        parameters: initial_parameters(&config, 1),
        preprocessor: PreprocessorConfig {
            scaling: bdo_data::scaler::Scaling::Pooled,
            roi_names: ('a'..).take(config.regions).map(String::from).collect(),
            atlas_name: "toy".into(),
            atlas_hash: "00".repeat(32),
            dropped_volumes: 10,
            time_scale: config.time_scale,
            medians,
            iqrs,
            scan_count: 5,
            scan_list_hash: "11".repeat(32),
            trained_scans: None,
        },
        people: TrainingPeople {
            subjects: [TrainingPeople::subject_hash("sub-01")].into(),
            scans: ["22".repeat(32)].into(),
            ..TrainingPeople::default()
        },
        config,
    }
}
