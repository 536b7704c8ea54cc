//! BrainLM and Brain-JEPA as runs: pre-trained, killed, resumed, used.

use std::path::Path;
use std::time::Instant;

use crate::program::{Killed, bytes, interrupted, killed_and_resumed, names, run, run_json, torture, transcript};

const SMALL: &str = "--set train.epochs=4 --set train.batch_size=4 --set train.checkpoint_steps=3 \
                     --set train.keep_checkpoints=2 --quiet";

fn cohort(folder: &Path) {
    run_json(folder, "simulate c --subjects 20 --regions 10 --frames 70 --sites 1 --missing-labels 0");
}

/// Weights, optimiser and moving average at the end of a run.
fn outcome(run: &Path) -> Vec<(String, Vec<u8>)> {
    let last = names(&run.join("checkpoints")).into_iter().rfind(|name| name.starts_with("step-")).unwrap();
    let of = |folder: &str| bytes(&run.join(folder)).into_iter().map(|(path, b)| (path.display().to_string(), b));
    of(&format!("checkpoints/{last}")).chain(of("model")).collect()
}

#[test]
fn a_token_run_killed_at_random_moments_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    for kind in ["brainlm", "brainjepa"] {
        let arguments = format!("--data c --set model.kind={kind} {SMALL}");
        run_json(dir.path(), &format!("pretrain --out {kind} {arguments} --threads 2"));
        let expected = outcome(&dir.path().join(kind));
        let started = Instant::now();
        run_json(dir.path(), &format!("pretrain --out {kind}-one {arguments} --threads 1"));
        let longest = started.elapsed();
        assert!(outcome(&dir.path().join(format!("{kind}-one"))) == expected, "{kind}: one thread gave other bytes");
        let command = |name: &str| format!("pretrain --out {name} {arguments} --resume");
        let kills = torture(60, 6);
        let Killed { landed, amid, runs } =
            killed_and_resumed(dir.path(), &format!("{kind} kill"), &command, (kills, longest), &|run| {
                assert!(outcome(run) == expected, "{}: after kills the bytes differ", run.display());
                let steps = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
                let steps: Vec<serde_json::Value> =
                    steps.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                assert!(steps.iter().enumerate().all(|(i, line)| line["step"] == i), "{steps:?}");
            });
        println!(
            "COUNTED: {landed} kills of {kind} in {runs} runs, {amid} of them with a checkpoint to go on from, all with the same bytes"
        );
    }
}

#[test]
fn an_interrupted_token_run_goes_on_and_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let long = format!("--data c --set model.kind=brainlm {SMALL}")
        .replace("epochs=4", "epochs=12")
        .replace("checkpoint_steps=3", "checkpoint_steps=0");
    run_json(dir.path(), &format!("pretrain --out whole {long}"));
    let stopped = dir.path().join("stopped");
    let output = interrupted(
        dir.path(),
        &format!("pretrain --out stopped {long}"),
        rustix::process::Signal::TERM,
        || std::fs::metadata(stopped.join("journal.jsonl")).is_ok_and(|m| m.len() > 0),
        || std::fs::remove_dir_all(&stopped).unwrap(),
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("interrupted at step") && error.contains("--resume"), "{error}");
    let again = transcript(dir.path(), &format!("pretrain --out stopped {long}"));
    assert!(again.contains("exit 2") && again.contains("--resume"), "{again}");
    let changed = transcript(dir.path(), &format!("pretrain --out stopped {long} --resume --set train.warmup=0.5"));
    assert!(changed.contains("train.warmup: the run has 0.05, asked for 0.5"), "{changed}");
    // Without any key the configuration is that of the run.
    run_json(dir.path(), "pretrain --data c --out stopped --resume");
    assert!(outcome(&dir.path().join("stopped")) == outcome(&dir.path().join("whole")));
}

