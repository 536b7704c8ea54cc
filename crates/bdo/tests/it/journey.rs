//! A newcomer's way through the program with data that do not fit together: two studies with the same IDs, another atlas, scans
//! at half the rate, a label of three classes, five people. Nothing may be wrong silently.

use std::path::Path;

use crate::program::{run, run_json, transcript};

const SMALL: &str = "--set model.width=16 --set model.blocks=1 --set model.heads=1 --set model.basis_count=4 \
                     --set mask.frames=24 --set train.epochs=2 --set train.batch_size=8 --quiet";

/// The lines of stdout and stderr, and the exit code.
fn say(folder: &Path, arguments: &str) -> String {
    transcript(folder, arguments)
}

/// A folder of tables without region names, one per person.
fn numbered(folder: &Path, name: &str, people: std::ops::RangeInclusive<usize>, regions: usize) {
    std::fs::create_dir_all(folder.join(name)).unwrap();
    for person in people {
        let row = |t: usize| -> String {
            let value = |r: usize| format!("{:.4}", ((t * (r + 2) + person * 7) as f64 * 0.37).sin() + 0.01 * t as f64);
            (0..regions).map(value).collect::<Vec<_>>().join("\t") + "\n"
        };
        let text: String = (0..40).map(row).collect();
        std::fs::write(folder.join(format!("{name}/sub-{person:04}.tsv")), text).unwrap();
    }
}

#[test]
fn people_of_another_study_are_other_people() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    // Two studies that both count from sub-0001, with the same regions.
    run_json(at, "simulate a --subjects 60 --regions 12 --frames 40");
    run_json(at, "simulate b --subjects 60 --regions 12 --frames 40 --seed 7");
    run_json(at, &format!("pretrain --data a --out run {SMALL}"));
    let found = run_json(at, "evaluate --model run/model --data b");
    assert_eq!(found["results"][0]["scans"], 60, "nobody of the other study was trained on");
    let said = say(at, "evaluate --model run/model --data b");
    assert!(said.contains("people have the ID of somebody trained on"), "{said}");
    let same = run_json(at, "evaluate --model run/model --data b --same-people");
    assert!(same["results"][0]["scans"].as_u64() < Some(60));

    run_json(at, "probe --model run/model --data a --target age --seeds 0 --epochs 2 --out head");
    let other = run_json(at, "predict --head head --data b --out b.tsv");
    assert_eq!((other["seen_by_head"].as_u64(), other["seen_by_model"].as_u64()), (Some(0), Some(0)));
    assert!(other["namesakes"].as_u64() > Some(0));
    // Those it was fitted on are not in the headline.
    let own = run_json(at, "predict --head head --data a --out a.tsv");
    let (unseen, seen) = (&own["score"]["people"], &own["score_of_people_trained_on"]["people"]);
    assert_eq!(seen.as_u64(), own["seen_by_head"].as_u64());
    let labelled = |study: &str| {
        let table = std::fs::read_to_string(at.join(study).join("participants.tsv")).unwrap();
        let mut rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let column = rows.next().unwrap().iter().position(|name| *name == "age").unwrap();
        rows.filter(|row| row[column] != "n/a").count() as u64
    };
    assert_eq!(unseen.as_u64().unwrap() + seen.as_u64().unwrap(), labelled("a"));
    let held = run_json(at, "infer conformal --head head --data b --out p.json --level 0.8 --splits 3");
    assert_eq!(held["people"], labelled("b"), "{held}");

    let said = say(at, "merge a b both");
    assert!(
        said.contains("sub-0001 in both") && said.contains("hint: IDs of different studies get a prefix"),
        "{said}"
    );
    let both = run_json(at, "merge a b both --prefix a,b");
    assert_eq!((both["scans"].as_u64(), both["subjects"].as_u64()), (Some(120), Some(120)));
    assert!(run(at, "inspect both --verify").status.success());
    let table = std::fs::read_to_string(at.join("both/participants.tsv")).unwrap();
    assert!(table.contains("sub-a0001\t") && table.contains("sub-b0001\t"), "{table}");
    // The scans of the first study are recognised under their new names, those of the second are new.
    let found = run_json(at, "evaluate --model run/model --data both --people unseen");
    let (trained, scored) = (run_json(at, "inspect run/model"), found["results"][0]["scans"].as_u64().unwrap());
    assert_eq!(scored, 120 - trained["training_people"].as_u64().unwrap());
}

