//! Names and links that try to lead elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::fixture::{expect, ingest, open, text, tree};

fn series(folder: &Path, names: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    for (i, name) in names.iter().enumerate() {
        let rows = (0..20).fold(String::new(), |rows, t| rows + &format!("{}\t{}\n", t % 7, (t * 3 + 2 * i) % 11));
        fs::write(folder.join(name), format!("a\tb\n{rows}")).unwrap();
    }
}

#[test]
fn hostile_names_of_people_stay_labels() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let (source, out) = (work.join("source"), work.join("cohort"));
    series(
        &source,
        &["sub-..%2Fx_task-rest.tsv", "sub-..\\x.tsv", "...tsv", "sub-a\nb.tsv", "-rf.tsv", "$(touch x).tsv"],
    );
    fs::write(source.join("participants.tsv"), "participant_id\tage\n../../x\t3\nsub-..%2Fx\t4\n").unwrap();
    let before = tree(&source);
    let said = expect(1, &[text(&source), text(&out), "--format", "series", "--tr", "2"]);
    // A control character in a name is refused; everything else is a label like any other.
    assert!(said.contains("without control characters"), "{said}");
    assert!(!open(&out).is_empty());
    assert!(before == tree(&source));
    let mut beside: Vec<String> =
        fs::read_dir(&work).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    beside.sort();
    assert_eq!(beside, ["cohort", "source"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn links_planted_where_work_goes_on_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out, victim) = (dir.path().join("source"), dir.path().join("cohort"), dir.path().join("victim"));
    series(&source, &["1.tsv"]);
    fs::create_dir_all(victim.join("scans")).unwrap();
    fs::write(victim.join("scans/precious"), "x").unwrap();
    symlink(&victim, &out).unwrap();
    let arguments = [text(&source), text(&out), "--format", "series", "--tr", "2"];
    let said = expect(2, &arguments);
    assert!(said.contains("exists and is not a cohort"), "{said}");
    fs::remove_file(&out).unwrap();
    // The name of the working folder can be learned from an interrupted run; here from a run that is not allowed to end.
    fs::write(dir.path().join("source/2.tsv"), "no table").unwrap();
    expect(1, &arguments);
    let cohort = open(&out);
    let partial = format!("cohort.partial-{}", &cohort.manifest().provenance[0].settings_blake3[..8]);
    fs::remove_dir_all(&out).unwrap();
    symlink(&victim, dir.path().join(&partial)).unwrap();
    let said = expect(2, &arguments);
    assert!(said.contains("is a link to another place"), "{said}");
    fs::remove_file(dir.path().join(&partial)).unwrap();
    fs::create_dir_all(dir.path().join(&partial)).unwrap();
    symlink(&victim, dir.path().join(&partial).join("cohort")).unwrap();
    expect(2, &arguments);
    assert_eq!(tree(&victim).keys().collect::<Vec<_>>(), ["scans/precious"]);
}

#[test]
fn a_cohort_that_names_files_elsewhere_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("source"), dir.path().join("cohort"));
    series(&source, &["1.tsv"]);
    expect(0, &[text(&source), text(&out), "--format", "series", "--tr", "2"]);
    let sums = out.join("checksums.b3");
    let text_of_sums = fs::read_to_string(&sums).unwrap();
    let hash = blake3_of(b"evil");
    fs::write(&sums, format!("{hash}  ../../evil\n{text_of_sums}")).unwrap();
    let output = ingest(&[text(&source), text(&out), "--format", "series", "--tr", "2"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("a path outside the folder in line 1"), "{said}");
}

/// Any 64 hexadecimal digits will do: the path is refused before the file is looked for.
fn blake3_of(_: &[u8]) -> String {
    "0".repeat(64)
}
