//! A run that is killed, damaged or interrupted ends with the same bytes as one that was left alone.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bdo_data::random::{below, stream};

use crate::program::{bdo, bytes, names, run, run_json, torture};

const SMALL: &str = "--set model.width=16 --set model.blocks=1 --set model.heads=1 --set model.basis_count=4 \
                     --set mask.frames=24 --set train.epochs=8 --set train.batch_size=4 --set train.micro_batch_size=3 \
                     --set train.validation_steps=5 --set train.checkpoint_steps=3 --set train.keep_checkpoints=2 --quiet";

fn cohort(folder: &Path) {
    run_json(folder, "simulate c --subjects 24 --regions 12 --frames 40 --sites 1");
}

/// Weights, optimiser, moving average and position at the end of a run.
fn outcome(run: &Path) -> Vec<(String, Vec<u8>)> {
    let sets = names(&run.join("checkpoints"));
    let last = sets.iter().rfind(|name| name.starts_with("step-")).unwrap();
    let mut files: Vec<(String, Vec<u8>)> = bytes(&run.join("checkpoints").join(last))
        .into_iter()
        .map(|(path, bytes)| (format!("{last}/{}", path.display()), bytes))
        .collect();
    files.push(("model".into(), std::fs::read(run.join("model/model.safetensors")).unwrap()));
    files
}

#[test]
fn two_runs_of_one_seed_are_the_same_bytes_and_an_existing_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    run_json(dir.path(), &format!("pretrain --data c --out a {SMALL} --threads 1"));
    run_json(dir.path(), &format!("pretrain --data c --out b {SMALL} --threads 2"));
    run_json(dir.path(), &format!("pretrain --data c --out other {SMALL} --seed 1"));
    let outcome = |name: &str| outcome(&dir.path().join(name));
    assert!(outcome("a") == outcome("b"), "the same seed gave other bytes");
    assert!(outcome("a") != outcome("other"), "another seed gave the same bytes");
    let again = run(dir.path(), &format!("pretrain --data c --out a {SMALL}"));
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--resume"));
    let changed = run(dir.path(), &format!("pretrain --data c --out a {SMALL} --resume --set loss.tau=0.5"));
    let error = String::from_utf8_lossy(&changed.stderr).into_owned();
    assert!(error.contains("loss.tau: the run has 0.03, asked for 0.5"), "{error}");
}

#[test]
fn a_run_killed_at_random_moments_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let started = Instant::now();
    run_json(dir.path(), &format!("pretrain --data c --out whole {SMALL}"));
    let whole_micros = started.elapsed().as_micros() as u64;
    let expected = outcome(&dir.path().join("whole"));
    let (kills, mut landed, mut round) = (torture(200, 20), 0, 0);
    while landed < kills {
        let name = format!("killed-{round}");
        loop {
            let mut rng = stream("kill", &[round, landed as u64]);
            let mut child = bdo()
                .args(format!("pretrain --data c --out {name} {SMALL} --resume").split_whitespace())
                .current_dir(dir.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(below(&mut rng, whole_micros)));
            child.kill().unwrap();
            if child.wait().unwrap().success() {
                break;
            }
            landed += 1;
            if landed >= kills {
                break;
            }
        }
        let last = run(dir.path(), &format!("pretrain --data c --out {name} {SMALL} --resume"));
        assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
        assert!(outcome(&dir.path().join(&name)) == expected, "after {landed} kills the bytes differ");
        round += 1;
    }
    println!("{landed} kills landed in {round} runs");
}

#[test]
fn a_damaged_checkpoint_is_found_and_the_one_before_it_used() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    run_json(dir.path(), &format!("pretrain --data c --out r {SMALL}"));
    let run_folder = dir.path().join("r");
    let expected = outcome(&run_folder);
    let checkpoints = run_folder.join("checkpoints");
    for round in 0..3 {
        let newest = checkpoints.join(names(&checkpoints).into_iter().rfind(|n| n.starts_with("step-")).unwrap());
        let mut rng = stream("damage", &[round]);
        let files = names(&newest);
        let path = newest.join(&files[below(&mut rng, files.len() as u64) as usize]);
        let mut content = std::fs::read(&path).unwrap();
        let at = below(&mut rng, content.len() as u64) as usize;
        content[at] ^= 1 << below(&mut rng, 8);
        std::fs::write(&path, content).unwrap();
        let again = run(dir.path(), &format!("pretrain --data c --out r {} --resume", SMALL.replace("--quiet", "")));
        let error = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(again.status.success() && error.contains("damaged"), "{error}");
        assert!(outcome(&run_folder) == expected, "round {round}");
    }
}
