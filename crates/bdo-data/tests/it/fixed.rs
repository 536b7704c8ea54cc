//! Cohorts in folders that cannot change places with others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bdo_data::cohort::{self, Cohort, Provenance};
use bdo_data::participants::Participants;

use crate::fixture::{bytes, cohort as build};

fn corrected() -> Participants {
    Participants::parse("t.tsv", b"participant_id\tage\nsub-000\t77\n", &[]).unwrap()
}

fn copy(from: &Path, to: &Path) {
    for (name, content) in bytes(from) {
        fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
        fs::write(to.join(&name), content).unwrap();
    }
}

#[test]
fn a_process_killed_while_it_replaces_tables_leaves_a_cohort_that_can_be_read_and_finished() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    build(&before, 6);
    copy(&before, &after);
    cohort::label(&after, &corrected(), "label").unwrap();
    let (old, new) = (bytes(&before), bytes(&after));
    let changed: Vec<&String> = new.keys().filter(|name| old.get(*name) != new.get(*name)).collect();
    assert!(changed.len() >= 4, "{changed:?}");
    for moved in 0..=changed.len() {
        let killed = dir.path().join(format!("killed-{moved}"));
        copy(&before, &killed);
        fs::create_dir(killed.join(".ready")).unwrap();
        for (i, name) in changed.iter().enumerate() {
            let place = if i < moved { killed.join(name) } else { killed.join(".ready").join(name) };
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, &new[*name]).unwrap();
        }
        let opened = Cohort::open(&killed).unwrap();
        assert_eq!(opened.participants().get(0, "age"), Some("77"), "{moved} files moved");
        assert_eq!(cohort::verify(&killed).unwrap(), []);
        cohort::label(&killed, &corrected(), "label").unwrap();
        assert_eq!(bytes(&killed), new, "{moved} files moved");
        assert!(!killed.join(".ready").exists());
    }
}

/// A file system of its own, where the machine lets us mount one.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(at).output().ok()?;
        mounted.status.success().then(|| Self(at.to_path_buf()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_mount_point_takes_a_merged_cohort_and_new_labels() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(&dir.path().join("mounted")) else {
        println!("SKIPPED: this machine does not let us mount a disk, the test of mount points did not run");
        return;
    };
    let plain = dir.path().join("plain");
    let cohorts = [build(&dir.path().join("a"), 6)];
    for out in [&disk.0, &plain] {
        cohort::merge(&cohorts, out, vec![Provenance::of("merge", serde_json::json!({}))], &["x".to_owned()]).unwrap();
        let table = Participants::parse("t.tsv", b"participant_id\tage\nsub-x000\t77\n", &[]).unwrap();
        // A reader of before goes on with what it has opened.
        let reader = Cohort::open(out).unwrap();
        assert_eq!(cohort::label(out, &table, "label").unwrap().people, 1);
        assert_eq!(reader.scan(5).unwrap().id, Cohort::open(out).unwrap().scan(5).unwrap().id);
        assert_eq!(cohort::verify(out).unwrap(), []);
    }
    assert_eq!(bytes(&disk.0), bytes(&plain), "a mount point holds what any folder does, and nothing else");
}