#[test]
fn a_token_model_is_described_probed_and_tuned() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let loud = SMALL.replace("--quiet", "");
    let made = run(
        dir.path(),
        &format!(
            "pretrain --data c --out r --set model.kind=brainlm --set loss.tau=0 {loud} --max-minutes 0.05 --json"
        ),
    );
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success() && said.contains("keys that brainlm has no use for: loss.tau"), "{said}");
    let model = run_json(dir.path(), "inspect r/model");
    assert_eq!((model["model_kind"].as_str(), model["windows"].as_u64()), (Some("brainlm"), Some(4)));
    assert!(model["training_people"].as_u64().unwrap() > 0);
    let described = run_json(dir.path(), "inspect r");
    assert_eq!(described["model_kind"], "brainlm");
    assert!(described["last_step"]["loss"]["total"].as_f64().unwrap().is_finite());
    let watched = run_json(dir.path(), "watch r --once");
    assert!(watched["steps"].as_u64().unwrap() > 0 && watched["loss"].as_f64().unwrap().is_finite(), "{watched}");
    run_json(dir.path(), "report r --out r.html");
    let page = std::fs::read_to_string(dir.path().join("r.html")).unwrap();
    assert!(page.contains("data-name=\"training-loss\"") && page.contains("BrainLM: A Foundation Model"));

    let probed = run_json(dir.path(), "baseline brainlm --data c --target age --out p --seeds 0 --model r/model");
    // Four of twenty people are tested; the model has seen four fifths of everybody.
    assert!(probed["seeds"][0]["test_people_pretrained_on"].as_u64().unwrap() > 0, "{probed}");
    let other = transcript(dir.path(), "baseline brainjepa --data c --target age --out q --seeds 0 --model r/model");
    assert!(other.contains("expected a model of brainjepa, found one of brainlm"), "{other}");
    let tuned = run_json(
        dir.path(),
        "baseline brainlm --data c --target sex --out t --seeds 0 --model r/model --finetune --finetune-epochs 2 \
         --finetune-budget 2",
    );
    assert!(tuned["summary"]["accuracy_percent"]["mean"].as_f64().unwrap().is_finite(), "{tuned}");
    assert_ne!(tuned["plan"]["tuning"], serde_json::Value::Null);
    let own = run_json(
        dir.path(),
        "baseline brainjepa --data c --target sex --out o --seeds 0 --epochs 1 --finetune \
                                    --finetune-epochs 1 --finetune-budget 1",
    );
    assert_eq!(own["seeds"][0]["test_people_pretrained_on"], 0);
}

#[test]
fn token_models_embed_and_say_what_they_cannot() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    for kind in ["brainlm", "brainjepa"] {
        run_json(dir.path(), &format!("pretrain --data c --out {kind} --set model.kind={kind} {SMALL}"));
        let model = format!("--model {kind}/model --data c");
        let made = run_json(dir.path(), &format!("embed {model} --out {kind}.tsv"));
        assert_eq!((made["scans"].as_u64(), made["width"].as_u64()), (Some(20), Some(192)), "{made}");
        let rows = |name: &str| {
            let text = std::fs::read_to_string(dir.path().join(name)).unwrap();
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        // Halves made apart are the whole, and people differ.
        for part in [1, 2] {
            run_json(dir.path(), &format!("embed {model} --out {kind}-{part}.tsv --shard {part}/2"));
        }
        let halves = [rows(&format!("{kind}-1.tsv")), rows(&format!("{kind}-2.tsv"))].concat();
        assert_eq!(halves, rows(&format!("{kind}.tsv")));
        let values = |row: &String| row.split('\t').rev().take(10).map(str::to_owned).collect::<Vec<_>>();
        assert_ne!(values(&halves[0]), values(&halves[1]));
        let pooled = transcript(dir.path(), &format!("embed {model} --out p.tsv --pooling log-covariance"));
        assert!(pooled.starts_with("exit 2") && pooled.contains("expected mean for"), "{pooled}");
        for verb in ["infer impute --out refused", "evaluate", "probe --target age --out refused"] {
            let said = transcript(dir.path(), &format!("{verb} {model}"));
            let expected = format!("expected a model of BDO, found one of {kind}");
            assert!(said.starts_with("exit 2") && said.contains(&expected) && said.contains("bdo embed"), "{said}");
        }
    }
}

#[test]
fn the_scaling_of_brain_jepa_is_that_of_its_authors_unless_series_are_centred() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let pretrain =
        |out: &str, more: &str| format!("pretrain --data c --out {out} --set model.kind=brainjepa {SMALL} {more}");
    run_json(dir.path(), &pretrain("own", ""));
    run_json(dir.path(), &pretrain("pooled", "--set model.scaling=pooled"));
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
    let contract = |run: &str| read(&format!("{run}/model/preprocessor_config.json"));
    assert!(contract("own").contains("\"scaling\": \"means\""), "{}", contract("own"));
    assert!(!contract("pooled").contains("scaling"), "{}", contract("pooled"));
    assert!(read("own/model/README.md").contains("scans are not centred"), "{}", read("own/model/README.md"));
    assert!(read("pooled/model/README.md").contains("centred on its mean"), "{}", read("pooled/model/README.md"));
    run_json(dir.path(), "report own --out own.html");
    let page = read("own.html");
    assert!(page.contains("scans are not centred") && !page.contains("Where series were centred before"));
    for name in ["own", "pooled"] {
        run_json(dir.path(), &format!("embed --model {name}/model --data c --out {name}.tsv"));
    }
    assert_ne!(read("own.tsv"), read("pooled.tsv"));

    // The same people, centred before.
    centred_series(dir.path(), "z", 0.7);
    let said = run(dir.path(), &pretrain("auto", "").replace("--data c", "--data z").replace("--quiet", ""));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.matches("scaled as BDO is, not by means over time").count(), 1, "{said}");
    assert!(!contract("auto").contains("scaling") && read("auto/model/README.md").contains("centred on its mean"));
    let asked = pretrain("asked", "--set model.scaling=means").replace("--data c", "--data z");
    let refused = transcript(dir.path(), &asked);
    assert!(refused.starts_with("exit 2") && refused.contains("model.scaling: expected auto or pooled"), "{refused}");
    assert!(refused.contains("found means; expected means over time whose inter-quartile range"), "{refused}");
}

