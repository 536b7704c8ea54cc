//! Tables and figures of the paper on a small cohort.

use crate::program::{run, run_json};

#[test]
fn a_table_stands_beside_the_papers_numbers_and_is_not_computed_twice() {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 40 --regions 8 --frames 60 --sites 1 --missing-labels 0");
    let small = "--set model.width=16 --set model.blocks=1 --seeds 0";
    let table = format!("reproduce table1 --data c --out t --minutes 0.2 {small} --quiet");
    let found = run_json(dir.path(), &table);
    // Twelve seconds do not last for networks.
    assert!(found["cuts"][0].as_str().unwrap().contains("BrainLM and Brain-JEPA are left out"), "{found}");
    assert!(found["cuts"][1].as_str().unwrap().contains("BrainNetTF are left out"), "{found}");
    let page = std::fs::read_to_string(dir.path().join("t/index.html")).unwrap();
    // A number of the paper, our rows, what differs, what was left out.
    for text in ["92.59 ± 0.68", "bdo-finetune, tiny", "Schaefer-400 and Tian S3", "What was left out", "age: splits"]
    {
        assert!(page.contains(text), "{text}");
    }
    let read =
        |row: &str| std::fs::read(dir.path().join("t/size-tiny/results").join(row).join("age/random-0.json")).unwrap();
    let before = [read("bdo-mean"), read("bdo-finetune"), read("fc")];
    run_json(dir.path(), &table);
    // The time a fit took is in its file, so that one that was made again would differ.
    assert!(before == [read("bdo-mean"), read("bdo-finetune"), read("fc")]);
}

#[test]
fn splits_need_no_training_and_a_missing_column_is_named() {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 30 --regions 8 --frames 40 --sites 1 --missing-labels 0");
    let found = run_json(dir.path(), "reproduce splits --data c --out s --quiet");
    assert_eq!(found["figures"], 2, "age and sex");
    let refused = run(dir.path(), "reproduce table3 --data c --targets handedness --out t --quiet");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("handedness"));
}
