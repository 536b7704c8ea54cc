//! A run that is killed, damaged or interrupted ends with the same bytes as one that was left alone.

use std::path::Path;
use std::time::{Duration, Instant};

use bdo_data::random::{below, stream};

use crate::program::{
    Killed, bytes, ended_before_kill, full_torture, interrupted, killed_and_resumed, names, run, run_json, torture,
    transcript,
};

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
    let command = |name: &str| format!("pretrain --data c --out {name} {SMALL} --resume");
    let started = Instant::now();
    run_json(dir.path(), &format!("{} --threads 1", command("whole")));
    let longest = started.elapsed();
    let expected = outcome(&dir.path().join("whole"));
    let kills = if full_torture() { 1000 } else { 20 };
    let Killed { landed, amid, runs } =
        killed_and_resumed(dir.path(), "training kill", &command, (kills, longest), &|run| {
            assert!(outcome(run) == expected, "{}: after kills the bytes differ", run.display());
        });
    println!(
        "COUNTED: {landed} kills of training in {runs} runs, {amid} of them with a checkpoint to go on from, all with the same bytes"
    );
    assert!(amid > landed / 10, "only {amid} of {landed} kills came after a checkpoint");
}

/// The lines of a journal that say what was done: steps and decisions on the length, without what a clock measured.
fn done(run: &Path) -> (Vec<String>, Vec<String>) {
    let text = std::fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    let (mut steps, mut plans) = (vec![], vec![]);
    // A kill may cut the last line off.
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        match line["kind"].as_str().unwrap() {
            "plan" => plans.push(line.to_string()),
            "step" => steps
                .push(format!("{} {} {} {}", line["step"], line["loss"], line["learning_rate"], line["gradient_norm"])),
            _ => {}
        }
    }
    (steps, plans)
}

