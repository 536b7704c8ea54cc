//! A newcomer's way through the program with data that do not fit together: two studies with the same IDs, another atlas, scans
//! at half the rate, a label of three classes, five people, a closed pipe, a full disk. Nothing may be wrong silently, and
//! everything that is said is a snapshot.

use std::path::Path;
use std::process::Stdio;

use crate::program::{SMALL, SmallDisk, bdo, run, run_json, transcript};

/// Runs and compares all that is said with the snapshot of this name.
fn says(folder: &Path, name: &str, arguments: &str) {
    is_snapshot(name, arguments, &steady(&transcript(folder, arguments)));
}

/// The same where scores are said: processors round differently, so that only their places are compared.
fn says_scores(folder: &Path, name: &str, arguments: &str) {
    is_snapshot(name, arguments, &without_scores(&steady(&transcript(folder, arguments))));
}

fn is_snapshot(name: &str, arguments: &str, said: &str) {
    insta::assert_snapshot!(format!("journey-{name}"), format!("$ bdo {arguments}\n{said}"), arguments);
}

/// Without numbers that have decimals or a cell of a wide table for themselves (time, memory), and without what they are aligned by.
fn without_scores(said: &str) -> String {
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let is_wide = line.matches('|').count() > 10;
        let mut text = String::new();
        let words: Vec<&str> = line.split_whitespace().collect();
        for (i, word) in words.iter().enumerate() {
            let core = word.trim_matches(['(', ')', '[', ']', ',', ';', ':', '%', '*', '.']);
            let is_cell = is_wide && i > 0 && words[i - 1] == "|" && words.get(i + 1) == Some(&"|");
            let is_score = core.parse::<f64>().is_ok() && (is_cell || core.contains('.'));
            let shown = if is_score { word.replace(core, "[score]") } else { (*word).to_owned() };
            text += if text.is_empty() { &line[..indent] } else { " " };
            text += &shown;
        }
        text
    };
    said.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Without what a clock says, and without hashes, which follow from how a processor rounds.
fn steady(said: &str) -> String {
    let timed = |word: &str| word.parse::<f64>().is_ok() && word.contains('.');
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let kept = words.iter().enumerate().map(|(i, word)| {
            let hash = word.trim_matches([',', ';', '.', '(', ')']);
            if hash.len() == 64 && hash.bytes().all(|c| c.is_ascii_hexdigit()) {
                return word.replace(hash, "[hash]");
            }
            let unit = words.get(i + 1).is_some_and(|next| ["s", "s.", "s;", "min,", "min"].contains(next));
            if unit && timed(word) { "[time]".to_owned() } else { (*word).to_owned() }
        });
        kept.collect::<Vec<_>>().join(" ")
    };
    // Which file meets the end of a disk is chance.
    let file = |line: String| match (line.find("cannot write "), line.find(": the disk is full")) {
        (Some(from), Some(to)) => format!("{}cannot write [file]{}", &line[..from], &line[to..]),
        _ => line,
    };
    said.lines().map(|text| file(line(text))).collect::<Vec<_>>().join("\n")
}

/// A folder of tables without region names, one per person.
fn numbered(folder: &Path, name: &str, people: std::ops::RangeInclusive<usize>, regions: usize) {
    std::fs::create_dir_all(folder.join(name)).unwrap();
    for person in people {
        let row = |t: usize| -> String {
            let value = |r: usize| format!("{:.4}", ((t * (r + 2) + person * 7) as f64 * 0.37).sin() + 0.01 * t as f64);
            (0..regions).map(value).collect::<Vec<_>>().join("\t") + "\n"
        };
        let text: String = (0..70).map(row).collect();
        std::fs::write(folder.join(format!("{name}/sub-{person:04}.tsv")), text).unwrap();
    }
}

