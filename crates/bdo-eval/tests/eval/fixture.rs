//! Small cohorts and models.

use bdo_data::cohort::{Cohort, Observer, Plan, Provenance, Tables, build};
use bdo_data::participants::Participants;
use bdo_data::random::{shuffle, stream};
use bdo_data::region::Region;
use bdo_data::scan::{Scan, ScanId, Source};
use bdo_model::config::ModelConfig;
use bdo_model::frozen::FrozenModel;
use bdo_model::init::initial_parameters;
use bdo_model::parameters::Parameters;
use bdo_model::weights::{CardFacts, ModelDirectory, PreprocessorConfig, TrainingNotes, TrainingPeople};
use rand_chacha::rand_core::Rng;
use std::path::{Path, PathBuf};

pub(crate) const REGIONS: usize = 6;

pub(crate) struct Silent;

impl Observer for Silent {}

/// Uniform in -1 to 1.
pub(crate) fn noise(purpose: &str, position: &[u64]) -> impl FnMut() -> f32 + use<> {
    let mut rng = stream(purpose, position);
    move || (rng.next_u64() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
}

/// A scan of its own length with gaps in time; people with an odd number swing up sharply and down slowly, the others
/// the other way round, so that something about them survives centring.
pub(crate) fn scan(person: usize, frames: usize) -> Scan {
    let mut draw = noise("fixture scan", &[person as u64]);
    let sign = if person % 2 == 1 { 1.0 } else { -1.0 };
    let mut time = 0.0;
    let frame_times_seconds = (0..frames)
        .map(|_| {
            time += 2.0 + f64::from(draw().abs() > 0.9) * 4.0;
            time
        })
        .collect();
    let series = (0..frames * REGIONS).map(|_| 100.0 + sign * 4.0 * draw().abs().powi(4) + 0.3 * draw()).collect();
    Scan {
        id: ScanId::of_subject(format!("p{person:03}")),
        site: None,
        tr_seconds: 2.0,
        frame_times_seconds,
        series,
        framewise_displacement_mm: None,
        coverage: None,
        source: Source::default(),
    }
}

pub(crate) fn frames_of(person: usize) -> usize {
    10 + (person * 7) % 9
}

/// One scan a person, with a class, a number and a label of three classes.
pub(crate) fn cohort(folder: &Path, name: &str, people: std::ops::Range<usize>) -> Cohort {
    reordered_cohort(folder, name, people, &(0..REGIONS).collect::<Vec<_>>())
}

/// The same scans with their regions in another order; a number beyond the regions adds one that no model knows.
pub(crate) fn reordered_cohort(folder: &Path, name: &str, people: std::ops::Range<usize>, order: &[usize]) -> Cohort {
    let out = folder.join(name);
    let first = people.start;
    let plan = Plan {
        provenance: Provenance::of("test", serde_json::json!({"name": name})),
        atlas_name: "six".into(),
        regions: order.iter().map(|r| Region::named(format!("r{r}"))).collect(),
        items: people.len(),
        part_bytes: 1 << 20,
    };
    let produce = |i: usize| {
        let mut scan = scan(first + i, frames_of(first + i));
        let rows = scan.series.chunks_exact(REGIONS);
        scan.series = rows.flat_map(|row| order.iter().map(|&r| row.get(r).copied().unwrap_or(row[0] * 2.0))).collect();
        Ok(scan)
    };
    let tables = |_: &_| {
        let mut table = Participants::with_columns(["group", "age", "site"]);
        for person in people.clone() {
            let age = 20.0 + f64::from(person as u32 % 2) * 10.0 + f64::from(person as u32) * 0.01;
            let labels = vec![["b", "a"][person % 2].to_owned(), age.to_string(), format!("s{}", person % 3)];
            table.insert(format!("p{person:03}"), labels.into_iter().map(Some).collect());
        }
        Tables { participants: table, ..Tables::default() }
    };
    build(&out, &plan, produce, tables, &Silent).unwrap();
    Cohort::open(&out).unwrap()
}

pub(crate) fn small_config() -> ModelConfig {
    let mut config = ModelConfig::tiny();
    config.regions = REGIONS;
    config.width = 16;
    config.blocks = 2;
    config.heads = 2;
    config.basis_count = 4;
    config
}

/// A model nobody trained, with a plain contract.
pub(crate) fn model(folder: &Path, name: &str) -> (PathBuf, FrozenModel) {
    let config = small_config();
    let parameters = initial_parameters(&config, 5);
    let people =
        TrainingPeople { subjects: [TrainingPeople::subject_hash("p003")].into(), ..TrainingPeople::default() };
    let path = folder.join(name);
    let frozen = written(&path, config, parameters, (0.1, 1.5), people, None);
    (path, frozen)
}

/// Writes a model directory and reads it; all regions have the same median and interquartile range.
pub(crate) fn written(
    path: &Path,
    config: ModelConfig,
    parameters: Parameters,
    (median, iqr): (f64, f64),
    people: TrainingPeople,
    notes: Option<TrainingNotes>,
) -> FrozenModel {
    let names = (0..config.regions).map(|r| format!("r{r}")).collect();
    written_for(path, names, (config, parameters), (median, iqr), people, notes)
}

/// The same for regions of these names.
pub(crate) fn written_for(
    path: &Path,
    roi_names: Vec<String>,
    (config, parameters): (ModelConfig, Parameters),
    (median, iqr): (f64, f64),
    people: TrainingPeople,
    notes: Option<TrainingNotes>,
) -> FrozenModel {
    let regions = config.regions;
    let preprocessor = PreprocessorConfig {
        scaling: bdo_data::scaler::Scaling::Pooled,
        roi_names,
        atlas_name: "test".into(),
        atlas_hash: "0".repeat(64),
        dropped_volumes: 0,
        time_scale: config.time_scale,
        medians: vec![median; regions],
        iqrs: vec![iqr; regions],
        scan_count: 1,
        scan_list_hash: "0".repeat(64),
        trained_scans: None,
    };
    let facts = CardFacts {
        name: "test".into(),
        software_version: "0".into(),
        data: "none".into(),
        input: String::new(),
        training: "none".into(),
        results: vec![],
    };
    ModelDirectory { notes, parameters, preprocessor, people, config }.write(path, &facts).unwrap();
    FrozenModel::read(path).unwrap()
}

/// The numbers from 0 in a random order.
pub(crate) fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut stream("fixture order", &[seed]));
    order
}
