//! Features, probes, fine-tuning and predictions as users run them.

use std::path::Path;

use crate::program::{SMALL, names, run_json, transcript};

fn cohort_and_model(folder: &Path) {
    run_json(folder, "simulate c --subjects 60 --regions 12 --frames 40 --sites 2");
    run_json(folder, "simulate further --subjects 30 --regions 12 --frames 30 --sites 2 --seed 7");
    run_json(folder, &format!("pretrain --data c --out run {SMALL} --set train.epochs=1"));
}

#[test]
fn from_a_model_to_predictions() {
    let dir = tempfile::tempdir().unwrap();
    cohort_and_model(dir.path());
    let table = run_json(dir.path(), "embed --model run/model --data c --out f.tsv --pooling mean-std");
    assert_eq!((table["scans"].as_u64(), table["width"].as_u64()), (Some(60), Some(32)));
    let text = std::fs::read_to_string(dir.path().join("f.tsv")).unwrap();
    assert!(text.starts_with("scan\tsubject\tsession\tf0\t") && text.lines().count() == 61);
    let found =
        run_json(dir.path(), "probe --model run/model --data c --target age --out p --test-data further --epochs 5");
    assert_eq!(found["seeds"].as_array().unwrap().len(), 3);
    // Simulated people are called alike in every cohort; those of another one are other people all the same.
    assert_eq!(found["test_data"]["seen_by_head"].as_u64(), Some(0));
    let said = run_json(dir.path(), "predict --head p --data further --out said.tsv");
    assert_eq!(said["scans"], 30);
    // Scored through the probe or by itself: the same head, the same people, the same numbers.
    assert_eq!(said["score"], found["test_data"]["score"]);
    let written = std::fs::read(dir.path().join("said.tsv")).unwrap();
    assert_eq!(written, std::fs::read(dir.path().join("p/test_data_predictions.tsv")).unwrap());
    let tuned = "finetune --model run/model --data c --target sex --out t --epochs 2 --budget 1 --seeds 0";
    let found = run_json(dir.path(), tuned);
    assert_eq!(found["seeds"][0]["tried"].as_array().unwrap().len(), 2, "one configuration at two rates");
    assert_eq!(run_json(dir.path(), tuned)["summary"], found["summary"], "run again, it is already there");
    run_json(dir.path(), "predict --head t --data further --out tuned.tsv");
}

#[test]
fn what_cannot_be_done_is_said_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    cohort_and_model(dir.path());
    let before = names(dir.path());
    let say = |arguments: &str| transcript(dir.path(), arguments);
    let mistakes = [
        "embed --model run/model --data c --out f.csv",
        "embed --model nothing --data c --out f.tsv",
        "embed --model run/model --data c --out f.tsv --pooling tangent",
        "predict --head nothing --data c --out f.tsv",
        "finetune --model run/model --data c --target sex --out x --head ridge --quiet",
        "probe --model run/model --data c --target sex --out x --seeds 1,1",
    ];
    insta::assert_snapshot!(mistakes.map(say).concat(), @r"
    exit 2
    error: f.csv: expected a name ending in .parquet, .tsv or .npy, found another ending
    exit 2
    error: cannot read nothing/config.json: it does not exist
    exit 2
    error: --pooling: expected what a single scan decides, found tangent
    hint: use log-covariance, or bdo probe --pooling tangent
    exit 2
    error: cannot read nothing/head.json: it does not exist
    exit 2
    error: head: expected linear or attention, which have gradients, found ridge
    exit 2
    error: seeds: expected at least one, each once, found [1, 1]
    ");
    let said = say("probe --model run/model --data c --target iq --out x");
    assert!(said.starts_with("exit 2\nerror: expected a label column \"iq\", found "), "{said}");
    assert_eq!(names(dir.path()), before, "nothing half-written is left");
}