/// Line 3: people are identified by study and ID, or by a scan; line 4: unseen people first.
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
    says_scores(at, "equal-ids-evaluate", "evaluate --model run/model --data b");
    says_scores(at, "equal-ids-evaluate-same-people", "evaluate --model run/model --data b --same-people");
    says_scores(at, "equal-ids-embed", "embed --model run/model --data b --out b.parquet");
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
    says_scores(at, "equal-ids-predict", "predict --head head --data b --out b.tsv");
    says_scores(at, "unseen-people-first", "predict --head head --data a --out a.tsv");
    says_scores(at, "equal-ids-conformal", "infer conformal --head head --data b --out p2.json --level 0.8 --splits 3");
    let held = run_json(at, "infer conformal --head head --data b --out p.json --level 0.8 --splits 3");
    assert_eq!(held["people"], labelled("b"), "{held}");

    says(at, "merge-of-equal-ids", "merge a b both");
    says(at, "merge-with-prefixes", "merge a b both --prefix a,b");
    let both = run_json(at, "inspect both");
    assert_eq!((both["scans"].as_u64(), both["subjects"].as_u64()), (Some(120), Some(120)));
    assert!(run(at, "inspect both --verify").status.success());
    let table = std::fs::read_to_string(at.join("both/participants.tsv")).unwrap();
    assert!(table.contains("sub-a0001\t") && table.contains("sub-b0001\t"), "{table}");
    // The scans of the first study are recognised under their new names, those of the second are new.
    let found = run_json(at, "evaluate --model run/model --data both --people unseen");
    let (trained, scored) = (run_json(at, "inspect run/model"), found["results"][0]["scans"].as_u64().unwrap());
    assert_eq!(scored, 120 - trained["training_people"].as_u64().unwrap());
    says_scores(at, "merged-evaluate", "evaluate --model run/model --data both --people unseen");
}

/// Line 1: what a head or model does not know is flagged, counted and refused when strict.
#[test]
fn scans_outside_what_a_head_knows_are_flagged_and_refused_when_strict() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_json(at, "simulate a --subjects 60 --regions 12 --frames 40 --tr 2");
    run_json(at, "simulate slow --subjects 6 --regions 12 --frames 40 --tr 4 --seed 3 --missing-labels 1");
    run_json(at, &format!("pretrain --data a --out run {SMALL}"));
    run_json(at, "probe --model run/model --data a --target age --seeds 0 --epochs 2 --out head");
    run_json(at, "infer conformal --head head --data a --out p.json --level 0.8 --splits 3");
    let usual = run_json(at, "predict --head head --data a --out a.tsv --strict");
    assert_eq!(usual["outside"].as_array().unwrap().len(), 0, "{usual}");
    says(at, "half-rate-predict", "predict --head head --data slow --conformal p.json --out slow.tsv");
    let table = std::fs::read_to_string(at.join("slow.tsv")).unwrap();
    assert_eq!(table.matches("\toutside\t").count(), 6, "{table}");
    says(at, "half-rate-predict-strict", "predict --head head --data slow --out strict.tsv --strict");
    assert!(!at.join("strict.tsv").exists());
    says(at, "half-rate-embed", "embed --model run/model --data slow --out slow.parquet");
    let features = run_json(at, "embed --model run/model --data slow --out f.tsv");
    assert_eq!(features["outside"].as_array().unwrap().len(), 6);
    let text = std::fs::read_to_string(at.join("f.tsv")).unwrap();
    assert!(text.lines().next().unwrap().ends_with("\ttrust") && text.matches("\toutside\n").count() == 6);
    says(at, "half-rate-embed-strict", "embed --model run/model --data slow --out g.tsv --strict");
}

/// Line 2: numbers of regions are no names.
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
    run_json(at, "simulate named --subjects 4 --regions 12 --frames 40");
    run_json(at, &format!("pretrain --data tables-c --out run {SMALL}"));
    run_json(at, "embed --model run/model --data tables-c --out own.tsv");
    says(at, "another-number-of-regions", "embed --model run/model --data others-c --out x.tsv");
    says(at, "another-study-of-numbers", "embed --model run/model --data same-c --out x.tsv");
    says(at, "another-atlas", "embed --model run/model --data named --out x.tsv");
    says(at, "the-same-atlas", "embed --model run/model --data same-c --out x.tsv --same-atlas");
    says(at, "merge-of-other-atlases", "merge tables-c others-c both");
}

