//! What only the program can show: flags, exit codes, JSON, permissions, mounts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::fixture::{command, expect, ingest, noise, open, text};

fn series(folder: &Path, people: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    for (i, person) in people.iter().enumerate() {
        let row = |t: usize| format!("{}\t{}\n", noise(&[i, t, 1]), noise(&[i, t, 2]));
        let rows: String = (0..30).map(row).collect();
        fs::write(folder.join(format!("{person}.tsv")), format!("a\tb\n{rows}")).unwrap();
    }
}

fn bdo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bdo")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn thresholds_without_scrubbing_and_numbers_that_are_none_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    series(&source, &["1"]);
    let arguments = [text(&source), text(&out), "--tr", "2"];
    for flag in ["--fd-threshold", "--std-dvars-threshold", "--scrub-segment"] {
        let said = expect(2, &[&arguments[..], &[flag, "3"]].concat());
        assert!(said.contains(flag) && said.contains("hint: add --scrub"), "{said}");
    }
    for more in [
        ["--fd-threshold", "NaN"],
        ["--std-dvars-threshold", "inf"],
        ["--coverage-threshold", "NaN"],
        ["--min-regions", "2"],
    ] {
        expect(2, &[&arguments[..], &more, &["--scrub"]].concat());
    }
    expect(2, &[text(&source), text(&out), "--tr", "NaN"]);
    let said = expect(2, &[&arguments[..], &["--confounds", ""]].concat());
    assert!(said.contains("--confounds: expected names of columns, found \"\""), "{said}");
    assert!(!out.exists());
}

#[test]
fn everything_rejected_is_every_reason_in_json() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    series(&source, &["1"]);
    fs::write(source.join("1.tsv"), "a\tb\n1\tx\n").unwrap();
    fs::write(source.join("2.tsv"), "a\tb\n1.5\t2\n").unwrap();
    let output = ingest(&[text(&source), text(&out), "--tr", "2", "--json"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["scans"].as_u64(), json["rejected"].as_array().unwrap().len()), (Some(0), 2), "{json}");
    assert_eq!(fs::read_to_string(out.join("rejected.tsv")).unwrap().lines().count(), 3);
}

#[test]
fn merge_refuses_other_recipes_unless_told_and_inspect_shows_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    for (name, person, dropped) in [("a", "1", "0"), ("b", "2", "3")] {
        series(Path::new(&path(&format!("s{name}"))), &["x", person][1..]);
        // Different people have different series.
        let file = dir.path().join(format!("s{name}/{person}.tsv"));
        let scaled = fs::read_to_string(&file).unwrap() + &format!("0.{dropped}1\t0.5\n");
        fs::write(&file, scaled).unwrap();
        expect(0, &[&path(&format!("s{name}")), &path(name), "--tr", "2", "--drop-volumes", dropped]);
    }
    let output = bdo(&["merge", &path("a"), &path("b"), &path("ab")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("expected drop_volumes 0") && said(&output).contains("--different-recipes"));
    assert!(!dir.path().join("ab").exists());
    let output = bdo(&["merge", &path("a"), &path("b"), &path("ab"), "--different-recipes"]);
    assert!(output.status.success(), "{}", said(&output));
    let shown = said(&bdo(&["inspect", &path("ab")]));
    assert!(shown.contains("drop_volumes 0") && shown.contains("drop_volumes 3"), "{shown}");
}

#[test]
fn labels_are_corrected_without_reading_scans() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out, table) = (dir.path().join("s"), dir.path().join("c"), dir.path().join("p.tsv"));
    series(&source, &["1", "2"]);
    expect(0, &[text(&source), text(&out), "--tr", "2"]);
    fs::remove_dir_all(&source).unwrap();
    fs::write(&table, "participant_id\tage\n1\t20\n2\t30\n").unwrap();
    let output = bdo(&["label", text(&out), "--participants", text(&table)]);
    assert!(
        output.status.success() && said(&output).contains("labels of 2 people have changed in age"),
        "{}",
        said(&output)
    );
    assert_eq!(open(&out).participants().get(1, "age"), Some("30"));
    let again = said(&bdo(&["label", text(&out), "--participants", text(&table)]));
    assert!(again.contains("are those of the table already"), "{again}");
}

#[test]
fn one_folder_that_cannot_be_read_does_not_end_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    series(&source.join("a"), &["1"]);
    series(&source.join("closed"), &["0", "2"]);
    fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = command(&[text(&source), text(&out), "--tr", "2"]);
    if fs::read_dir(source.join("closed")).is_ok() {
        // The administrator reads everything: let somebody else try.
        command.uid(65_534).gid(65_534);
    }
    let output = command.output();
    fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    let Ok(output) = output.as_ref().map(said).map(|said| (said, output.as_ref().unwrap().status.code())) else {
        println!("SKIPPED: this machine does not let us run the program as somebody else");
        return;
    };
    assert_eq!(output.1, Some(1), "{}", output.0);
    assert!(output.0.contains("rejected: closed: folder: expected to be readable"), "{}", output.0);
    assert_eq!(open(&out).len(), 1);
}

/// A file system of its own at a folder, as a container has it, where the machine lets us mount one.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn at(folder: &'a Path) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(folder).output().ok()?;
        mounted.status.success().then_some(Self(folder))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_mount_point_becomes_the_cohort() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    series(&source, &["1", "2"]);
    let Some(_mount) = Mount::at(&out) else {
        println!("SKIPPED: this machine does not let us mount a file system");
        return;
    };
    let arguments = [text(&source), text(&out), "--tr", "2"];
    expect(0, &arguments);
    assert_eq!(open(&out).len(), 2);
    let again = expect(0, &arguments);
    assert!(again.contains("0 added, 2 there already"), "{again}");
    // It cannot change places with another folder, but takes new scans and labels all the same.
    fs::write(source.join("3.tsv"), fs::read_to_string(source.join("1.tsv")).unwrap() + "0.25\t0.5\n").unwrap();
    let added = expect(0, &arguments);
    assert!(added.contains("1 added, 2 there already"), "{added}");
    let table = dir.path().join("p.tsv");
    fs::write(&table, "participant_id\tage\n1\t20\n3\t30\n").unwrap();
    let output = bdo(&["label", text(&out), "--participants", text(&table)]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((open(&out).len(), open(&out).participants().get(2, "age")), (3, Some("30")));
    let hidden =
        fs::read_dir(&out).unwrap().filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "nothing of the work is left");
}