#[test]
fn scans_outside_what_a_head_knows_are_flagged_and_refused_when_strict() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_json(at, "simulate a --subjects 60 --regions 12 --frames 40 --tr 2");
    run_json(at, "simulate slow --subjects 6 --regions 12 --frames 40 --tr 4 --seed 3");
    run_json(at, &format!("pretrain --data a --out run {SMALL}"));
    run_json(at, "probe --model run/model --data a --target age --seeds 0 --epochs 2 --out head");
    run_json(at, "infer conformal --head head --data a --out p.json --level 0.8 --splits 3");
    let usual = run_json(at, "predict --head head --data a --out a.tsv --strict");
    assert_eq!(usual["outside"].as_array().unwrap().len(), 0, "{usual}");
    let said = say(at, "predict --head head --data slow --conformal p.json --out slow.tsv");
    assert!(said.contains("warning: 6 scans lie outside what the head knows"), "{said}");
    assert!(said.contains("repetition time 4.000 s, known are 1.600 to 2.500 s"), "{said}");
    assert!(said.contains("do not keep their promise of 80 %"), "{said}");
    let table = std::fs::read_to_string(at.join("slow.tsv")).unwrap();
    assert_eq!(table.matches("\toutside\t").count(), 6, "{table}");
    let refused = say(at, "predict --head head --data slow --out strict.tsv --strict");
    assert!(
        refused.starts_with("exit 2\nerror: --strict: expected scans like those the head knows, found 6 outside"),
        "{refused}"
    );
    assert!(!at.join("strict.tsv").exists());
    let said = say(at, "embed --model run/model --data slow --out slow.parquet");
    assert!(said.contains("warning: 6 scans lie outside what the model knows"), "{said}");
    let features = run_json(at, "embed --model run/model --data slow --out f.tsv");
    assert_eq!(features["outside"].as_array().unwrap().len(), 6);
    let text = std::fs::read_to_string(at.join("f.tsv")).unwrap();
    assert!(text.lines().next().unwrap().ends_with("\ttrust") && text.matches("\toutside\n").count() == 6);
    assert!(say(at, "embed --model run/model --data slow --out g.tsv --strict").starts_with("exit 2\n"));
}

#[test]
fn numbers_of_regions_are_no_names() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    numbered(at, "tables", 1..=24, 6);
    numbered(at, "others", 1..=4, 9);
    numbered(at, "same", 101..=104, 6);
    for name in ["tables", "others", "same"] {
        run_json(at, &format!("ingest {name} {name}-c --tr 2 --format series"));
    }
    run_json(at, &format!("pretrain --data tables-c --out run {SMALL}"));
    run_json(at, "embed --model run/model --data tables-c --out own.tsv");
    let refused = say(at, "embed --model run/model --data others-c --out x.tsv");
    assert!(refused.starts_with("exit 2\n"), "{refused}");
    assert!(
        refused.contains("expected the 6 numbered regions of the cohort the model was trained on, found 9"),
        "{refused}"
    );
    let refused = say(at, "embed --model run/model --data same-c --out x.tsv");
    assert!(refused.starts_with("exit 2\n") && refused.contains("--same-atlas"), "{refused}");
    run_json(at, "embed --model run/model --data same-c --out x.tsv --same-atlas");
}