#[test]
fn a_timed_run_killed_and_resumed_repeats_what_it_did_and_ends_annealed_in_time() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    // Checkpoints are rare, so that a kill loses steps and decisions, which must come again.
    let timed = SMALL
        .replace("--set train.epochs=8", "--max-minutes 0.1")
        .replace("checkpoint_steps=3", "checkpoint_steps=150");
    let (kills, mut landed, mut round) = (torture(20, 2), 0, 0u64);
    let (mut lost_steps, mut lost_plans) = (0, 0);
    while landed < kills {
        let out = format!("timed-{round}");
        let arguments = format!("pretrain --data c --out {out} {timed} --resume");
        let moment = Duration::from_millis(1500 + below(&mut stream("timed kill", &[round]), 4000));
        round += 1;
        assert!(round < 20 * kills as u64, "only {landed} of {round} kills landed before the end");
        let folder = dir.path().join(&out);
        if ended_before_kill(dir.path(), &arguments, moment).is_some() || done(&folder).1.is_empty() {
            continue;
        }
        landed += 1;
        let (steps, plans) = done(&folder);
        let checkpoints = folder.join("checkpoints");
        let saved = if checkpoints.is_dir() { names(&checkpoints) } else { vec![] };
        let saved = saved.into_iter().rfind(|name| name.starts_with("step-"));
        let from: usize = saved.map_or(0, |name| name.rsplit('-').next().unwrap().parse().unwrap());
        let summary = run_json(dir.path(), &arguments);
        let (again, decided) = done(&folder);
        assert!(again.starts_with(&steps), "a step before the kill is another one after it");
        assert!(decided.starts_with(&plans), "a decision before the kill is another one after it");
        lost_steps += steps.len().saturating_sub(from);
        lost_plans += plans.iter().filter(|plan| plan_step(plan) > from as u64).count();
        assert_eq!(Some(again.len() as u64), summary["steps"].as_u64(), "{summary}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
    assert!(lost_steps > 0, "no kill cost a step");
    println!(
        "COUNTED: {landed} kills of timed runs, {lost_steps} steps and {lost_plans} decisions taken again as they were"
    );

    let summary =
        run_json(dir.path(), &format!("pretrain --data c --out whole {timed}").replace("minutes 0.1", "minutes 0.2"));
    let whole = dir.path().join("whole");
    let seconds = summary["seconds"].as_f64().unwrap();
    assert!((0.95..=1.05).contains(&(seconds / 12.0)), "{seconds} of 12 seconds");
    let (steps, plans) = done(&whole);
    let rates: Vec<f64> = steps.iter().map(|line| line.split(' ').nth_back(1).unwrap().parse().unwrap()).collect();
    let (largest, last) = (rates.iter().copied().fold(0.0, f64::max), rates[rates.len() - 1]);
    assert!(last < 0.15 * largest, "the learning rate ends at {last} after {largest}");
    assert!(plans.len() > 1, "the length was looked at once only");
    // With all decisions in its journal, a run that lost every checkpoint ends in the same bytes.
    let weights = |run: &Path| -> Vec<(String, Vec<u8>)> {
        outcome(run).into_iter().filter(|(name, _)| name.ends_with("safetensors") || name == "model").collect()
    };
    let expected = weights(&whole);
    assert!(expected.len() > 2);
    std::fs::remove_dir_all(whole.join("checkpoints")).unwrap();
    run_json(
        dir.path(),
        &format!("pretrain --data c --out whole {timed} --resume").replace("minutes 0.1", "minutes 0.2"),
    );
    assert!(weights(&whole) == expected, "replayed from its journal, a timed run is another one");
    assert_eq!(done(&whole), (steps, plans));
}

fn plan_step(plan: &str) -> u64 {
    serde_json::from_str::<serde_json::Value>(plan).unwrap()["step"].as_u64().unwrap()
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

#[test]
fn an_interrupted_run_goes_on_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let long = SMALL.replace("train.epochs=8", "train.epochs=60").replace("checkpoint_steps=3", "checkpoint_steps=0");
    run_json(dir.path(), &format!("pretrain --data c --out whole {long}"));
    for (name, signal) in [
        ("term", rustix::process::Signal::TERM),
        ("int", rustix::process::Signal::INT),
        ("usr1", rustix::process::Signal::USR1),
    ] {
        // The journal appears after the signals are listened to.
        let folder = dir.path().join(name);
        let output = interrupted(
            dir.path(),
            &format!("pretrain --data c --out {name} {long}"),
            signal,
            || std::fs::metadata(folder.join("journal.jsonl")).is_ok_and(|m| m.len() > 0),
            || std::fs::remove_dir_all(&folder).unwrap(),
        );
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("interrupted at step") && error.contains("--resume"), "{error}");
        run_json(dir.path(), &format!("pretrain --data c --out {name} {long} --resume"));
        assert!(outcome(&dir.path().join(name)) == outcome(&dir.path().join("whole")), "{name}");
    }
}

#[test]
fn runs_and_models_are_described_and_evaluated() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    run_json(dir.path(), &format!("pretrain --data c --out r {SMALL}"));
    let described = run_json(dir.path(), "inspect r");
    assert_eq!((described["kind"].as_str(), described["plan"]["total_steps"].as_u64()), (Some("run"), Some(40)));
    assert_eq!(described["identity"]["settings"]["train"]["epochs"], 8.0);
    let model = run_json(dir.path(), "inspect r/model");
    assert_eq!((model["kind"].as_str(), model["training_people"].as_u64()), (Some("model"), Some(20)));
    let scores = run_json(
        dir.path(),
        "evaluate --model r/model --data c --mask-ratio 0.5 --mask-ratio 0.75 --people unseen --quiet",
    );
    let results = scores["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result["scans"], 4, "the 20 training people are left out");
        for name in ["model", "interpolation", "hold", "mean", "kriging"] {
            assert!(result["scores"][name]["mse"].as_f64().unwrap() > 0.0, "{name}");
        }
        let mse = |name: &str| result["scores"][name]["mse"].as_f64().unwrap();
        assert!(mse("kriging") < mse("hold"), "the best linear predictor must beat holding: {result}");
        let loss = &result["loss"];
        let parts = ["reconstruction", "latent", "energy"].map(|term| loss[term].as_f64().unwrap());
        assert!((parts.iter().sum::<f64>() - loss["total"].as_f64().unwrap()).abs() < 1e-5, "{loss}");
    }
    let scans = |people: &str, more: &str| {
        let found =
            run_json(dir.path(), &format!("evaluate --model r/model --data c --people {people} {more} --quiet"));
        let results = found["results"].as_array().unwrap().clone();
        (results.len(), results[0]["scans"].as_u64().unwrap())
    };
    assert_eq!((scans("test", ""), scans("validation", "")), ((1, 2), (1, 2)));
    assert_eq!(scans("all", "--other-timings"), (4, 24));
}

