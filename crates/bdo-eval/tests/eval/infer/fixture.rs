//! A small model nobody trained, and rows to ask it about.

use crate::fixture::written;
use bdo_data::random::stream;
use bdo_model::config::ModelConfig;
use bdo_model::frozen::FrozenModel;
use bdo_model::init::initial_parameters;
use bdo_model::intake::Windows;
use bdo_model::noise::fill_normal;
use bdo_model::parameters::Parameters;
use bdo_model::posterior::engine::{Engine, Piece};
use bdo_model::posterior::rows::{RowKind, Rows};
use bdo_model::weights::TrainingPeople;
use std::path::Path;

pub(crate) const REGIONS: usize = 7;

pub(crate) fn config() -> ModelConfig {
    let mut config = ModelConfig::tiny();
    (config.regions, config.width, config.blocks, config.heads, config.basis_count) = (REGIONS, 16, 2, 2, 4);
    config.time_scale = 0.3;
    config.time_encoding_rate = 6.0;
    config.dynamics.diffusion = 0.2;
    config
}

/// A model with parameters changed by the caller.
pub(crate) fn model(folder: &Path, windows: Windows, change: impl FnOnce(&mut Parameters)) -> FrozenModel {
    let config = config();
    let mut parameters = initial_parameters(&config, 11);
    change(&mut parameters);
    let mut frozen = written(&folder.join("model"), config, parameters, (0.0, 1.0), TrainingPeople::default(), None);
    frozen.windows = windows;
    frozen
}

/// Noise in every row, visible where `visible` says so; hidden rows hold `behind`, which must not matter.
pub(crate) fn rows(count: usize, visible: impl Fn(usize) -> bool, behind: f32) -> Rows {
    let mut values = vec![0.0f32; count * REGIONS];
    fill_normal(&mut stream("infer test", &[count as u64]), &mut values);
    for row in (0..count).filter(|&row| !visible(row)) {
        values[row * REGIONS..(row + 1) * REGIONS].fill(behind);
    }
    Rows {
        times_seconds: (0..count).map(|i| i as f64 * 1.5).collect(),
        kinds: (0..count).map(|i| if visible(i) { RowKind::Visible } else { RowKind::Hidden }).collect(),
        values,
        region_valid: vec![true; REGIONS],
    }
}

/// All pieces in one.
pub(crate) fn answer(engine: &Engine<'_>, rows: &Rows) -> Vec<Piece> {
    let mut pieces = Vec::new();
    engine
        .infer(rows, |piece| -> Result<(), bdo_model::batch::BatchError> {
            pieces.push(piece);
            Ok(())
        })
        .unwrap();
    pieces
}

pub(crate) fn decoded(pieces: &[Piece]) -> Vec<f32> {
    pieces.iter().flat_map(|p| p.decoded.iter().copied()).collect()
}