/// Line 5: more than two classes everywhere; what cannot be done is a dash with its reason, said before work begins.
#[test]
fn three_classes_work_in_every_method_and_a_cell_that_cannot_be_is_a_dash() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    numbered(at, "tables", 1..=36, 6);
    // Two people cannot be in three parts of a split: heads that are chosen by validation people have no result.
    let rare = |i: usize| if i < 3 { "rare" } else { "usual" };
    let row = |i: usize| format!("sub-{i:04}\t{}\t{}\t{}\n", ["a", "b", "c"][i % 3], rare(i), 20 + i);
    let rows = (1..=36).map(row).collect::<Vec<_>>().concat();
    std::fs::write(at.join("p.tsv"), format!("participant_id\tgroup\tkind\tage\n{rows}")).unwrap();
    run_json(at, "ingest tables c --tr 2 --format series --participants p.tsv");
    run_json(at, &format!("pretrain --data c --out run {SMALL}"));
    let few = "--bootstraps 50 --permutations 49 --seeds 0,1,2 --no-audit --quiet --baseline-epochs 1 --finetune-epochs 1 \
               --finetune-budget 1 --pretrain-minutes 0.01";
    let methods = "fc,fc-tangent,bdo-mean,bdo-probe,bdo-finetune,braingnn,brainnetcnn,brainnettf,brainlm,brainjepa";
    let found = run_json(
        at,
        &format!("compare --data c --model run/model --targets group,kind --methods {methods} --out cmp {few}"),
    );
    let rows = found["summary"]["rows"].as_array().unwrap();
    let row =
        |method: &str, target: &str| rows.iter().find(|r| r["method"] == method && r["target"] == target).unwrap();
    for method in methods.split(',') {
        let cells = row(method, "group")["cells"].as_array().unwrap();
        assert!(cells.len() > 3, "{method} has no result for three classes: {}", row(method, "group"));
    }
    for method in ["bdo-probe", "bdo-finetune"] {
        assert_eq!(row(method, "kind")["cells"].as_array().unwrap().len(), 0, "{method}");
        let flag = row(method, "kind")["flags"][0].as_str().unwrap();
        assert!(flag.starts_with("no result: target \"kind\", seed 0: expected both classes among the"), "{flag}");
    }
    // It is said before anything is computed.
    let asked = "compare --data c --model run/model --targets kind --methods bdo-probe --out kinds --seeds 0";
    says_scores(at, "three-classes-compare", &format!("{asked} --bootstraps 20 --permutations 19 --no-audit"));
    let table = std::fs::read_to_string(at.join("cmp/table.md")).unwrap();
    assert!(table.contains("| bdo-probe | - | - |"), "{table}");
    assert!(row("fc", "kind")["cells"].as_array().unwrap().len() > 3);

    for (verb, head) in [("probe", "linear"), ("probe", "attention"), ("probe", "ridge"), ("finetune", "linear")] {
        let (out, more) = (format!("{verb}-{head}"), if verb == "probe" { "" } else { "--budget 1" });
        run_json(
            at,
            &format!(
                "{verb} --model run/model --data c --target group --head {head} --epochs 2 --seeds 0 {more} --out {out}"
            )
            .replace(if head == "ridge" { "--epochs 2" } else { "\0" }, ""),
        );
        run_json(at, &format!("predict --head {out} --data c --out {out}.tsv"));
        let table = std::fs::read_to_string(at.join(format!("{out}.tsv"))).unwrap();
        assert!(
            table.starts_with("scan\tsubject\tprediction\tprobability_a\tprobability_b\tprobability_c\tseed0\t"),
            "{table}"
        );
        for line in table.lines().skip(1) {
            let cells: Vec<&str> = line.split('\t').collect();
            let sum: f64 = cells[3..6].iter().map(|p| p.parse::<f64>().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-9 && ["a", "b", "c"].contains(&cells[2]), "{line}");
        }
    }
    says_scores(
        at,
        "three-classes-probe",
        "probe --model run/model --data c --target group --epochs 2 --seeds 0,1 --out probe-two",
    );
    // Sets of classes that cannot be ruled out, and what one class is told by.
    says_scores(
        at,
        "three-classes-conformal",
        "infer conformal --head probe-linear --data c --out sets.json --level 0.8 --splits 3",
    );
    says_scores(
        at,
        "three-classes-predict",
        "predict --head probe-linear --data c --conformal sets.json --out sets.tsv",
    );
    says(at, "explain-without-a-class", "explain --head probe-linear --data c --out why");
    let found = run_json(at, "explain --head probe-linear --data c --class b --out why --scans 6 --shuffles 2");
    assert_eq!(found["class"], "b");
}

