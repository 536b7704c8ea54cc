//! Verbs called by another program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

use bdo::{CallError, Event, Host, call};

fn host() -> (Host, Receiver<Event>) {
    let (events, received) = channel();
    (Host { stop: Arc::new(AtomicBool::new(false)), events }, received)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_host_is_told_what_a_terminal_would_show() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("c").display().to_string();
    let simulate = words(&["simulate", &out, "--subjects", "3", "--regions", "12", "--frames", "40"]);
    let (caller, received) = host();
    let made = call(&simulate, caller).unwrap();
    assert_eq!((made.json["scans"].as_u64(), made.some_rejected), (Some(3), false));
    let events: Vec<Event> = received.iter().collect();
    assert_eq!(events.first(), Some(&Event::Started { what: "simulate".into(), total: 3 }));
    assert!(events.contains(&Event::At { done: 3, total: 3, message: String::new() }), "{events:?}");
    assert_eq!(events.last(), Some(&Event::Finished));

    let (caller, received) = host();
    call(&simulate, caller).unwrap();
    let said = format!("note: {out} is already there, made with these settings");
    assert_eq!(received.iter().collect::<Vec<_>>(), [Event::Said(said)]);
}

#[test]
fn a_host_can_stop_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("c").display().to_string();
    let (caller, _received) = host();
    caller.stop.store(true, Ordering::Relaxed);
    let refused = call(&words(&["simulate", &out, "--subjects", "3", "--regions", "12", "--frames", "40"]), caller);
    let Err(error @ CallError::Failed(_)) = refused else { panic!("expected an interruption, found {refused:?}") };
    assert_eq!(error.to_string(), "interrupted after 0 of 3; run the same command again to go on");
}

#[test]
fn errors_have_the_sentences_of_the_program() {
    let refused = |typed: &[&str]| call(&words(typed), host().0).unwrap_err().to_string();
    assert_eq!(
        refused(&["inspect", "nowhere"]),
        "nowhere is not a cohort: expected a folder with cohort.json, found nothing of that name"
    );
    let usage = refused(&["simulate", "c", "--subjects", "many"]);
    assert_eq!(usage, "invalid value 'many' for '--subjects <N>': invalid digit found in string");
    let lacking = refused(&["pretrain", "--out", "x"]);
    assert_eq!(lacking, "the following required arguments were not provided:\n  --data <COHORT>");
}
