//! Pages of what the verbs leave, in the terminal and on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;

use crate::program::{bdo, run, run_json, transcript};

const SMALL: &str = "--set model.width=16 --set model.blocks=1 --set model.heads=1 --set model.basis_count=4 \
                     --set mask.frames=24 --set train.epochs=8 --set train.batch_size=4 --set train.micro_batch_size=3 \
                     --set train.validation_steps=5 --quiet";

fn page(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn trained() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 30 --regions 20 --frames 40 --sites 2");
    run_json(dir.path(), &format!("pretrain --data c --out r {SMALL}"));
    dir
}

#[test]
fn a_run_and_its_model_become_pages() {
    let dir = trained();
    let left = page(dir.path(), "r/report.html");
    assert!(left.contains("Loss terms") && left.contains("bdo report r --data COHORT"));
    let made = run_json(dir.path(), "report r --data c --out p.html");
    assert_eq!(made["kinds"], serde_json::json!(["run"]));
    let html = page(dir.path(), "p.html");
    for figure in [
        "training-loss",
        "validation",
        "learning-rate",
        "gradient-norm",
        "reconstruction",
        "traces",
        "features-age",
        "features-sex",
        "features-site",
        "control-energy",
        "control-drive-networks",
        "control-drive-brain",
        "time-constants-networks",
        "time-constants-brain",
    ] {
        assert!(html.contains(&format!("data-name=\"{figure}\"")), "{figure}");
    }
    assert!(html.contains("two standard deviations") && html.contains("bdo report r --data c --out p.html"));
    assert!(
        !html.contains("better than on new people") && html.contains("neither trained on nor validated with"),
        "the simulated cohort has people who were left out"
    );
    // The same again is the same page: features come from where they were kept.
    assert!(dir.path().join("r/features").is_dir());
    run_json(dir.path(), "report r --data c --out p.html");
    assert!(page(dir.path(), "p.html") == html);
    let model = run_json(dir.path(), "report r/model --data c --out m.html");
    assert!(model["figures"].as_u64().unwrap() >= 10);
    // A model of other regions is a remark and a sentence on the page.
    run_json(dir.path(), "simulate other --subjects 6 --regions 7 --frames 30 --sites 1");
    let output = run(dir.path(), "report r --data other --out o.html");
    assert!(output.status.success());
    assert!(page(dir.path(), "o.html").contains("could not be used"));
}

#[test]
fn a_comparison_leaves_a_page_with_its_splits() {
    let dir = tempfile::tempdir().unwrap();
    run_json(dir.path(), "simulate c --subjects 60 --regions 12 --frames 40 --sites 2");
    run_json(dir.path(), "compare --data c --targets age,sex --out cmp --bootstraps 50 --permutations 50 --quiet");
    let html = page(dir.path(), "cmp/report.html");
    for figure in [
        "forest-age-random",
        "predicted-age",
        "confusion-sex",
        "calibration-sex",
        "efficiency",
        "confound-audit",
        "split-age",
        "split-sex",
    ] {
        assert!(html.contains(&format!("data-name=\"{figure}\"")), "{figure}");
    }
    // The cohort is found again by what the comparison says about it; elsewhere the page says what it needs.
    run_json(dir.path(), "report cmp --out p.html");
    assert!(page(dir.path(), "p.html").contains("data-name=\"split-age\""));
    std::fs::rename(dir.path().join("c"), dir.path().join("moved")).unwrap();
    run_json(dir.path(), "report cmp --out p.html");
    assert!(page(dir.path(), "p.html").contains("needs the cohort"));
    run_json(dir.path(), "report cmp --data moved --out p.html");
    assert!(page(dir.path(), "p.html").contains("data-name=\"split-age\""));
}

#[test]
fn what_is_no_folder_of_ours_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    std::fs::write(dir.path().join("note.txt"), "x").unwrap();
    insta::assert_snapshot!(
        [
            transcript(dir.path(), "report nowhere --out p.html"),
            transcript(dir.path(), "report empty --out p.html"),
            transcript(dir.path(), "report note.txt --out p.html"),
            transcript(dir.path(), "watch empty"),
            transcript(dir.path(), "serve empty"),
        ]
        .join("\n")
    );
}

#[test]
fn a_run_is_watched_and_served_even_if_its_journal_is_damaged() {
    let dir = trained();
    let journal = dir.path().join("r/journal.jsonl");
    let mut text = std::fs::read_to_string(&journal).unwrap();
    text.insert_str(0, "damaged\n");
    std::fs::write(&journal, text + "{\"kind\":\"st").unwrap();
    let once = run(dir.path(), "watch r --once");
    let shown = String::from_utf8(once.stdout).unwrap();
    assert!(
        once.status.success() && shown.contains("loss") && shown.contains("1 of ") && !shown.contains('\x1b'),
        "{shown}"
    );
    // A run that has ended ends the watch.
    assert!(run(dir.path(), "watch r").status.success());
    let facts = run_json(dir.path(), "watch r");
    assert_eq!((facts["running"].as_bool(), facts["unreadable_lines"].as_u64()), (Some(false), Some(1)));

    let mut child = bdo()
        .args(["serve", "r"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("Loss terms"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

/// README.md shows what `tools/pictures.py` made in one run: the example with its numbers, and the pictures.
#[test]
fn pictures_and_numbers_of_the_readme_are_of_one_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pictures = root.join("docs/pictures");
    let made: serde_json::Value = serde_json::from_slice(&std::fs::read(pictures.join("made.json")).unwrap()).unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    for part in ["example", "comparison"] {
        let text = format!("<!-- {part}: tools/pictures.py -->\n{}\n<!-- end -->", made[part].as_str().unwrap());
        assert!(readme.contains(&text), "README.md: expected the {part} of docs/pictures/made.json:\n{text}");
    }
    let listed = made["pictures"].as_object().unwrap();
    assert_eq!(listed.len(), 3);
    for (name, checksum) in listed {
        let mut sum = flate2::Crc::new();
        sum.update(&std::fs::read(pictures.join(format!("{name}.png"))).unwrap());
        assert_eq!(Some(u64::from(sum.sum())), checksum.as_u64(), "{name}.png is not the picture of made.json");
        assert!(readme.contains(&format!("docs/pictures/{name}.png")), "README.md does not show {name}.png");
    }
}
