//! Damage to the newest checkpoint never goes unnoticed, and the one before it is used.

use std::path::Path;
use std::process::Command;

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
    let saves = if full { 100 } else { 10 };
    let dir = tempfile::tempdir().unwrap();
    let one = size_of(&saved(dir.path(), 1).sets().unwrap()[0]);
    let (mut refused, mut fitted) = (0, 0);
    for round in 0..saves {
        let Some(disk) = SmallDisk::mount(8 * one) else {
            println!("SKIPPED: this machine does not let us mount a small disk, the full-disk test did not run");
            return;
        };
        let sets = saved(disk.0.path(), 1);
        // Room for none, some or all of the next one.
        let room = below(&mut stream("full disk", &[round]), one + one / 4);
        let filler = disk.0.path().join("filler");
        std::fs::write(&filler, vec![0u8; (7 * one - room) as usize]).unwrap();
        let mut state = TrainState::fresh(&config(), 2, Kernels::default(), &Device::flex().autodiff()).unwrap();
        state.step = 2;
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
    println!("{refused} saves met a full disk, {fitted} fitted");
    assert!(refused * 2 > saves, "only {refused} of {saves} saves met a full disk");
}
