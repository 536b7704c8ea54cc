//! kill -9 at any moment of a write; run again: the same bytes as without the kill.

use std::process::Stdio;
use std::time::{Duration, Instant};

use bdo_data::random::{below, stream};

use crate::program::{bdo, bytes, names, run, torture};

const ARGUMENTS: &str = "--subjects 160 --regions 60 --frames 120 --part-mib 1 --quiet";

#[test]
fn a_killed_write_goes_on_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    assert!(run(dir.path(), &format!("simulate whole {ARGUMENTS}")).status.success());
    let whole_micros = started.elapsed().as_micros() as u64;
    let expected = bytes(&dir.path().join("whole"));
    let (mut landed, mut continued) = (0, 0);
    for kill in 0..torture(50, 10) {
        let mut rng = stream("kill", &[kill as u64]);
        let name = format!("killed-{kill}");
        let mut child = bdo()
            .args(format!("simulate {name} {ARGUMENTS}").split_whitespace())
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(below(&mut rng, whole_micros)));
        child.kill().unwrap();
        landed += usize::from(!child.wait().unwrap().success());
        let partial = names(dir.path()).into_iter().find(|n| n.starts_with(&format!("{name}.partial")));
        let has_work = |p: &String| names(&dir.path().join(p).join("work")).iter().any(|n| n.starts_with("part-"));
        continued +=
            usize::from(partial.as_ref().is_some_and(|p| dir.path().join(p).join("work").is_dir() && has_work(p)));
        let again = run(dir.path(), &format!("simulate {name} {ARGUMENTS}"));
        assert!(again.status.success(), "kill {kill}: {}", String::from_utf8_lossy(&again.stderr));
        assert_eq!(bytes(&dir.path().join(&name)), expected, "kill {kill}");
        std::fs::remove_dir_all(dir.path().join(&name)).unwrap();
    }
    assert_eq!(names(dir.path()), ["whole"], "nothing else is left behind");
    println!("{landed} kills landed in the middle, {continued} of them had finished parts to go on from");
    assert!(landed * 2 >= torture(50, 10), "only {landed} kills landed before the end");
}

#[test]
fn an_interrupt_stops_with_a_sentence_and_can_be_continued() {
    let dir = tempfile::tempdir().unwrap();
    let child = bdo()
        .args("simulate c --subjects 4000 --regions 60 --frames 120 --part-mib 1".split_whitespace())
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("interrupted after") && error.contains("run the same command again to go on"), "{error}");
    assert!(!dir.path().join("c").exists());
}