/// Line 6: five people, undefined scores.
#[test]
fn few_people_are_said_and_undefined_scores_are_dashes() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_json(at, "simulate c --subjects 24 --regions 8 --frames 40 --missing-labels 0");
    let few = "--bootstraps 50 --permutations 49 --no-audit --quiet";
    let found = run_json(at, &format!("compare --data c --targets sex,age --seeds 0 --out cmp {few}"));
    let rows = found["summary"]["rows"].as_array().unwrap();
    let fc = rows.iter().find(|r| r["method"] == "fc" && r["target"] == "age").unwrap();
    let said = fc["flags"][0].as_str().unwrap();
    assert!(said.starts_with("only ") && said.contains("people were tested"), "{said}");
    let interval = &fc["interval"];
    assert!(interval["high"].as_f64().unwrap() - interval["low"].as_f64().unwrap() > 0.5, "{interval}");
    let table = std::fs::read_to_string(at.join("cmp/table.md")).unwrap();
    assert!(!table.contains("± 0.0"), "one repetition has no spread: {table}");
    // The mean of the label for everybody has no correlation with it.
    let majority = table.lines().rfind(|line| line.starts_with("| majority")).unwrap();
    assert!(majority.contains("| - |"), "{majority}");
    run_json(at, &format!("pretrain --data c --out run {SMALL}"));
    says_scores(at, "few-people-compare", &format!("compare --data c --targets age --seeds 0 --out cmp-age {few}"));
    says_scores(
        at,
        "few-people-probe",
        "probe --model run/model --data c --target sex --seeds 0 --epochs 1 --out head",
    );
    // Five people cannot be divided, nor swept over: a sentence, before anything is trained.
    run_json(at, "simulate five --subjects 5 --regions 8 --frames 40 --missing-labels 0");
    says(at, "five-people-compare", "compare --data five --targets sex --out five-cmp");
    says(at, "five-people-probe", "probe --model run/model --data five --target sex --out five-head");
    says(
        at,
        "five-people-sweep",
        &format!("sweep --data five --vary mask.ratio=0.5,0.75 --targets sex --out five-sweep {SMALL}"),
    );
    assert!(!at.join("five-sweep").exists() && !at.join("five-cmp").exists(), "refused before work began");
    // Without labels there are runs, but nobody to score them on: said once, not once per run.
    says(
        at,
        "five-people-sweep-without-labels",
        &format!("sweep --data five --vary mask.ratio=0.5,0.75 --seeds 0,1 --out five-runs {SMALL}"),
    );
}

/// Line 8: what is refused does not stand in the way, and advice helps.
#[test]
fn what_is_refused_does_not_stand_in_the_way_and_advice_helps() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_json(at, "simulate c --subjects 40 --regions 8 --frames 30");
    says_scores(at, "what-was-learned", &format!("pretrain --data c --out run {SMALL}"));
    let page = std::fs::read_to_string(at.join("run/report.html")).unwrap();
    assert!(page.contains("kriging (the best linear prediction) "), "the first box says nothing of kriging");
    // Refused after its folder was made: nobody is neither trained nor validated on.
    run_json(at, "simulate few --subjects 3 --regions 8 --frames 30 --seed 5");
    says(at, "nobody-to-reconstruct", "infer reconstruct --model run/model --data few --out rec --people validation");
    run_json(at, "infer reconstruct --model run/model --data few --out rec --people all");
    says(at, "a-run-for-a-model", "embed --model run --data c --out f.tsv");
    says(at, "a-model-for-a-head", "predict --head run --data c --out p.tsv");
    run_json(at, "probe --model run/model --data c --target age --seeds 0 --epochs 1 --out head");
    says(at, "another-request", "probe --model run/model --data c --target sex --seeds 0 --epochs 1 --out head");
    says(at, "a-missing-output-folder", "embed --model run/model --data c --out nowhere/f.tsv");
    says(at, "a-key-that-is-none", "pretrain --data c --out r --set nonsense=1");
    says(at, "quiet-inspect", "inspect c --quiet");
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
    says(at, "a-changed-weight", "embed --model run/model --data c --out f.tsv");
}

