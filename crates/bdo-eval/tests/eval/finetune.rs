//! Fine-tuning begins with the frozen probe, learns, and an interrupted one ends with the same bytes.

use crate::fixture::{Silent, cohort, model, small_config, written};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::division::{Division, Scheme};
use bdo_data::target::Target;
use bdo_eval::comparison::run_task;
use bdo_eval::error::EvalError;
use bdo_eval::features::FeatureTable;
use bdo_eval::finetune::{HeadStart, TuneObserver, TunePoint, TuneSettings, finetune};
use bdo_eval::fitted::{FittedHead, HeadKind};
use bdo_eval::method::{FitOn, Prediction, Task};
use bdo_eval::outcome::HeadRequest;
use bdo_eval::predict::{Trusting, predict};
use bdo_eval::reference::ClosedForm;
use bdo_model::autocorrelation::Autocorrelation;
use bdo_model::config::ModelConfig;
use bdo_model::frozen::FrozenModel;
use bdo_model::init::initial_parameters;
use bdo_model::intake::MaskSettings;
use bdo_model::pooling::Pooling;
use bdo_model::weights::{TrainingNotes, TrainingPeople};
use bdo_train::ranks::Alone;
use burn::tensor::Device;
use std::path::Path;
use std::sync::Arc;
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
        device: Device::flex(),
        model: model.to_path_buf(),
        data: dir.join("c"),
        test_data: None,
        out: dir.join(out),
        settings: TuneSettings {
            target: target.into(),
            head,
            seeds: vec![0],
            epochs: 4,
            max_minutes: 0.0,
            points: TunePoint::subset(2),
            frames: 0,
            head_start: HeadStart::Probe,
        },
    }
}

/// What the closed-form row of the frozen mean control says of the test people of seed 0.
fn frozen_probe(frozen: &FrozenModel, cohort: &Cohort, target: &str) -> Vec<Prediction> {
    let table = FeatureTable::embed(frozen, cohort, Pooling::Mean, &Silent).unwrap();
    let method = ClosedForm::new("bdo-mean", Arc::new(table), "").of_pretrained();
    let label = Target::of(cohort.participants(), target).unwrap();
    let split = Division::of(cohort).unwrap().split(Some(target), Scheme::Random, 0).unwrap();
    let task = Task { cohort, split: &split, target: &label, seed: 0, fit_on: FitOn::Train };
    run_task(&method, &task, "", &[]).unwrap().outcome.predictions
}

/// Whatever the model (whole scans, a fingerprint, windows shorter than the scans) and the head: a training that never moves
/// says what the closed-form probe of the frozen model says, up to the rounding of f32.
#[test]
fn the_start_is_the_probe_of_the_frozen_model() {
    let dir = tempfile::tempdir().unwrap();
    let cohort = cohort(dir.path(), "c", 0..40);
    let with_fingerprint = ModelConfig { fingerprint: true, unit_regions: true, ..small_config() };
    let stretch = MaskSettings { frames: 6, stretch: 1.0, ..MaskSettings::default() };
    let notes = TrainingNotes {
        mask: stretch,
        autocorrelation: Autocorrelation { lag_seconds: 1.0, values: vec![1.0] },
        settings_blake3: String::new(),
        cohort_blake3: String::new(),
        seed: 0,
        steps: 0,
        validation_people: [].into(),
    };
    let models =
        [("plain", small_config(), None), ("print", with_fingerprint, None), ("windows", small_config(), Some(notes))];
    for (name, config, notes) in models {
        let path = dir.path().join(name);
        let parameters = initial_parameters(&config, 5);
        let windows = notes.is_some();
        let frozen = written(&path, config, parameters, (0.1, 1.5), TrainingPeople::default(), notes);
        assert_eq!(frozen.windows.longest_whole < 10, windows, "{name}");
        for (head, target) in [(HeadKind::Linear, "group"), (HeadKind::Attention, "group"), (HeadKind::Linear, "age")] {
            let out = format!("{name}-{target}-{head:?}");
            let mut request = request(dir.path(), &path, &out, head, target);
            let still = TunePoint { learning_rate: 0.0, least_learning_rate: 0.0, ..TunePoint::subset(1)[0] };
            request.settings.points = vec![still];
            let found = finetune(&request, &Alone, &Watcher::patient()).unwrap().unwrap();
            assert_eq!(found.seeds[0].tried[0]["epoch"], 0, "{out}");
            let said = frozen_probe(&frozen, &cohort, target);
            assert_eq!(found.seeds[0].predictions.len(), said.len());
            for (tuned, probe) in found.seeds[0].predictions.iter().zip(&said) {
                assert_eq!(tuned.subject, probe.subject);
                let limit = 1e-4 * probe.said().abs().max(1.0);
                assert!((tuned.said() - probe.said()).abs() < limit, "{out}: {} {}", tuned.said(), probe.said());
            }
            // Scans are cut for the tuned model as for the one it began with.
            assert_eq!(FrozenModel::read(&request.out.join("seed0/model")).unwrap().windows, frozen.windows);
        }
    }
}