#[test]
fn a_sweep_scores_each_value_and_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 40 --regions 8 --frames 60 --sites 1 --missing-labels 0");
    let sweep = |vary: &str| {
        let small = "--set model.width=16 --set model.blocks=1 --set train.epochs=1";
        run_json(dir.path(), &format!("sweep --data c --out s --vary {vary} --targets age --seeds 0,1 {small} --quiet"))
    };
    let found = sweep("mask.ratio=0.5,0.75");
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row["mse"].as_f64().unwrap() > 0.0 && row["kriging_mse"].as_f64().unwrap() > 0.0);
        for from in ["probes", "untrained", "fc"] {
            assert!(row[from]["age"].as_f64().is_some(), "{from}");
        }
        assert_ne!(row["probes"]["age"], row["untrained"]["age"]);
        // Eight of forty people are tested, and no run has seen them: the other 32 are trained and validated on.
        assert_eq!(row["test_scans"], 8.0);
        assert_eq!(row["runs"].as_array().unwrap().len(), 2);
    }
    assert_eq!(found["flags"], serde_json::json!([]));
    let trained = |run: &str| {
        let people = std::fs::read(dir.path().join("s").join(run).join("model/training_people.json")).unwrap();
        let people: serde_json::Value = serde_json::from_slice(&people).unwrap();
        people["subjects"].as_array().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(trained("run-0.5-0").len(), 24);
    assert_ne!(trained("run-0.5-0"), trained("run-0.5-1"), "every seed has people of its own");
    let figure = std::fs::read_to_string(dir.path().join("s/figure.svg")).unwrap();
    // Error, correlation, a probe and the same untrained, at two values each, and two marks of a legend.
    assert_eq!(figure.matches("<circle").count(), 10);
    let more = sweep("mask.ratio=0.5,0.75,0.9");
    assert_eq!(more["rows"][0], rows[0]);
    assert_eq!(more["rows"].as_array().unwrap().len(), 3);
}