/// Line 8: a full disk in the middle of a run, and a reader that goes away.
#[test]
fn a_full_disk_and_a_closed_pipe_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_json(at, "simulate c --subjects 24 --regions 12 --frames 40");
    for verb in
        [&["inspect", "c"][..], &["inspect", "c", "--json"], &["simulate", "d", "--subjects", "3", "--regions", "4"]]
    {
        let mut command = bdo();
        command.args(verb).current_dir(at).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = format!("exit {}\n{}", output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr));
        is_snapshot(&format!("closed-pipe-{}", verb.join("-")), &format!("{} | true", verb.join(" ")), &said);
    }
    let Some(disk) = SmallDisk::mount(600) else {
        println!("SKIPPED: this machine does not let us mount a small disk, the full-disk part did not run");
        return;
    };
    let place = disk.path();
    std::os::unix::fs::symlink(at.join("c"), place.join("c")).unwrap();
    let small = SMALL.replace("epochs=2", "epochs=8");
    let asked =
        format!("pretrain --data c --out run {small} --set train.checkpoint_steps=1 --set train.keep_checkpoints=50");
    says(place, "full-disk-pretrain", &asked);
    disk.grow(64 << 10);
    // The advice is followed word by word.
    says(place, "full-disk-pretrain-again", &asked);
    run_json(place, &format!("{asked} --resume"));
    let whole = run_json(at, &asked);
    let weights = |folder: &Path| std::fs::read(folder.join("run/model/model.safetensors")).unwrap();
    assert!(weights(place) == weights(at), "after a full disk the weights are others");
    assert!(whole["steps"].as_u64() > Some(0));
    disk.fill();
    says(place, "full-disk-embed", "embed --model run/model --data c --out f.parquet");
    disk.grow(128 << 10);
    run_json(place, "embed --model run/model --data c --out f.parquet");
}

#[test]
fn a_head_is_explained_with_its_checks() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_json(at, "simulate c --subjects 60 --regions 12 --frames 40");
    run_json(at, "simulate new --subjects 12 --regions 12 --frames 40 --seed 9");
    run_json(at, &format!("pretrain --data c --out run {SMALL}"));
    run_json(at, "probe --model run/model --data c --target age --seeds 0 --head ridge --pooling coupling --out exact");
    let found = run_json(at, "explain --head exact --data c --out why --scans 30 --shuffles 5");
    assert_eq!(found["method"], "exact");
    assert!(found["incompleteness"].as_f64().unwrap() < 1e-6, "{found}");
    let shares: f64 = found["regions"].as_array().unwrap().iter().map(|r| r["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{shares}");
    // The mean control of the default preset, on people the head has never seen; its connectivity part has gradients too.
    run_json(at, "probe --model run/model --data c --target age --seeds 0 --epochs 2 --out mean");
    let found = run_json(at, "explain --head mean --data new --out why-mean --scans 6 --shuffles 2 --steps 128");
    assert_eq!(found["method"], "integrated gradients");
    // The integral is a sum over 128 points; with 32 it is off by four times as much.
    assert!(found["incompleteness"].as_f64().unwrap() < 0.1, "{}", found["incompleteness"]);
    for file in ["why/regions.tsv", "why/networks.tsv", "why/report.html", "why-mean/explanation.json"] {
        assert!(at.join(file).is_file(), "{file}");
    }
    let page = std::fs::read_to_string(at.join("why-mean/report.html")).unwrap();
    assert!(page.contains("data-name=\"explanation-brain\""), "no glass brain");
}
