//! The methods BDO is compared with, from the command line.

use crate::program::{names, run, run_json, transcript};

#[test]
fn a_baseline_is_repeatable_continues_and_refuses_another_run() {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 30 --regions 10 --frames 80 --sites 1");
    let arguments = "baseline braingnn --data c --target sex --epochs 3 --seeds 0,1 --set train.batch_size=8";
    let first = run_json(dir.path(), &format!("{arguments} --out a --threads 1"));
    let second = run_json(dir.path(), &format!("{arguments} --out b --threads 2"));
    assert_eq!(first["seeds"].as_array().unwrap().len(), 2);
    assert_eq!(first["summary"], second["summary"]);
    let table = |name: &str| std::fs::read(dir.path().join(name).join("predictions.tsv")).unwrap();
    assert_eq!(table("a"), table("b"));
    assert_eq!(
        names(&dir.path().join("a")),
        ["predictions.tsv", "request.json", "result.json", "seed-0.json", "seed-1.json", "splits.json"]
    );
    // Run again, it has nothing left to do and says the same.
    assert_eq!(run_json(dir.path(), &format!("{arguments} --out a"))["summary"], first["summary"]);
    let other = transcript(dir.path(), "baseline brainnetcnn --data c --target sex --out a --epochs 1");
    insta::assert_snapshot!(other, @r"
    exit 2
    error: a holds another run
    hint: give another --out, or remove it
    ");
    let key = transcript(dir.path(), "baseline braingnn --data c --target sex --out d --set train.epoch=1");
    assert!(key.contains("exit 2") && key.contains("train.epochs"), "{key}");
    let column = transcript(dir.path(), "baseline braingnn --data c --target iq --out d");
    assert!(column.contains("expected a label column \"iq\", found age"), "{column}");
    assert!(!dir.path().join("d").exists());
}

#[test]
fn every_baseline_runs_on_short_scans() {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 16 --regions 10 --frames 70 --sites 1 --missing-labels 0");
    for name in ["brainnetcnn", "brainnettf", "brainlm", "brainjepa"] {
        let output =
            run(dir.path(), &format!("baseline {name} --data c --target age --out {name} --epochs 1 --seeds 0 --json"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {said}");
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(result["summary"]["mse"]["mean"].as_f64().unwrap().is_finite(), "{result}");
        if name.starts_with("brainlm") || name.starts_with("brainjepa") {
            assert!(said.contains("the original takes 160 frames; the shortest scan has"), "{said}");
        }
    }
}