#[test]
fn a_comparison_pre_trains_for_every_split_and_never_on_its_test_people() {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 40 --regions 8 --frames 60 --sites 1 --missing-labels 0");
    let small = "--set model.width=16 --set model.blocks=1 --pretrain-minutes 0.02 --bootstraps 20 --permutations 19";
    let found = run_json(
        dir.path(),
        &format!(
            "compare --data c --targets sex --seeds 0,1 --methods bdo-mean,bdo-probe --out r --no-audit {small} --quiet"
        ),
    );
    // Two rows of BDO, the same untrained, five that are always there; two seeds.
    assert_eq!(found["results"], 18);
    let rows = found["summary"]["rows"].as_array().unwrap();
    for name in ["mean", "probe"] {
        let row = rows.iter().find(|row| row["method"] == format!("bdo-{name}")).unwrap();
        assert_eq!(row["further"][0]["row"], format!("bdo-untrained-{name}"));
    }
    let splits: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("r/splits.json")).unwrap()).unwrap();
    for split in splits["splits"].as_array().unwrap() {
        let hash = split["blake3"].as_str().unwrap();
        let people = dir.path().join("r/pretraining").join(&hash[..16]).join("model/training_people.json");
        let trained = std::fs::read_to_string(people).unwrap();
        let hashes = |part: &str| -> Vec<String> {
            let list = split[part].as_array().unwrap_or_else(|| panic!("{split}"));
            list.iter().map(|s| bdo_model::weights::TrainingPeople::subject_hash(s.as_str().unwrap())).collect()
        };
        assert!(hashes("train").iter().all(|hash| trained.contains(hash)));
        assert!(hashes("test").iter().all(|hash| !trained.contains(hash)));
    }
    // A given model has its twin too, with a readout of its own, and coupling says what it holds.
    let hash = splits["splits"][0]["blake3"].as_str().unwrap();
    let model = format!("r/pretraining/{}/model", &hash[..16]);
    let given = |out: &str| {
        let few = "--bootstraps 20 --permutations 19 --no-audit";
        transcript(
            dir.path(),
            &format!("compare --data c --targets sex --model {model} --methods bdo-coupling --out {out} {few}"),
        )
    };
    let said = given("g");
    assert!(said.contains("| bdo-untrained-coupling [1] |") && said.contains("\n[1] Not the control alone"), "{said}");
    let page = std::fs::read_to_string(dir.path().join("g/report.html")).unwrap();
    assert!(page.contains("bdo-coupling [1]") && page.contains("[1] Not the control alone"));
    let twin = std::fs::read_dir(dir.path().join("g/untrained")).unwrap().next().unwrap().unwrap().path();
    let read = |folder: &Path| bdo_model::weights::ModelDirectory::read(folder).unwrap();
    let (trained, untrained) = (read(&dir.path().join(&model)), read(&twin));
    assert_eq!(untrained.parameters, bdo_model::init::initial_parameters(&trained.config, trained.notes.unwrap().seed));
    assert_eq!((untrained.preprocessor, untrained.people), (trained.preprocessor, trained.people));
    assert!(untrained.parameters != trained.parameters && untrained.notes.unwrap().steps == 0);
    std::fs::remove_file(dir.path().join(&model).join("training.json")).unwrap();
    let said = given("h");
    assert!(said.contains("left out: bdo-untrained-coupling: the model does not record the seed"), "{said}");
}

#[test]
fn a_run_that_does_not_settle_goes_back_to_its_checkpoint_and_ends_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    // Steps of this length throw every parameter out of range: losses that are not finite, again and again.
    let wild = "--set train.learning_rate=1e30 --set train.learning_rate_start=1e30 --set train.epochs=200";
    let output = run(dir.path(), &format!("pretrain --data c --out r {} {wild}", SMALL.replace("--quiet", "")));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("was skipped") && error.contains("training does not settle"), "{error}");
    assert!(error.contains("returns to") || error.contains("back to"), "a rollback is said: {error}");
    // Of a sweep it is one value without a score, with the reason.
    let rates = "train.learning_rate=1e-3,1e30+train.learning_rate_start=1e-4,1e30";
    let swept = run_json(dir.path(), &format!("sweep --data c --out s --vary {rates} {SMALL} --set train.epochs=30"));
    let flag = swept["flags"][0].as_str().unwrap();
    assert!(flag.starts_with("no score of train.learning_rate = 1e30") && flag.contains("does not settle"), "{flag}");
    assert!(swept["rows"][0]["mse"].is_f64() && swept["rows"][1]["mse"].is_null(), "{swept}");
}

/// Before the latent target enters, a run without the reconstruction has the energy of the control alone; the larger loss after that
/// is no spike.
#[test]
fn a_run_on_the_latent_target_alone_skips_nothing_when_the_target_enters() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let alone =
        "--set loss.reconstruction_weight=0 --set train.epochs=40 --set train.tau_start=0.8 --set train.tau_warmup=0.1";
    run_json(dir.path(), &format!("pretrain --data c --out r {SMALL} {alone}"));
    let journal = std::fs::read_to_string(dir.path().join("r/journal.jsonl")).unwrap();
    let steps: Vec<serde_json::Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<_> = steps.iter().filter(|line| line["kind"] == "step").collect();
    let loss = |k: usize| steps[k]["loss"]["total"].as_f64().unwrap();
    let begun = steps.iter().position(|step| step["tau"].as_f64().unwrap() > 0.0).unwrap();
    assert!(begun > 50 && loss(steps.len() - 1) > 5.0 * loss(begun - 1), "{begun} of {} steps", steps.len());
    assert!(steps.iter().all(|step| step["skipped"].is_null()), "{journal}");
}
