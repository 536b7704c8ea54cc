//! kill -9 at any moment of a write; run again: the same bytes as without the kill.

use std::time::{Duration, Instant};

use bdo_data::random::{below, stream};
use rustix::process::Signal;

use crate::program::{bytes, ended_before_kill, interrupted, names, run, torture};

const ARGUMENTS: &str = "--subjects 160 --regions 60 --frames 120 --part-mib 1 --quiet";

#[test]
fn a_killed_write_goes_on_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    assert!(run(dir.path(), &format!("simulate whole {ARGUMENTS}")).status.success());
    let mut whole_micros = started.elapsed().as_micros() as u64;
    let expected = bytes(&dir.path().join("whole"));
    let (kills, mut landed, mut continued, mut kill) = (torture(50, 10), 0, 0, 0);
    let mut suffix = None;
    while landed < kills {
        let mut rng = stream("kill", &[kill]);
        let name = format!("killed-{kill}");
        let moment = Duration::from_micros(below(&mut rng, whole_micros));
        if let Some(ended) = ended_before_kill(dir.path(), &format!("simulate {name} {ARGUMENTS}"), moment) {
            // A busy machine made the first run slow; from now on kills come sooner.
            whole_micros = whole_micros.min(ended.as_micros() as u64);
        } else {
            landed += 1;
        }
        let partial = names(dir.path()).into_iter().find(|n| n.starts_with(&format!("{name}.partial")));
        suffix = partial.as_ref().and_then(|p| p.strip_prefix(name.as_str())).map(str::to_owned).or(suffix);
        let has_work = |p: &String| names(&dir.path().join(p).join("work")).iter().any(|n| n.starts_with("part-"));
        continued +=
            usize::from(partial.as_ref().is_some_and(|p| dir.path().join(p).join("work").is_dir() && has_work(p)));
        let again = run(dir.path(), &format!("simulate {name} {ARGUMENTS}"));
        assert!(again.status.success(), "kill {kill}: {}", String::from_utf8_lossy(&again.stderr));
        assert_eq!(bytes(&dir.path().join(&name)), expected, "kill {kill}");
        std::fs::remove_dir_all(dir.path().join(&name)).unwrap();
        kill += 1;
        assert!(kill < 20 * kills as u64, "only {landed} of {kill} kills landed before the end");
    }
    assert_eq!(names(dir.path()), ["whole"], "nothing else is left behind");
    // A kill between the last rename and the removal of the work, which hardly ever lands there by chance.
    let left = dir.path().join(format!("whole{}", suffix.expect("a kill that landed leaves a partial folder")));
    for work in ["work", ""] {
        std::fs::create_dir_all(left.join(work)).unwrap();
        assert!(run(dir.path(), &format!("simulate whole {ARGUMENTS}")).status.success());
        assert_eq!(names(dir.path()), ["whole"], "left behind with {work:?}");
    }
    println!(
        "COUNTED: {landed} kills of a write landed in the middle, {continued} of them with finished parts to go on from"
    );
}

#[test]
fn an_interrupt_stops_with_a_sentence_and_can_be_continued() {
    let dir = tempfile::tempdir().unwrap();
    // The first of a hundred parts is written after signals are listened to.
    let begun = || {
        let partial = names(dir.path()).into_iter().find(|n| n.starts_with("c.partial"));
        partial.is_some_and(|p| {
            let work = dir.path().join(p).join("work");
            std::fs::read_dir(work)
                .is_ok_and(|files| files.flatten().any(|f| f.file_name().to_string_lossy().starts_with("part-")))
        })
    };
    let output = interrupted(
        dir.path(),
        "simulate c --subjects 4000 --regions 60 --frames 120 --part-mib 1",
        Signal::TERM,
        begun,
        || std::fs::remove_dir_all(dir.path().join("c")).unwrap(),
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("interrupted after") && error.contains("run the same command again to go on"), "{error}");
    assert!(!dir.path().join("c").exists());
}
