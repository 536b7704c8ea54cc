//! CIFTI series: parcels by name, strays, labels, and notes that outlive an interruption.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use bdo_data::cohort::Observer;
use bdo_data::ingest::{Format, IngestOptions, ingest as store, plan};

use super::make::{NAMES, REGIONS, dlabel, dlabel_of_keys, dtseries, ptseries, ptseries_of, value, write};
use super::makers::every;
use super::{Silent, ingest, only, refused};

#[test]
fn a_stray_file_of_other_parcels_that_sorts_first_is_not_the_cohort() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    ptseries_of(&source.join("000.ptseries.nii"), &["x", "y", "z"], 9, &every(), "0.72");
    for person in 1..4 {
        ptseries(&source.join(format!("10{person}.ptseries.nii")), person, &every(), "0.72");
    }
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &IngestOptions::default());
    assert_eq!((cohort.len(), cohort.regions()[0].name.as_str()), (3, NAMES[0]));
    assert_eq!(
        only(&report),
        "000.ptseries.nii: regions: expected the 4 regions of the cohort, found 3 parcels without LH_a, RH_a, LH_b, RH_b"
    );
}

#[test]
fn parcels_in_another_order_are_matched_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    ptseries(&source.join("101.ptseries.nii"), 1, &every(), "0.72");
    let turned: Vec<&str> = NAMES.iter().rev().copied().collect();
    ptseries_of(&source.join("102.ptseries.nii"), &turned, 2, &every(), "0.72");
    let (cohort, report) = ingest(&source, &dir.path().join("c"), &IngestOptions::default());
    assert_eq!((cohort.len(), report.rejected.len()), (2, 0));
    assert_eq!(cohort.regions()[0].name, NAMES[0]);
    // The file's last column is the cohort's first region.
    assert_eq!(cohort.scan(1).unwrap().series[0], value(2, 0, REGIONS - 1));
}

#[test]
fn a_label_of_the_map_that_the_table_does_not_know_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("s");
    dtseries(&source.join("101.dtseries.nii"), 1, &every(), "0.72", |_, x| x);
    let atlas = dir.path().join("a.dlabel.nii");
    let options = IngestOptions { atlas: Some(atlas.clone()), ..IngestOptions::default() };
    dlabel(&atlas);
    assert_eq!(ingest(&source, &dir.path().join("c"), &options).0.len(), 1);
    dlabel_of_keys(&atlas, |key| if key == 3 { 9 } else { key });
    let said = refused(&source, &dir.path().join("d"), &options);
    assert!(said.ends_with("label table: expected a label of key 9, found none"), "{said}");
}

/// Stops once something was stored in a finished part.
struct StopLate(AtomicBool, usize);

impl Observer for StopLate {
    fn advance(&self, done: usize, _: usize) {
        self.0.fetch_or(done >= self.1, Ordering::SeqCst);
    }
    fn stop_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn notes_on_reading_are_repeated_after_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("s"), dir.path().join("c"));
    // More than one part: 16 MiB each.
    let (frames, people) = (600_000, 24);
    for person in 0..people {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({frames}, 2), }}\n");
        let mut array = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
        array.extend((0..2 * frames).flat_map(|i| ((i * (person + 3)) as f32).to_le_bytes()));
        write(&source.join(format!("1{person:02}.npy")), array);
    }
    let options = IngestOptions { format: Some(Format::Series), ..IngestOptions::default() };
    // Two threads read eight scans at a time, between which a run can stop.
    let few = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let late = StopLate(AtomicBool::new(false), 9);
    let stopped = few.install(|| store(&plan(&source, &options).unwrap(), &out, &late));
    assert!(stopped.is_err());
    fs::write(source.join("100.npy"), "not read again").unwrap();
    let report = store(&plan(&source, &options).unwrap(), &out, &Silent).unwrap();
    assert_eq!((report.added, report.rejected.len()), (people, 0), "the finished part was taken up");
    let note = format!("{people} scans, first 100.npy: nothing says the repetition time: 1 s is assumed");
    assert_eq!(report.notes, [note]);
}