/// A cohort of 20 people whose regions have only numbers.
fn centred_series(folder: &Path, name: &str, pace: f64) {
    let series = folder.join(format!("{name}-series"));
    std::fs::create_dir(&series).unwrap();
    let mut people = "participant_id\tsex\n".to_owned();
    for person in 0..20 {
        let mut text = String::new();
        for t in 0..70 {
            let value = |r: usize| ((t * (r + 2) + person) as f64 * pace).sin() - 0.02 * (t as f64 - 34.5);
            let line: Vec<String> = (0..10).map(|r| format!("{:.6}", value(r))).collect();
            text += &(line.join("\t") + "\n");
        }
        std::fs::write(series.join(format!("sub-{person:02}.tsv")), text).unwrap();
        people += &format!("sub-{person:02}\t{}\n", ["F", "M"][person % 2]);
    }
    let table = folder.join(format!("{name}.tsv"));
    std::fs::write(&table, people).unwrap();
    run_json(folder, &format!("ingest {name}-series {name} --tr 2 --participants {name}.tsv"));
}

#[test]
fn a_baseline_does_not_take_numbered_regions_of_another_study_for_its_own() {
    let dir = tempfile::tempdir().unwrap();
    centred_series(dir.path(), "z", 0.7);
    centred_series(dir.path(), "w", 0.9);
    run_json(dir.path(), &format!("pretrain --data z --out lm --set model.kind=brainlm {SMALL}"));
    let probe = "baseline brainlm --model lm/model --data w --target sex --seeds 0 --out probe --quiet";
    let refused = transcript(dir.path(), probe);
    assert!(refused.starts_with("exit 2") && refused.contains("or say --same-atlas"), "{refused}");
    let trusted = transcript(dir.path(), &format!("{probe} --same-atlas"));
    assert!(trusted.starts_with("exit 0"), "{trusted}");
    let own = transcript(dir.path(), &probe.replace("--data w", "--data z").replace("--out probe", "--out own"));
    assert!(own.starts_with("exit 0"), "{own}");
}

#[test]
fn rows_of_token_models_have_time_memory_and_parameters() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let table = run_json(
        dir.path(),
        "compare --data c --targets sex --seeds 0,1 --out o --bootstraps 20 --permutations 19 --no-audit --quiet \
         --methods braingnn,brainlm,brainjepa-finetune --baseline-epochs 3 --baseline-minutes 0.05 \
         --finetune-epochs 1 --finetune-budget 1",
    );
    for name in ["braingnn", "brainlm", "brainjepa-finetune", "fc"] {
        let rows = table["summary"]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["method"] == name).unwrap();
        assert!(row["wall_seconds"].as_f64().unwrap() > 0.0 && row["parameters"].as_u64().unwrap() > 0, "{row}");
        assert!(row["own_mib"].as_f64().unwrap() >= 0.0, "{row}");
        let cut = row["flags"].as_array().unwrap().iter().any(|f| f.as_str().unwrap().contains("the public code"));
        assert_eq!(cut, name != "fc", "{row}");
    }
    let markdown = std::fs::read_to_string(dir.path().join("o/table.md")).unwrap();
    assert!(markdown.contains("| trained | frozen | seconds | MiB | flags |"), "{markdown}");
    // Every pre-training is one run folder a method and split, and none has seen a test person.
    assert_eq!(names(&dir.path().join("o/pretraining")).len(), 4);
}

