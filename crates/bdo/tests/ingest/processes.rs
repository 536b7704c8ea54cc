//! Several processes into one cohort.

use std::process::Stdio;

use crate::fixture::{atlas, command, expect, fmriprep, open, text, tree};

#[test]
fn processes_that_run_at_once_all_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("fmriprep"), dir.path().join("cohort"));
    fmriprep(&root, 6);
    let atlas = atlas(dir.path());
    // Two of the four overlap: whoever publishes second works out again what is left.
    let labels = [&["01", "02"][..], &["02", "03"], &["04"], &["05", "06"]];
    let children: Vec<_> = labels
        .iter()
        .map(|labels| {
            let fixed = [text(&root), text(&out), "participant", "--atlas", text(&atlas), "--participant-label"];
            let mut command = command(&[&fixed[..], labels].concat());
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let cohort = open(&out);
    let subjects: Vec<&str> = cohort.index().iter().map(|e| e.id.subject.as_str()).collect();
    assert_eq!(subjects, ["sub-01", "sub-02", "sub-03", "sub-04", "sub-05", "sub-06"]);
    assert_eq!(cohort.participants().len(), 6);
    // The scans are those of one process that does it all.
    let alone = dir.path().join("alone");
    expect(0, &[text(&root), text(&alone), "--atlas", text(&atlas)]);
    let alone = open(&alone);
    for i in 0..6 {
        assert_eq!(cohort.scan(i).unwrap(), alone.scan(i).unwrap());
    }
    // Nothing is left lying about.
    let left: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|n| n.contains("cohort.") || n.contains("partial"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn adding_person_by_person_keeps_one_table_of_rejects() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("fmriprep"), dir.path().join("cohort"));
    fmriprep(&root, 3);
    std::fs::write(root.join("sub-02/func/sub-02_task-rest_space-MNI152NLin6Asym_desc-preproc_bold.nii"), "no")
        .unwrap();
    let atlas = atlas(dir.path());
    let arguments =
        |label: &'static str| [text(&root), text(&out), "--atlas", text(&atlas), "--participant-label", label];
    expect(0, &arguments("01"));
    expect(1, &arguments("02"));
    expect(0, &arguments("03"));
    let files = tree(&out);
    assert_eq!(open(&out).len(), 2);
    assert!(!files.keys().any(|f| f.starts_with("merged")), "{:?}", files.keys());
}
