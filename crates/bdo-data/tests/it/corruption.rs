//! Any damage to a stored cohort is found, and the scan is named.

use std::path::Path;

use bdo_data::cohort::{Cohort, verify};
use bdo_data::random::{below, stream};

use crate::fixture::{bytes, cohort, torture};

/// What verification says: its complaints as text, and the scans they name.
fn complaints(folder: &Path) -> (Vec<String>, Vec<String>) {
    match verify(folder) {
        Ok(damages) => {
            (damages.iter().map(|d| d.message.clone()).collect(), damages.into_iter().flat_map(|d| d.scans).collect())
        }
        Err(error) => {
            let scans = match &error {
                bdo_data::cohort::CohortError::Damaged { scans, .. } => scans.clone(),
                _ => vec![],
            };
            (vec![error.to_string()], scans)
        }
    }
}

/// The scans whose stored bytes include this position of this file.
fn scans_at(cohort: &Cohort, file: &str, position: u64) -> Vec<String> {
    let holds = |e: &&bdo_data::cohort::IndexEntry| {
        cohort.manifest().parts[e.part].file == file && (e.offset..e.offset + e.bytes).contains(&position)
    };
    cohort.index().iter().filter(holds).map(|e| e.id.to_string()).collect()
}

#[test]
fn a_clean_cohort_has_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    cohort(&dir.path().join("c"), 12);
    assert_eq!(complaints(&dir.path().join("c")).0, Vec::<String>::new());
}

#[test]
fn every_flipped_bit_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("c");
    let opened = cohort(&folder, 12);
    let files: Vec<(String, Vec<u8>)> = bytes(&folder).into_iter().collect();
    let total: u64 = files.iter().map(|(_, b)| b.len() as u64).sum();
    let mut in_scans = 0;
    for flip in 0..torture(1000, 100) {
        let mut rng = stream("flip", &[flip as u64]);
        let mut at = below(&mut rng, total);
        let (name, content) = files
            .iter()
            .find(|(_, b)| {
                at < b.len() as u64 || {
                    at -= b.len() as u64;
                    false
                }
            })
            .unwrap();
        let mut damaged = content.clone();
        damaged[at as usize] ^= 1 << below(&mut rng, 8);
        std::fs::write(folder.join(name), &damaged).unwrap();
        let (messages, scans) = complaints(&folder);
        assert!(!messages.is_empty(), "flip {flip} in {name} at {at} was not found");
        let base = Path::new(name).file_name().unwrap().to_string_lossy();
        assert!(messages.iter().any(|m| m.contains(&*base)), "flip {flip} in {name}: {messages:?}");
        for scan in scans_at(&opened, name, at) {
            assert!(scans.contains(&scan), "flip {flip} in {scan} at {at} of {name} was found as {messages:?}");
            in_scans += 1;
        }
        std::fs::write(folder.join(name), content).unwrap();
    }
    println!("COUNTED: {} flipped bits, all found, {in_scans} of them in scans", torture(1000, 100));
    assert!(in_scans > torture(1000, 100) / 3, "most bytes of a cohort are scans, yet only {in_scans} flips hit one");
}

#[test]
fn every_truncation_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("c");
    let opened = cohort(&folder, 12);
    let files: Vec<(String, Vec<u8>)> = bytes(&folder).into_iter().collect();
    for cut in 0..torture(200, 20) {
        let mut rng = stream("cut", &[cut as u64]);
        let (name, content) = &files[below(&mut rng, files.len() as u64) as usize];
        let keep = below(&mut rng, content.len() as u64) as usize;
        std::fs::write(folder.join(name), &content[..keep]).unwrap();
        let (messages, scans) = complaints(&folder);
        assert!(!messages.is_empty(), "{name} cut to {keep} bytes was not found");
        for position in keep..content.len() {
            for scan in scans_at(&opened, name, position as u64) {
                assert!(scans.contains(&scan), "{scan} lost bytes of {name} and was not named: {messages:?}");
            }
        }
        std::fs::write(folder.join(name), content).unwrap();
    }
    println!("COUNTED: {} truncations, all found", torture(200, 20));
}

#[test]
fn a_missing_or_foreign_file_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("c");
    cohort(&folder, 4);
    std::fs::write(folder.join("scans/part-00009.arrow"), b"x").unwrap();
    assert!(complaints(&folder).0[0].contains("part-00009.arrow"));
    std::fs::remove_file(folder.join("scans/part-00009.arrow")).unwrap();
    std::fs::remove_file(folder.join("truth/note.txt")).unwrap();
    assert!(complaints(&folder).0[0].contains("note.txt"));
}

#[test]
fn a_damaged_scan_is_refused_when_it_is_read_and_the_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("c");
    let opened = cohort(&folder, 6);
    let entry = opened.index()[3].clone();
    let path = folder.join(&opened.manifest().parts[entry.part].file);
    let mut content = std::fs::read(&path).unwrap();
    content[(entry.offset + entry.bytes / 2) as usize] ^= 4;
    std::fs::write(&path, content).unwrap();
    let opened = Cohort::open(&folder).unwrap();
    let message = opened.scan(3).unwrap_err().to_string();
    assert!(message.contains(&format!("(scan {})", entry.id)), "{message}");
    for i in [0, 1, 2, 4, 5] {
        opened.scan(i).unwrap();
    }
}
