//! Work cut into parts for job arrays: the parts joined have the bytes of one process.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{SMALL, bdo, bytes, names, run, run_json};

/// A cohort whose scans differ in length, and a model of it.
fn prepared(folder: &Path) {
    run_json(folder, "simulate a --subjects 13 --regions 12 --frames 40 --sites 2 --missing-labels 0");
    run_json(folder, "simulate b --subjects 10 --regions 12 --frames 61 --sites 2 --missing-labels 0 --seed 3");
    run_json(folder, "merge a b c --prefix a,b --different-recipes");
    run_json(folder, &format!("pretrain --data c --out run {SMALL}"));
}

#[test]
fn a_feature_table_in_parts_joins_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    prepared(dir.path());
    let at = |name: &str| dir.path().join(name);
    for (format, beside) in [("parquet", vec![]), ("tsv", vec!["json"]), ("npy", vec!["json", "ids.tsv"])] {
        for parts in [3, 40] {
            let embed = |out: &str, more: &str| {
                run_json(dir.path(), &format!("embed --model run/model --data c --out {out}.{format} {more} --quiet"));
            };
            embed("whole", "");
            let mut sources = Vec::new();
            for part in (1..=parts).rev() {
                embed(&format!("part-{part}"), &format!("--shard {part}/{parts}"));
                sources.push(format!("part-{part}.{format}"));
            }
            run_json(dir.path(), &format!("merge {} joined.{format}", sources.join(" ")));
            for ending in beside.iter().chain([&format]) {
                let read = |name: &str| std::fs::read(at(&format!("{name}.{ending}"))).unwrap();
                assert!(read("joined") == read("whole"), "{parts} parts of a {format}: {ending} differs");
            }
        }
    }
    let refused = |sources: &str, named: &str| {
        let output = run(dir.path(), &format!("merge {sources} refused.parquet"));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(named) && !at("refused.parquet").exists(), "{error}");
    };
    refused("part-1.parquet part-2.parquet", "no part 3/40");
    refused("part-1.parquet part-1.parquet", "part 1/40, as part-1.parquet");
    refused("whole.parquet part-1.parquet", "expected a part made with --shard, found a whole table");
    run_json(dir.path(), "embed --model run/model --data a --out other.parquet --shard 2/40 --quiet");
    refused("part-1.parquet other.parquet", "other.parquet: expected a part of the same table as part-1.parquet");
}

#[test]
fn an_inference_in_parts_joins_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    prepared(dir.path());
    for verb in ["reconstruct", "trajectory"] {
        let infer = |out: &str, more: &str| {
            run_json(dir.path(), &format!("infer {verb} --model run/model --data c --out {out} {more} --quiet"));
        };
        let whole = format!("{verb}-whole");
        infer(&whole, "");
        let parts: Vec<String> = (1..=3).map(|part| format!("{verb}-{part}")).collect();
        for (place, part) in parts.iter().enumerate() {
            infer(part, &format!("--shard {}/3", place + 1));
        }
        let joined = format!("{verb}-joined");
        run_json(dir.path(), &format!("merge {} {joined}", parts.join(" ")));
        let (mut expected, mut found) = (bytes(&dir.path().join(&whole)), bytes(&dir.path().join(&joined)));
        let facts = |folder: &mut std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
            let mut facts: serde_json::Value =
                serde_json::from_slice(&folder.remove(Path::new("inference.json")).unwrap()).unwrap();
            for own in ["seconds", "out"] {
                facts.as_object_mut().unwrap().remove(own);
            }
            facts
        };
        assert_eq!(facts(&mut found), facts(&mut expected), "{verb}");
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{verb}");
        for (name, bytes) in &expected {
            assert!(found[name] == *bytes, "{verb}: {} differs", name.display());
        }
        assert!(found.len() > 20, "tables of scans: {:?}", found.keys());
    }
    let scores = run(dir.path(), "infer check --model run/model --data c --out checks --shard 1/2");
    assert!(String::from_utf8_lossy(&scores.stderr).contains("--shard: expected an answer for each scan"));
}

#[test]
fn tasks_of_a_slurm_array_find_their_part() {
    let dir = tempfile::tempdir().unwrap();
    prepared(dir.path());
    let scored = |shard: &str, slurm: &[(&str, &str)]| {
        let mut command = bdo();
        let line = format!("evaluate --model run/model --data c --people all --shard {shard} --json --quiet");
        command.args(line.split_whitespace()).current_dir(dir.path()).envs(slurm.iter().copied());
        let output = command.output().unwrap();
        (output.status.code(), serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default())
    };
    let array = [("SLURM_ARRAY_TASK_ID", "11"), ("SLURM_ARRAY_TASK_MIN", "10"), ("SLURM_ARRAY_TASK_COUNT", "3")];
    let (code, found) = scored("auto", &array);
    assert_eq!((code, &found["shard"]), (Some(0), &serde_json::json!({"part": 2, "of": 3})));
    assert_eq!(found["results"], scored("2/3", &[]).1["results"]);
    let scans: u64 = (1..=3).map(|i| scored(&format!("{i}/3"), &[]).1["results"][0]["scans"].as_u64().unwrap()).sum();
    assert_eq!(scans, 23);
    assert_eq!(scored("auto", &[]).0, Some(2));
}

#[test]
fn processes_share_a_comparison_and_take_over_from_one_that_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    prepared(dir.path());
    let line = |out: &str, shard: &str| {
        format!(
            "compare --data c --targets age,sex --methods bdo-mean,bdo-finetune --finetune-epochs 3 --finetune-budget 1 \
             --pretrain-minutes 0 --seeds 0-2 --permutations 20 --bootstraps 20 --out {out} {SMALL} {shard}"
        )
    };
    run_json(dir.path(), &line("whole", ""));
    let start = |part: usize| {
        let mut command = bdo();
        command.args(line("shared", &format!("--shard {part}/3")).split_whitespace()).current_dir(dir.path());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (mut killed, others) = (start(2), [start(1), start(3)]);
    let patience = Instant::now() + Duration::from_mins(2);
    while !dir.path().join("shared/results/.leases").exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(700));
    killed.kill().unwrap();
    killed.wait().unwrap();
    for other in others {
        let output = other.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let timeless = |out: &str| -> serde_json::Value {
        let text = std::fs::read(dir.path().join(out).join("table.json")).unwrap();
        let mut rows = serde_json::from_slice::<serde_json::Value>(&text).unwrap()["summary"]["rows"].take();
        for row in rows.as_array_mut().unwrap() {
            row["wall_seconds"] = 0.into();
            row["own_mib"] = 0.into();
        }
        rows
    };
    assert_eq!(timeless("shared"), timeless("whole"));
    let done = |out: &str| -> Vec<String> {
        let methods = names(&dir.path().join(out).join("results")).into_iter().filter(|name| !name.starts_with('.'));
        methods.collect()
    };
    assert_eq!(done("shared"), done("whole"));
}
