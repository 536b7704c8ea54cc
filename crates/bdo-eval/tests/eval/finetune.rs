//! Fine-tuning learns, and an interrupted one ends with the same bytes.

use crate::fixture::{Silent, cohort, model, small_config};
use bdo_data::cohort::Observer;
use bdo_eval::error::EvalError;
use bdo_eval::finetune::{TuneObserver, TunePoint, TuneSettings, finetune};
use bdo_eval::fitted::{FittedHead, HeadKind};
use bdo_eval::outcome::HeadRequest;
use bdo_eval::predict::{Trusting, predict};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Asks to stop at the given look at it.
struct Watcher {
    looks: AtomicUsize,
    stop_at: usize,
}

impl Watcher {
    fn patient() -> Self {
        Self { looks: AtomicUsize::new(0), stop_at: usize::MAX }
    }
}

impl Observer for Watcher {
    fn stop_requested(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) + 1 >= self.stop_at
    }
}

impl TuneObserver for Watcher {}

fn request(dir: &Path, model: &Path, out: &str, head: HeadKind, target: &str) -> HeadRequest<TuneSettings> {
    HeadRequest {
        trusting: Trusting::default(),
        model: model.to_path_buf(),
        data: dir.join("c"),
        test_data: None,
        out: dir.join(out),
        settings: TuneSettings {
            target: target.into(),
            head,
            seeds: vec![0],
            epochs: 4,
            frames: 8,
            points: TunePoint::subset(2),
        },
    }
}

#[test]
fn the_loss_falls_and_predictions_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (path, frozen) = model(dir.path(), "m");
    let cohort = cohort(dir.path(), "c", 0..40);
    for (head, target, out) in [
        (HeadKind::Linear, "group", "linear"),
        (HeadKind::Attention, "group", "attention"),
        (HeadKind::Attention, "site", "classes"),
    ] {
        let request = request(dir.path(), &path, out, head, target);
        let found = finetune(&request, &Watcher::patient()).unwrap();
        let seed = &found.seeds[0];
        assert_eq!(seed.people, [24, 8, 8]);
        for tried in seed.tried.as_array().unwrap() {
            let losses: Vec<f64> = tried["losses"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            assert_eq!(losses.len(), 4);
            // Sites are dealt out at random: whether their loss falls in four epochs says nothing.
            assert!(losses[3] < losses[0] || target == "site", "{out}: {losses:?}");
        }
        let head = FittedHead::read(&request.out).unwrap();
        let said = predict(&request.out, &head, &cohort, Trusting::default(), &Silent).unwrap();
        for person in &seed.predictions {
            let scan = said.scans.iter().find(|s| s.row.subject == person.subject).unwrap();
            assert_eq!(scan.members[0], person.predicted);
            assert_eq!(person.predicted.len(), if target == "site" { 3 } else { 2 });
        }
        // Encoder and control moved; what nothing downstream reads did not. Whom it was tuned on is remembered.
        let tuned = bdo_model::weights::ModelDirectory::read(&request.out.join("seed0/model")).unwrap();
        let before = frozen.model.parameters();
        for moved in ["encoder.blocks.0.attn.qkv.weight", "encoder.embed.linear1.weight", "dynamics.control.weight"] {
            assert_ne!(tuned.parameters.0[moved], before.0[moved], "{moved}");
        }
        for kept in ["dynamics.log_rates", "decoder.linear2.weight", "dynamics.basis0"] {
            assert_eq!(tuned.parameters.0[kept], before.0[kept], "{kept}");
        }
        assert_eq!(tuned.config, small_config());
        assert!(tuned.people.subjects.is_superset(&head.members[0].train_people));
    }
}

#[test]
fn interrupted_anywhere_it_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = model(dir.path(), "m");
    cohort(dir.path(), "c", 0..40);
    finetune(&request(dir.path(), &path, "whole", HeadKind::Linear, "site"), &Watcher::patient()).unwrap();
    let read = |out: &str, file: &str| std::fs::read(dir.path().join(out).join(file)).unwrap();
    // Two steps an epoch (batch 16) or one (batch 32): these looks fall into every part of the run.
    for stop_at in [1, 2, 4, 7, 9, 11] {
        let out = format!("cut{stop_at}");
        let cut = request(dir.path(), &path, &out, HeadKind::Linear, "site");
        let stopped = finetune(&cut, &Watcher { looks: AtomicUsize::new(0), stop_at });
        assert!(matches!(stopped, Err(EvalError::Interrupted)), "stop at {stop_at}");
        finetune(&cut, &Watcher::patient()).unwrap();
        for file in ["seed0/model/model.safetensors", "head.safetensors", "result.json", "predictions.tsv"] {
            assert!(read(&out, file) == read("whole", file), "stopped at look {stop_at}: {file} differs");
        }
    }
}