#[test]
fn drawn_frames_are_seen_in_training_only_and_a_fresh_head_is_no_probe() {
    let dir = tempfile::tempdir().unwrap();
    let (path, frozen) = model(dir.path(), "m");
    let cohort = cohort(dir.path(), "c", 0..40);
    let still = TunePoint { learning_rate: 0.0, least_learning_rate: 0.0, ..TunePoint::subset(1)[0] };
    let run = |out: &str, frames: usize, head_start: HeadStart| {
        let mut request = request(dir.path(), &path, out, HeadKind::Linear, "age");
        request.settings = TuneSettings { points: vec![still], frames, head_start, ..request.settings };
        let found = finetune(&request, &Alone, &Watcher::patient()).unwrap().unwrap();
        let losses = found.seeds[0].tried[0]["losses"].clone();
        (found.seeds[0].predictions.iter().map(Prediction::said).collect::<Vec<_>>(), losses)
    };
    let probe: Vec<f64> = frozen_probe(&frozen, &cohort, "age").iter().map(Prediction::said).collect();
    let far = |said: &[f64]| said.iter().zip(&probe).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let (whole, whole_losses) = run("whole", 0, HeadStart::Probe);
    let (drawn, drawn_losses) = run("drawn", 4, HeadStart::Probe);
    // Nothing moves, so what is tested is the probe of whole scans either way; what was trained on is not.
    assert!(far(&whole) < 1e-3 && far(&drawn) < 1e-3, "{} {}", far(&whole), far(&drawn));
    assert_ne!(whole_losses, drawn_losses);
    let of_epochs = drawn_losses.as_array().unwrap();
    assert!(of_epochs.windows(2).any(|two| two[0] != two[1]), "other frames in every epoch: {of_epochs:?}");
    let (fresh, _) = run("fresh", 0, HeadStart::Fresh);
    assert!(far(&fresh) > 0.1, "{}", far(&fresh));
}

#[test]
fn the_loss_falls_and_predictions_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let (path, frozen) = model(dir.path(), "m");
    let cohort = cohort(dir.path(), "c", 0..40);
    let mut times_left = 0;
    for (head, target, out) in [
        (HeadKind::Linear, "group", "linear"),
        (HeadKind::Attention, "group", "attention"),
        (HeadKind::Attention, "site", "classes"),
        (HeadKind::Linear, "group", "fresh"),
    ] {
        let mut request = request(dir.path(), &path, out, head, target);
        if out == "fresh" {
            request.settings.head_start = HeadStart::Fresh;
            // Far enough that eight validation people can tell.
            request.settings.points = TunePoint::at_rates(&TunePoint::subset(1), &[3e-3]);
            request.settings.epochs = 40;
        }
        let found = finetune(&request, &Alone, &Watcher::patient()).unwrap().unwrap();
        let seed = &found.seeds[0];
        assert_eq!(seed.people, [24, 8, 8]);
        for tried in seed.tried.as_array().unwrap() {
            let losses: Vec<f64> = tried["losses"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            assert_eq!(losses.len(), request.settings.epochs);
            // Sites are dealt out at random: whether their loss falls in four epochs says nothing.
            assert!(losses.last() < losses.first() || target == "site", "{out}: {losses:?}");
        }
        let head = FittedHead::read(&request.out).unwrap();
        let said = predict(&request.out, &head, &cohort, (Trusting::default(), &Device::flex()), &Silent).unwrap();
        for person in &seed.predictions {
            let scan = said.scans.iter().find(|s| s.row.subject == person.subject).unwrap();
            assert_eq!(scan.members[0], person.predicted);
            assert_eq!(person.predicted.len(), if target == "site" { 3 } else { 2 });
        }
        // Encoder and control moved where the start was left; what nothing downstream reads did not. Whom it was tuned on is remembered.
        let left = head.members[0].chosen["epoch"] != 0;
        times_left += usize::from(left);
        let tuned = bdo_model::weights::ModelDirectory::read(&request.out.join("seed0/model")).unwrap();
        let before = frozen.model.parameters();
        for moved in ["encoder.blocks.0.attn.qkv.weight", "encoder.embed.linear1.weight", "dynamics.control.weight"] {
            assert_eq!(tuned.parameters.0[moved] != before.0[moved], left, "{out}: {moved}");
        }
        for kept in ["dynamics.log_rates", "decoder.linear2.weight", "dynamics.basis0"] {
            assert_eq!(tuned.parameters.0[kept], before.0[kept], "{kept}");
        }
        assert_eq!(tuned.config, small_config());
        assert!(tuned.people.subjects.is_superset(&head.members[0].train_people));
    }
    assert!(times_left > 0, "nothing was learned that validation people confirm");
}

#[test]
fn interrupted_anywhere_it_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = model(dir.path(), "m");
    cohort(dir.path(), "c", 0..40);
    finetune(&request(dir.path(), &path, "whole", HeadKind::Linear, "site"), &Alone, &Watcher::patient()).unwrap();
    let read = |out: &str, file: &str| std::fs::read(dir.path().join(out).join(file)).unwrap();
    // Two steps an epoch (batch 16) or one (batch 32): these looks fall into every part of the run.
    for stop_at in [1, 3, 5, 8, 10, 12] {
        let out = format!("cut{stop_at}");
        let cut = request(dir.path(), &path, &out, HeadKind::Linear, "site");
        let stopped = finetune(&cut, &Alone, &Watcher { looks: AtomicUsize::new(0), stop_at });
        assert!(matches!(stopped, Err(EvalError::Interrupted)), "stop at {stop_at}");
        finetune(&cut, &Alone, &Watcher::patient()).unwrap();
        for file in ["seed0/model/model.safetensors", "head.safetensors", "result.json", "predictions.tsv"] {
            assert!(read(&out, file) == read("whole", file), "stopped at look {stop_at}: {file} differs");
        }
    }
}
