//! What a wrong file, folder, key or name gets: one clear sentence, exit code 2, and nothing half-written.

use std::path::Path;

use crate::program::{bdo, names, run, transcript};

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn small_cohort(folder: &Path) {
    let made = run(folder, "simulate c --subjects 6 --regions 8 --frames 20 --quiet");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn wrong_paths() {
    let dir = tempfile::tempdir().unwrap();
    let say = |arguments: &str| transcript(dir.path(), arguments);
    insta::assert_snapshot!(say("inspect nothing"), @r"
    exit 2
    error: nothing is not a cohort: expected a folder with cohort.json, found nothing of that name
    ");
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    insta::assert_snapshot!(say("inspect empty"), @r"
    exit 2
    error: empty is not a cohort: expected a folder with cohort.json, found a folder without it
    ");
    insta::assert_snapshot!(say("ingest nothing out"), @r"
    exit 2
    error: cannot read nothing: it does not exist
    ");
    insta::assert_snapshot!(say("ingest empty out"), @r"
    exit 2
    error: empty: expected BIDS derivatives, images (.nii, .nii.gz), CIFTI series, or region series (.1D, .tsv, .csv, .txt, .npy, .npz, .mat or .h5), one file a scan, found 0 files of other kinds
    ");
    insta::assert_snapshot!(say("merge empty out"), @r"
    exit 2
    error: empty is not a cohort: expected a folder with cohort.json, found a folder without it
    ");
    assert_eq!(names(dir.path()), ["empty"]);
}

#[test]
fn wrong_values() {
    let dir = tempfile::tempdir().unwrap();
    let say = |arguments: &str| transcript(dir.path(), arguments);
    insta::assert_snapshot!(say("simulate c --regions 1"), @r"
    exit 2
    error: regions: expected at least 2, found 1
    ");
    insta::assert_snapshot!(say("simulate c --effect agerate=1"), @r#"
    exit 2
    error: --effect: expected one of age_rate, age_coupling, age_motion, sex_coupling, diagnosis_coupling, diagnosis_between, trait_coupling, found "agerate"
    "#);
    insta::assert_snapshot!(say("simulate c --tr -1"), @r"
    exit 2
    error: tr_seconds: expected a number from 0.05 to 20, found -1
    ");
    insta::assert_snapshot!(say("simulate c --regions 100000000 --frames 100000000"), @r"
    exit 2
    error: regions: expected at most 20000, found 100000000
    ");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

/// What a program says that was built for the CPU alone; those for cards are looked at by `cargo xtask devices`.
#[cfg(not(feature = "wgpu"))]
#[test]
fn devices_that_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let say = |arguments: &str| transcript(dir.path(), arguments);
    insta::assert_snapshot!(say("inspect --devices"), @r"
    exit 0
    cpu        the processor, with our kernels
    not in this build: wgpu, vulkan, metal, cuda, rocm (docs/devices.md)
    ");
    insta::assert_snapshot!(say("embed --model m --data c --out f.tsv --device cuda:1"), @r"
    exit 2
    error: --device cuda:1: this program was built without it
    hint: build one with `cargo build --release --features cuda` (docs/devices.md), or leave out --device
    ");
    insta::assert_snapshot!(say("embed --model m --data c --out f.tsv --device gpu"), @r"
    exit 2
    error: invalid value 'gpu' for '--device <DEVICE>': expected cpu, wgpu, vulkan, metal, cuda or rocm, the last five with the number of a device if there are several (cuda:1), found gpu

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(say("simulate c --device wgpu"), @r"
    exit 2
    error: --device wgpu: expected a verb that runs a model, found one that does not
    hint: leave out --device
    ");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn an_existing_folder_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    small_cohort(dir.path());
    let say = |arguments: &str| transcript(dir.path(), arguments);
    insta::assert_snapshot!(say("simulate c --subjects 7 --regions 8 --frames 20"), @r"
    exit 2
    error: c exists and is a cohort made with other settings (subjects: made with 6, asked for 7); give another name, or remove it
    ");
    insta::assert_snapshot!(say("simulate c --subjects 6 --regions 8 --frames 20"), @r"
    exit 0
    c: 6 scans of 6 people, 8 regions
    Next: bdo inspect c
    note: c is already there, made with these settings
    ");
    write(dir.path(), "other/file.txt", "x");
    insta::assert_snapshot!(say("simulate other --subjects 6"), @r"
    exit 2
    error: other exists and is not a cohort; give another name, or remove it
    ");
    assert_eq!(names(dir.path()), ["c", "other"]);
}

#[test]
fn wrong_regions_and_tables() {
    let dir = tempfile::tempdir().unwrap();
    let say = |arguments: &str| transcript(dir.path(), arguments);
    write(dir.path(), "s/a.tsv", "x\ty\n1\t2\n3\t4\n");
    write(dir.path(), "s/b.tsv", "y\tx\n1\t2\n3\t4\n");
    write(dir.path(), "s/c.tsv", "x\tz\n1\t2\n3\t4\n");
    write(dir.path(), "s/d.tsv", "x\ty\n1\t2\n3\n");
    write(dir.path(), "s/e.tsv", "x\ty\n1\tNaN\n3\t4\n");
    insta::assert_snapshot!(say("ingest s out --tr 2"), @r"
    exit 1
    out: 2 scans of 2 people, 2 regions (2 added, 0 there already, 3 rejected, 0 badly covered)
    Next: bdo inspect out
    rejected: c.tsv: regions: expected the 2 regions of the cohort, found 2 named columns without y
    rejected: d.tsv: line 3: expected 2 columns, found 1
    rejected: e.tsv: series: expected a region that is NaN in all frames or in none, found 1 of 2 frames of region 2 are NaN
    ");
    write(dir.path(), "t/a.tsv", "x\ty\n1\tq\n");
    insta::assert_snapshot!(say("ingest t none --tr 2 --labels s/a.tsv"), @r#"
    exit 2
    rejected: a.tsv: line 2: expected numbers, found "q"
    error: expected at least one scan, found 1 that were rejected; every reason is in none/rejected.tsv
    "#);
    insta::assert_snapshot!(say("ingest s out2 --tr 2 --participants s/a.tsv"), @r"
    exit 2
    error: s/a.tsv: expected a column named participant_id, found x, y
    ");
    insta::assert_snapshot!(say("ingest s out --tr 2 --drop-volumes 1"), @r"
    exit 2
    error: out exists and was ingested with drop_volumes 0, not 1; give another name, or remove it
    ");
    insta::assert_snapshot!(say("ingest s out3 --tr 0"), @r"
    exit 2
    error: s: expected 0.05 to 20 s in --tr, found 0 s
    ");
    assert_eq!(names(dir.path()), ["none", "out", "s", "t"]);
    assert_eq!(names(&dir.path().join("none")), ["rejected.tsv"]);
}

#[test]
fn regions_are_matched_by_name_and_new_scans_are_added() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "s/a.tsv", "x\ty\n1\t2\n3\t4\n");
    assert!(run(dir.path(), "ingest s out --tr 2 --quiet").status.success());
    write(dir.path(), "s/b.tsv", "y\tx\n20\t10\n40\t30\n");
    insta::assert_snapshot!(transcript(dir.path(), "ingest s out --tr 2"), @r"
    exit 0
    out: 2 scans of 2 people, 2 regions (1 added, 1 there already, 0 rejected, 0 badly covered)
    Next: bdo inspect out
    ");
    let cohort = bdo_data::cohort::Cohort::open(&dir.path().join("out")).unwrap();
    assert_eq!(cohort.scan(1).unwrap().series, [10.0, 20.0, 30.0, 40.0]);
    write(dir.path(), "s/a.tsv", "x\ty\n1\t2\n3\t5\n");
    let said = transcript(dir.path(), "ingest s out --tr 2");
    assert!(said.starts_with("exit 1\n") && said.contains("rejected: a.tsv: changed since it was ingested"), "{said}");
    assert_eq!(cohort.scan(0).unwrap().series, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(names(dir.path()), ["out", "s"]);
}

#[test]
fn a_damaged_cohort_is_named_with_its_scan() {
    let dir = tempfile::tempdir().unwrap();
    small_cohort(dir.path());
    let part = dir.path().join("c/scans/part-00000.arrow");
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let said = transcript(dir.path(), "inspect c --verify");
    assert!(said.starts_with("exit 2\n"), "{said}");
    assert!(
        said.contains("c/scans/part-00000.arrow is damaged: expected BLAKE3") && said.contains("(scan sub-"),
        "{said}"
    );
}

#[test]
fn every_verb_has_help_with_an_example() {
    let dir = tempfile::tempdir().unwrap();
    let help = transcript(dir.path(), "--help");
    for verb in [
        "demo",
        "simulate",
        "ingest",
        "label",
        "merge",
        "inspect",
        "pretrain",
        "evaluate",
        "embed",
        "probe",
        "finetune",
        "predict",
        "compare",
        "sweep",
        "reproduce",
        "report",
        "watch",
        "serve",
        "baseline",
        "bench",
        "completions",
        "infer check",
    ] {
        assert!(help.contains(verb.split(' ').next().unwrap()));
        let said = transcript(dir.path(), &format!("{verb} --help"));
        assert!(said.starts_with("exit 0\n") && said.contains("Example"), "{said}");
        for flag in ["General:", "--json", "--quiet", "--threads", "--seed"] {
            assert!(said.contains(flag), "{verb} has no {flag}");
        }
    }
}

#[test]
fn options_are_grouped_and_closed_choices_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(transcript(dir.path(), "embed -h"));
    insta::assert_snapshot!(transcript(dir.path(), "--help"));
    let compare = transcript(dir.path(), "compare --help");
    for heading in ["Input:", "Output:", "Training:", "People:", "Statistics:", "General:"] {
        assert!(compare.contains(&format!("\n{heading}\n")), "{heading} is not in {compare}");
    }
    assert!(compare.contains("- bdo-coupling:"), "{compare}");
    // Scripts that ask for what always holds still run.
    assert!(
        transcript(dir.path(), "simulate c --subjects 6 --regions 8 --frames 20 --deterministic").starts_with("exit 0")
    );
}

#[test]
fn errors_are_said_with_their_causes_and_hints() {
    let dir = tempfile::tempdir().unwrap();
    small_cohort(dir.path());
    let say = |arguments: &str| transcript(dir.path(), arguments);
    let key = say("pretrain --data c --out r --set train.epoch=1");
    assert!(key.starts_with("exit 2\nerror: ") && key.contains("epochs") && key.lines().count() == 2, "{key}");
    insta::assert_snapshot!(say("baseline braingnn --data c --target sex --out r --set model.activate_output=1"));
    insta::assert_snapshot!(say("pretrain --data c --out r --config nothing.toml"), @r"
    exit 2
    error: cannot read nothing.toml: it does not exist
    ");
    assert!(!dir.path().join("r").exists());
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_program_quietly() {
    let dir = tempfile::tempdir().unwrap();
    small_cohort(dir.path());
    let mut child = bdo()
        .args(["inspect", "c"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Closed before anything is printed.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn completions_and_man_pages_are_written() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let said = transcript(dir.path(), &format!("completions {shell}"));
        assert!(said.starts_with("exit 0\n") && said.contains("pretrain"), "{shell}");
        // Not every generator lists values.
        assert!(["elvish", "powershell"].contains(&shell) || said.contains("log-covariance"), "{shell}");
    }
    assert!(transcript(dir.path(), "completions man --out man").starts_with("exit 0\n"));
    let pages = names(&dir.path().join("man"));
    assert!(pages.contains(&"bdo.1".to_owned()) && pages.contains(&"bdo-infer-check.1".to_owned()), "{pages:?}");
    assert!(transcript(dir.path(), "completions man").contains("--out"));
}
