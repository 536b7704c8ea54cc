//! A comparison goes on where it was, does not depend on the number of threads, and refuses what it must.

use std::path::Path;

use crate::program::{names, run_json, transcript};

const FEW: &str = "--bootstraps 50 --permutations 49 --quiet";

fn cohort(folder: &Path) {
    run_json(folder, "simulate c --subjects 60 --regions 12 --frames 60 --sites 3 --missing-labels 0");
}

#[test]
fn rows_that_are_always_there_and_files_that_are_used_again() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let compare = |out: &str, more: &str| {
        run_json(dir.path(), &format!("compare --data c --targets sex,age --out {out} --site-groups {FEW} {more}"))
    };
    let first = compare("one", "--threads 1 --methods fc-combat");
    // Six methods, two labels, three seeds and three groups of sites.
    assert_eq!((first["results"].as_u64(), first["results_used_again"].as_u64()), (Some(72), Some(0)));
    let methods = ["age-sex", "fc", "fc-combat", "majority", "motion", "site"];
    assert_eq!(names(&dir.path().join("one/results")), methods);
    assert_eq!(
        names(&dir.path().join("one")),
        ["report.html", "results", "splits.json", "table.csv", "table.json", "table.md", "table.tex"]
    );
    assert_eq!(first["audit"].as_array().unwrap().len(), 4);
    let lost = dir.path().join("one/results/fc/sex/random-1.json");
    std::fs::remove_file(&lost).unwrap();
    let again = compare("one", "--methods fc-combat");
    assert_eq!(again["results_used_again"].as_u64(), Some(71));
    assert!(lost.is_file());
    let other = compare("two", "--threads 2 --methods fc-combat");
    // Times and memory differ; nothing else may.
    let timeless = |value: &serde_json::Value| {
        let mut rows = value["summary"]["rows"].clone();
        for row in rows.as_array_mut().unwrap() {
            row["wall_seconds"] = 0.into();
            row["own_mib"] = 0.into();
        }
        (rows, value["audit"].clone())
    };
    assert_eq!(timeless(&first), timeless(&other));
    assert_eq!(timeless(&first), timeless(&again));
}

#[test]
fn stacks_bring_their_members_and_are_compared_with_the_last() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let compare = |out: &str, threads: usize| {
        run_json(
            dir.path(),
            &format!(
                "compare --data c --targets sex,age --stratify-by sex --methods fc+fc-tangent,fc-power --against \
                 fc-power,site --seeds 0-3 --out {out} {FEW} --no-audit --threads {threads}"
            ),
        )
    };
    let found = compare("one", 1);
    // Four rows of connectivity, four without a brain, two labels, four seeds.
    assert_eq!(found["results"], 64);
    let names = |row: &serde_json::Value| -> Vec<String> {
        row["further"].as_array().unwrap().iter().map(|a| a["row"].as_str().unwrap().to_owned()).collect()
    };
    let rows = found["summary"]["rows"].as_array().unwrap();
    let stack = rows.iter().find(|row| row["method"] == "fc+fc-tangent").unwrap();
    assert_eq!(names(stack), ["site", "fc-tangent"]);
    assert!(stack["comparison"]["p"].is_number() && stack["further"][1]["comparison"]["p"].is_number(), "{stack}");
    let power = rows.iter().find(|row| row["method"] == "fc-power").unwrap();
    assert!(power["comparison"].is_null() && names(power) == ["site"], "{power}");
    let table = std::fs::read_to_string(dir.path().join("one/table.md")).unwrap();
    assert!(
        table.contains("against fc-power (p, q) | against others (p, q)") && table.contains("; fc-tangent: "),
        "{table}"
    );
    assert!(table.contains("\nTime of the whole comparison: "), "{table}");
    for seed in 0..4 {
        let path = dir.path().join(format!("one/results/fc+fc-tangent/age/random-{seed}.json"));
        let result: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let chosen = &result["outcome"]["chosen"];
        let weight = |row: &str| chosen[format!("weight of {row}")].as_f64().unwrap();
        assert!((weight("fc") + weight("fc-tangent") - 1.0).abs() < 1e-12, "{chosen}");
    }
    // The number of threads decides nothing.
    let other = compare("two", 2);
    let scores = |found: &serde_json::Value| -> Vec<serde_json::Value> {
        found["summary"]["rows"].as_array().unwrap().iter().map(|row| row["cells"].clone()).collect()
    };
    assert_eq!(scores(&found), scores(&other));
    let said = transcript(dir.path(), "compare --data c --targets sex --methods fc+motion --out o");
    assert!(
        said.contains("fc+motion: expected different rows of features joined by +") && said.contains("found motion")
    );
}

#[test]
fn what_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let said = transcript(dir.path(), "compare --data c --targets iq --out o");
    assert!(said.starts_with("exit 2\nerror: expected a label column \"iq\", found age, sex"), "{said}");
    let said = transcript(dir.path(), "compare --data c --targets sex --methods magic --out o");
    assert!(said.starts_with("exit 2\nerror: invalid value 'magic' for '--methods <M,N>'"), "{said}");
    assert!(
        said.contains(
            "[possible values: fc, motion, site, age-sex, majority, fc-combat, fc-tangent, fc-power, bdo-probe"
        ),
        "{said}"
    );
}

#[test]
fn what_was_cut_is_said_with_the_command_that_cuts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let table = run_json(
        dir.path(),
        "compare --data c --targets sex --methods braingnn --seeds 0,1 --out o --bootstraps 50 --permutations=49 --no-audit \
         --baseline-epochs 2 --quiet",
    );
    let cuts: Vec<&str> =
        table["protocol"]["cuts"].as_array().unwrap().iter().map(|c| c["option"].as_str().unwrap()).collect();
    assert_eq!(cuts, ["--seeds", "--baseline-epochs", "--bootstraps", "--permutations", "--no-audit"]);
    let full = "bdo compare --data c --targets sex --methods braingnn --out o-full";
    assert_eq!(table["protocol"]["full_command"], full);
    for file in ["table.md", "table.tex", "report.html"] {
        let text = std::fs::read_to_string(dir.path().join("o").join(file)).unwrap();
        assert!(text.contains(full) && text.contains("--baseline-epochs"), "{file}");
    }
    let page = std::fs::read_to_string(dir.path().join("o/report.html")).unwrap();
    assert!(page.contains("What was cut from the full protocol") && page.contains(">MiB"));
    // Nothing cut is said too.
    let said = transcript(dir.path(), "compare --data c --targets sex --out whole");
    assert!(said.contains("Nothing. The command was:\n\n    bdo compare --data c --targets sex --out whole"), "{said}");
}
