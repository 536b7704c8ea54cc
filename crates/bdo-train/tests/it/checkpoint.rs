//! Damage to the newest checkpoint never goes unnoticed, and the one before it is used.

use std::path::Path;
use std::process::Command;

use bdo_data::random::{below, stream};
use bdo_model::config::ModelConfig;
use bdo_train::bdo::BdoLearner;
use bdo_train::checkpoint::{CheckpointSets, Progress, StoredState};
use bdo_train::learner::Learner;
use bdo_train::optimiser::AdamState;
use bdo_train::settings::{Preset, Settings};
use burn::tensor::Device;

fn config() -> ModelConfig {
    ModelConfig { regions: 5, width: 8, blocks: 1, heads: 1, basis_count: 3, ..ModelConfig::default() }
}

fn fresh(seed: u64) -> BdoLearner {
    let (settings, device) = (Settings::preset(Preset::Paper), Device::flex().autodiff());
    BdoLearner::with_kernels(&config(), &settings, settings.kernels(&device), seed, &device).unwrap()
}

fn state(step: u64) -> StoredState {
    let progress = Progress { step, ..Progress::default() };
    StoredState { progress, adam: AdamState::default(), weights: fresh(step).parameters(), best: None }
}

fn saved(folder: &Path, step: u64) -> CheckpointSets {
    let (run_blake3, weights) = ("run".into(), fresh(step).files());
    let sets = CheckpointSets { folder: folder.join("c"), run_blake3, keep: 2, weights };
    sets.save(&state(step)).unwrap();
    sets
}

fn restored(sets: &CheckpointSets) -> (Option<u64>, usize) {
    let found = sets.restore().unwrap();
    (found.state.map(|state| state.progress.step), found.damaged.len())
}

#[test]
fn every_corruption_of_the_newest_is_detected() {
    let full = std::env::var("BDO_TORTURE").is_ok_and(|v| v == "full");
    let rounds = if full { 500 } else { 50 };
    for round in 0..rounds {
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
    println!("COUNTED: {rounds} corruptions of a checkpoint, all detected");
}

#[test]
fn what_was_saved_comes_back_and_a_missing_file_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    saved(dir.path(), 1);
    let sets = saved(dir.path(), 2);
    assert_eq!(sets.restore().unwrap().state.unwrap().weights, fresh(2).parameters());
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

/// A small file system of its own, where the machine lets us mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).output().ok()?;
        mounted.status.success().then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn size_of(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().metadata().unwrap());
    // Whole pages, as the small disk counts them.
    files.map(|m| m.len().div_ceil(4096) * 4096).sum()
}

#[test]
fn a_full_disk_never_costs_a_checkpoint() {
    let full = std::env::var("BDO_TORTURE").is_ok_and(|v| v == "full");
    let wanted = if full { 100 } else { 10 };
    let dir = tempfile::tempdir().unwrap();
    let one = size_of(&saved(dir.path(), 1).sets().unwrap()[0]);
    let (mut refused, mut fitted) = (0, 0);
    while refused < wanted {
        let round = refused + fitted;
        let Some(disk) = SmallDisk::mount(8 * one) else {
            println!("SKIPPED: this machine does not let us mount a small disk, the full-disk test did not run");
            return;
        };
        let sets = saved(disk.0.path(), 1);
        // Room for none, some or all of the next one.
        let room = below(&mut stream("full disk", &[round]), one + one / 4);
        let filler = disk.0.path().join("filler");
        std::fs::write(&filler, vec![0u8; (7 * one - room) as usize]).unwrap();
        let state = state(2);
        match sets.save(&state) {
            Ok(()) => {
                assert_eq!(restored(&sets), (Some(2), 0), "round {round}");
                fitted += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("the disk is full"), "round {round}: {error}");
                assert_eq!(restored(&sets), (Some(1), 0), "round {round}: the one before is whole and found");
                std::fs::remove_file(&filler).unwrap();
                sets.save(&state).unwrap();
                assert_eq!(restored(&sets), (Some(2), 0), "round {round}: with room again it is saved");
                refused += 1;
            }
        }
    }
    println!("COUNTED: {refused} saves met a full disk and cost nothing, {fitted} fitted");
    assert!(fitted < 2 * wanted, "{fitted} saves fitted: the disks are not small");
}