#[test]
fn three_classes_are_a_dash_where_a_method_cannot_and_few_people_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    numbered(at, "tables", 1..=36, 6);
    let row = |i: usize| format!("sub-{i:04}\t{}\t{}\n", ["a", "b", "c"][i % 3], 20 + i);
    let rows = (1..=36).map(row).collect::<Vec<_>>().concat();
    std::fs::write(at.join("p.tsv"), format!("participant_id\tgroup\tage\n{rows}")).unwrap();
    run_json(at, "ingest tables c --tr 2 --format series --participants p.tsv");
    let few = "--bootstraps 50 --permutations 49 --seeds 0 --no-audit --quiet";
    let found = run_json(
        at,
        &format!("compare --data c --targets group,age --methods fc,braingnn --baseline-epochs 1 --out cmp {few}"),
    );
    let rows = found["summary"]["rows"].as_array().unwrap();
    let row =
        |method: &str, target: &str| rows.iter().find(|r| r["method"] == method && r["target"] == target).unwrap();
    assert!(row("fc", "group")["cells"].as_array().unwrap().len() > 3, "three classes work in closed form");
    assert_eq!(row("braingnn", "group")["cells"].as_array().unwrap().len(), 0);
    let flag = row("braingnn", "group")["flags"][0].as_str().unwrap();
    assert!(flag.starts_with("no result: label \"group\": expected two classes"), "{flag}");
    assert!(!row("braingnn", "age")["cells"].as_array().unwrap().is_empty(), "the other label goes on");
    let said = row("fc", "age")["flags"][0].as_str().unwrap();
    assert!(said.starts_with("only ") && said.contains("people were tested"), "{said}");
    let interval = &row("fc", "age")["interval"];
    assert!(interval["high"].as_f64().unwrap() - interval["low"].as_f64().unwrap() > 0.5, "{interval}");
    let table = std::fs::read_to_string(at.join("cmp/table.md")).unwrap();
    assert!(table.contains("| braingnn | - | - |"), "{table}");
}

#[test]
fn what_is_refused_does_not_stand_in_the_way_and_advice_helps() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_json(at, "simulate c --subjects 40 --regions 8 --frames 30");
    run_json(at, &format!("pretrain --data c --out run {SMALL}"));
    // Refused after its folder was made: nobody is neither trained nor validated on.
    run_json(at, "simulate few --subjects 3 --regions 8 --frames 30 --seed 5");
    let refused = say(at, "infer reconstruct --model run/model --data few --out rec --people validation");
    assert!(refused.starts_with("exit 2\n"), "{refused}");
    run_json(at, "infer reconstruct --model run/model --data few --out rec --people all");
    let said = say(at, "embed --model run --data c --out f.tsv");
    assert!(said.contains("expected a model directory, found a run; its model is run/model"), "{said}");
    let said = say(at, "embed --model run/model --data c --out nowhere/f.tsv");
    assert!(said.starts_with("exit 2\n") && said.contains("found no folder nowhere"), "{said}");
    let said = say(at, "pretrain --data c --out r --set nonsense=1");
    assert!(said.contains("the keys are") && said.contains("train.max_minutes"), "{said}");
    let said = say(at, "inspect c --quiet");
    assert!(said.contains("40 scans") || said.lines().count() > 2, "{said}");
    // One model has one hash, however its features are pooled.
    let mean = run_json(at, "embed --model run/model --data c --out mean.tsv");
    let coupling = run_json(at, "embed --model run/model --data c --pooling coupling --out coupling.tsv");
    assert_eq!(mean["model_blake3"], coupling["model_blake3"]);
    // A weight that was changed to another number is noticed.
    let weights = at.join("run/model/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    std::fs::remove_file(&weights).unwrap();
    std::fs::write(&weights, bytes).unwrap();
    let said = say(at, "embed --model run/model --data c --out f.tsv");
    assert!(said.starts_with("exit 2\n") && said.contains("changed since it was written"), "{said}");
}

#[test]
fn a_head_is_explained_with_its_checks() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_json(at, "simulate c --subjects 60 --regions 12 --frames 40");
    run_json(at, &format!("pretrain --data c --out run {SMALL}"));
    run_json(at, "probe --model run/model --data c --target age --seeds 0 --head ridge --pooling coupling --out exact");
    let found = run_json(at, "explain --head exact --data c --out why --scans 30 --shuffles 5");
    assert_eq!(found["method"], "exact");
    assert!(found["incompleteness"].as_f64().unwrap() < 1e-6, "{found}");
    let shares: f64 = found["regions"].as_array().unwrap().iter().map(|r| r["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{shares}");
    run_json(at, "probe --model run/model --data c --target age --seeds 0 --epochs 2 --out mean");
    let found = run_json(at, "explain --head mean --data c --out why-mean --scans 6 --shuffles 2 --steps 128");
    assert_eq!(found["method"], "integrated gradients");
    // The integral is a sum over 128 points; with 32 it is off by four times as much.
    assert!(found["incompleteness"].as_f64().unwrap() < 0.1, "{}", found["incompleteness"]);
    for file in ["why/regions.tsv", "why/networks.tsv", "why/report.html", "why-mean/explanation.json"] {
        assert!(at.join(file).is_file(), "{file}");
    }
}
