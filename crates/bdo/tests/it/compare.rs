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
            row["peak_rss_mib"] = 0.into();
        }
        (rows, value["audit"].clone())
    };
    assert_eq!(timeless(&first), timeless(&other));
    assert_eq!(timeless(&first), timeless(&again));
}

#[test]
fn what_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    cohort(dir.path());
    let said = transcript(dir.path(), "compare --data c --targets iq --out o");
    assert!(said.starts_with("exit 2\nerror: expected a label column \"iq\", found age, sex"), "{said}");
    let said = transcript(dir.path(), "compare --data c --targets sex --methods magic --out o");
    assert!(said.starts_with("exit 2\nerror: invalid value 'magic' for '--methods <M,N>'"), "{said}");
    assert!(said.contains("[possible values: fc, motion, site, age-sex, majority, fc-combat, bdo-probe"), "{said}");
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
