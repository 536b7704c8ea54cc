//! The posterior put to work, as users run it.

use std::path::Path;

use crate::program::{SMALL, run_json, transcript};

fn cohort_and_model(folder: &Path) {
    run_json(folder, "simulate c --subjects 80 --regions 12 --frames 40 --sites 2");
    run_json(folder, &format!("pretrain --data c --out run {SMALL}"));
}

#[test]
fn every_kind_of_question_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    cohort_and_model(dir.path());
    let fitted = run_json(dir.path(), "infer calibrate --model run/model --data c --out cal.json --draws 8");
    // Bands of 50, 80 and 95 % over some 5,500 hidden values of eight test people. Values of one scan are alike, so they are
    // worth a few hundred; bands a quarter too wide would hold 60 and 89 %, a quarter too narrow 41 and 70 %.
    let coverage = |level: usize| {
        let shares = fitted["test_people"].as_array().unwrap().iter().map(|at| {
            let model = &at["model"];
            (model["count"].as_f64().unwrap(), model["coverage"][level].as_f64().unwrap())
        });
        let (count, held) = shares.fold((0.0, 0.0), |(n, sum), (count, share)| (n + count, sum + count * share));
        held / count
    };
    for (level, expected, bound) in [(0, 0.5, 0.08), (1, 0.8, 0.08), (2, 0.95, 0.04)] {
        assert!((coverage(level) - expected).abs() < bound, "{}: {fitted}", coverage(level));
    }
    let given = "--model run/model --data c --calibration cal.json --people test";
    let found = run_json(dir.path(), &format!("infer reconstruct {given} --out rec --every 0.5"));
    assert_eq!(found["calibrated"], true);
    assert!(found["rows"].as_u64() > found["rows_not_seen"].as_u64());
    let scores = run_json(dir.path(), &format!("infer impute {given} --out scores --missing 0.5,0.9"));
    assert_eq!(scores["scores"].as_array().unwrap().len(), 2);
    let skill = run_json(dir.path(), &format!("infer forecast {given} --out skill --horizon 3 --score"));
    assert_eq!(skill["scores"].as_array().unwrap().len(), 3);
    let next = run_json(dir.path(), &format!("infer forecast {given} --out next --horizon 5 --no-bids"));
    assert_eq!(next["rows_not_seen"].as_u64(), next["scans"].as_u64().map(|n| 5 * n));
    run_json(dir.path(), &format!("infer trajectory {given} --out path"));
    let checks = run_json(dir.path(), &format!("infer check {given} --out checks --paths 20"));
    assert_eq!(checks["timings"].as_array().unwrap().len(), 12);
    assert!(checks["truth"]["people"].as_u64() >= Some(3));
    for file in ["rec/posterior.parquet", "rec/dataset_description.json", "path/latent.parquet", "path/summary.tsv"] {
        assert!(dir.path().join(file).is_file(), "{file}");
    }
    let tables: Vec<_> =
        walk(&dir.path().join("rec")).into_iter().filter(|p| p.ends_with("_stat-mean_timeseries.tsv")).collect();
    assert_eq!(tables.len(), found["scans"].as_u64().unwrap() as usize, "{tables:?}");
    // The same question again is answered again; another one under the same name is refused.
    run_json(dir.path(), &format!("infer forecast {given} --out next --horizon 5 --no-bids"));
    let said = transcript(dir.path(), &format!("infer forecast {given} --out next --horizon 6 --no-bids --quiet"));
    assert!(said.starts_with("exit 2\nerror: next: expected a new name, or the same request as before"), "{said}");
}

#[test]
fn one_series_file_is_enough_and_gaps_are_filled() {
    let dir = tempfile::tempdir().unwrap();
    cohort_and_model(dir.path());
    let names: Vec<String> = {
        let text = std::fs::read_to_string(dir.path().join("c/regions.json")).unwrap();
        let regions: serde_json::Value = serde_json::from_str(&text).unwrap();
        let list = regions.as_array().or_else(|| regions["regions"].as_array()).unwrap().clone();
        list.iter().map(|r| r["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut text = names.join("\t") + "\n";
    for t in 0..60 {
        let row: Vec<String> =
            (0..names.len()).map(|r| format!("{:.4}", 100.0 + (f64::from(t) * 0.4 + r as f64).sin())).collect();
        text += &(row.join("\t") + "\n");
    }
    std::fs::write(dir.path().join("sub-9_timeseries.tsv"), text).unwrap();
    let said = run_json(dir.path(), "infer impute --model run/model --data sub-9_timeseries.tsv --tr 2 --out one");
    assert_eq!((said["scans"].as_u64(), said["calibrated"].as_bool()), (Some(1), Some(false)));
    let tables = walk(&dir.path().join("one"));
    let mean = tables.iter().find(|p| p.ends_with("stat-mean_timeseries.tsv")).unwrap();
    let table = std::fs::read_to_string(dir.path().join("one").join(mean)).unwrap();
    // What was measured stays as it was.
    let first: Vec<f64> = table.lines().nth(1).unwrap().split('\t').skip(2).map(|x| x.parse().unwrap()).collect();
    assert!(first.iter().enumerate().all(|(r, x)| (x - (100.0 + (r as f64).sin())).abs() < 1e-3), "{first:?}");
}

#[test]
fn a_head_is_calibrated_and_says_when_it_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    cohort_and_model(dir.path());
    run_json(dir.path(), "probe --model run/model --data c --target sex --out p --epochs 3 --seeds 0");
    run_json(dir.path(), "probe --model run/model --data c --target age --out q --epochs 3 --seeds 0");
    let found = run_json(dir.path(), "infer conformal --head p --data c --out p80.json --level 0.8");
    // By rank, a set fitted on 7 people covers 7 / 8 of new ones, the first rank at or above 0.8, and no more.
    // Averaged over many halves of 15 people; the standard error of such a mean is some 0.03.
    let covers = |found: &serde_json::Value| {
        let coverage = found["halves"]["coverage"].as_f64().unwrap();
        assert!((0.8..0.95).contains(&coverage), "{found}");
    };
    covers(&found);
    // Sets that hold both sexes for everybody would cover all and say nothing.
    let decided = found["halves"]["decided"].as_f64().unwrap();
    assert!(decided > 0.05 && decided < 1.0, "{found}");
    covers(&run_json(dir.path(), "infer conformal --head q --data c --out q80.json --level 0.8"));
    run_json(dir.path(), "predict --head q --data c --conformal q80.json --out age.tsv");
    let text = std::fs::read_to_string(dir.path().join("age.tsv")).unwrap();
    let header: Vec<&str> = text.lines().next().unwrap().split('\t').collect();
    let at = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let cells: Vec<f64> = ["lower", "prediction", "upper"]
        .map(|name| text.lines().nth(1).unwrap().split('\t').nth(at(name)).unwrap().parse().unwrap())
        .to_vec();
    assert!(cells[0] < cells[1] && cells[1] < cells[2]);
    let said = transcript(dir.path(), "predict --head q --data c --conformal p80.json --out x.tsv --quiet");
    assert!(said.starts_with("exit 2\nerror: p80.json: expected bdo-conformal/1 for the head"), "{said}");
    let said = transcript(dir.path(), "infer conformal --head p --data c --out x.json --level 0.99 --quiet");
    assert!(said.contains("expected at least 100 labelled people"), "{said}");
}

/// Files below a folder, as text relative to it.
fn walk(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}
