//! Damage to the newest checkpoint never goes unnoticed, and the one before it is used.

use std::path::Path;

use bdo_data::random::{below, stream};
use bdo_model::config::ModelConfig;
use bdo_model::ops::Kernels;
use bdo_train::checkpoint::Checkpoints;
use bdo_train::state::TrainState;
use burn::tensor::Device;

fn config() -> ModelConfig {
    ModelConfig { regions: 5, width: 8, blocks: 1, heads: 1, basis_count: 3, ..ModelConfig::default() }
}

fn saved(folder: &Path, step: u64) -> Checkpoints {
    let sets = Checkpoints { folder: folder.join("c"), config: config(), run_blake3: "run".into(), keep: 2 };
    let mut state = TrainState::fresh(&config(), step, Kernels::default(), &Device::flex().autodiff()).unwrap();
    state.step = step;
    sets.save(&state).unwrap();
    sets
}

fn restored(sets: &Checkpoints) -> (Option<u64>, usize) {
    let found = sets.restore(Kernels::default(), &Device::flex().autodiff()).unwrap();
    (found.state.map(|state| state.step), found.damaged.len())
}

#[test]
fn every_corruption_of_the_newest_is_detected() {
    let full = std::env::var("BDO_TORTURE").is_ok_and(|v| v == "full");
    for round in 0..if full { 500 } else { 50 } {
        let dir = tempfile::tempdir().unwrap();
        saved(dir.path(), 1);
        let sets = saved(dir.path(), 2);
        let newest = sets.sets().unwrap().pop().unwrap();
        let mut rng = stream("corruption", &[round]);
        let mut files: Vec<_> = std::fs::read_dir(&newest).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        let path = &files[below(&mut rng, files.len() as u64) as usize];
        let mut content = std::fs::read(path).unwrap();
        let at = below(&mut rng, content.len() as u64) as usize;
        match below(&mut rng, 4) {
            0 => content.truncate(at),
            1 => content.push(0),
            2 => content[at] = content[at].wrapping_add(1 + below(&mut rng, 255) as u8),
            _ => content[at] ^= 1 << below(&mut rng, 8),
        }
        std::fs::write(path, content).unwrap();
        assert_eq!(restored(&sets), (Some(1), 1), "round {round}: {}", path.display());
    }
}

#[test]
fn what_was_saved_comes_back_and_a_missing_file_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    saved(dir.path(), 1);
    let sets = saved(dir.path(), 2);
    let state = sets.restore(Kernels::default(), &Device::flex().autodiff()).unwrap().state.unwrap();
    let fresh = TrainState::fresh(&config(), 2, Kernels::default(), &Device::flex().autodiff()).unwrap();
    assert_eq!(state.model.parameters(), fresh.model.parameters());
    assert_eq!(state.teacher.parameters(), fresh.teacher.parameters());
    std::fs::remove_file(sets.sets().unwrap()[1].join("ema.safetensors")).unwrap();
    assert_eq!(restored(&sets), (Some(1), 1));
}

#[test]
fn only_the_last_ones_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    for step in 0..5 {
        saved(dir.path(), step);
    }
    assert_eq!(saved(dir.path(), 5).sets().unwrap().len(), 2);
}