#[test]
fn trainings_of_equal_compute_cost_the_same_operations() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    // A network over ten regions is so small that a fair share of a token model would be thousands of epochs.
    for (out, methods, gflops) in [("o", "bdo-mean,brainlm,brainjepa", 60.0), ("n", "brainnettf", 0.5)] {
        let table = run_json(
            dir.path(),
            &format!(
                "compare --data c --targets sex --seeds 0 --out {out} --bootstraps 20 --permutations 19 --no-audit --quiet \
                 --methods {methods} --train-gflops {gflops}"
            ),
        );
        let rows = table["summary"]["rows"].as_array().unwrap();
        for row in rows.iter().filter(|row| row["method"].as_str().unwrap().starts_with("brain")) {
            let said: Vec<&str> = row["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()).collect();
            let spent = said.iter().find_map(|flag| flag.strip_suffix(" billion operations of training"));
            let spent: f64 = spent.unwrap_or_else(|| panic!("{said:?}")).parse().unwrap();
            // Whole epochs of a network, whole steps of sixteen scans of the others.
            assert!((spent / gflops - 1.0).abs() < 0.25, "{row}: {spent} of {gflops}");
        }
    }
    // BDO's own run: visits times what the bench counts for one.
    let run = names(&dir.path().join("o/pretraining")).into_iter().find(|name| !name.contains("brain")).unwrap();
    let record = std::fs::read_to_string(dir.path().join(format!("o/pretraining/{run}/run.json"))).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let epochs = record["identity"]["settings"]["train"]["epochs"].as_f64().unwrap();
    assert!(epochs > 1.0 && record["identity"]["settings"]["train"]["max_minutes"] == 0.0, "{record}");
    let markdown = std::fs::read_to_string(dir.path().join("o/table.md")).unwrap();
    assert!(markdown.contains("operations of pre-trainings and networks"), "{markdown}");
    let both = transcript(dir.path(), "compare --data c --targets sex --out p --train-gflops 1 --baseline-minutes 1");
    assert!(both.starts_with("exit 2") && both.contains("cannot be used with"), "{both}");
}

#[test]
fn oddities_of_public_codes_are_keys_and_unknown_ones_errors() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let baseline = |name: &str, out: &str, set: &str| {
        run_json(dir.path(), &format!("baseline {name} --data c --target sex --out {out} --epochs 1 --seeds 0 {set}"))
    };
    let plain = baseline("brainnetcnn", "a", "");
    let odd = baseline("brainnetcnn", "b", "--set model.activate_output=true --set model.dropout_when_predicting=true");
    assert_ne!(plain["seeds"][0]["validation"], odd["seeds"][0]["validation"]);
    assert_eq!(odd["plan"]["model"]["activate_output"], true);
    baseline("brainlm", "d", "--set model.attention_dropout=0.1");
    for (name, set) in
        [("braingnn", "model.activate_output=true"), ("brainlm", "model.depth=2"), ("brainjepa", "loss.tau=1")]
    {
        let said = transcript(dir.path(), &format!("baseline {name} --data c --target sex --out e --set {set}"));
        assert!(said.starts_with("exit 2") && !dir.path().join("e").exists(), "{said}");
    }
}

#[test]
fn efficiency_is_one_command_with_table_and_figure() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let found = run_json(dir.path(), "bench efficiency --data c --out e --batch 2 --steps 2");
    let rows = found["rows"].as_array().unwrap();
    let of = |i: usize, key: &str| rows[i][key].as_f64().unwrap();
    assert_eq!(rows.iter().map(|r| r["model"].as_str().unwrap()).collect::<Vec<_>>(), ["bdo", "brainlm", "brainjepa"]);
    for (i, row) in rows.iter().enumerate() {
        for key in ["train_step_ms", "embed_ms_per_scan", "train_peak_mib", "embed_peak_mib", "train_flops_per_scan"] {
            assert!(of(i, key) > 0.0, "{key} of {row}");
        }
    }
    // Sixty-four frames against ten regions by four windows.
    assert_eq!([of(0, "tokens"), of(1, "tokens"), of(2, "tokens")], [64.0, 40.0, 40.0]);
    assert_eq!(names(&dir.path().join("e")), ["efficiency.json", "efficiency.md", "efficiency.svg"]);
    let drawn = std::fs::read_to_string(dir.path().join("e/efficiency.svg")).unwrap();
    // Six quantities; three of them of two phases, each of three models.
    assert_eq!((drawn.matches(r#"class="chart""#).count(), drawn.matches(r#"font-size="11""#).count()), (6, 27));
    let page = run_json(dir.path(), "report e/efficiency.json --out p.html");
    assert_eq!((page["kinds"][0].as_str(), page["figures"].as_u64()), (Some("measurement"), Some(1)));
    let missing = transcript(dir.path(), "bench efficiency --out e");
    assert!(missing.contains("--data: expected a cohort"), "{missing}");
}
