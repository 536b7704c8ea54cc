//! Trees as the tools people use name and write them, and what becomes of them.
//!
//! `make` writes single files, `makers` whole trees: XCP-D, fMRIPrep, `giga_connectome` and the pipelines of the Human Connectome
//! Project, after their public writers. Each test names the defect it guards against.

mod concerning_labels;
mod concerning_layouts;
mod concerning_parcels;
mod concerning_settings;
mod concerning_signal;
mod concerning_tables;
mod concerning_times;
mod make;
mod makers;

use std::path::{Path, PathBuf};

use bdo_data::bids::Selection;
use bdo_data::cohort::{Cohort, Observer, Rejection};
use bdo_data::ingest::{self, Format, IngestError, IngestOptions, IngestReport};

struct Silent;

impl Observer for Silent {
    fn advance(&self, _: usize, _: usize) {}
    fn stop_requested(&self) -> bool {
        false
    }
}

/// Tables with a frame every two seconds.
fn series() -> IngestOptions {
    IngestOptions { format: Some(Format::Series), tr_seconds: Some(2.0), ..IngestOptions::default() }
}

/// A table of all frames for each of these people.
fn tables(source: &Path, people: std::ops::Range<usize>) {
    for person in people {
        make::write(
            &source.join(format!("sub-{person}.tsv")),
            make::table(&make::NAMES, "\t", person, &makers::every()),
        );
    }
}

/// A tree of fMRIPrep, and what it is read with.
fn of_fmriprep(people: usize) -> (tempfile::TempDir, PathBuf, IngestOptions) {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("f");
    makers::fmriprep(&source, people);
    let options = IngestOptions { atlas: Some(make::atlas(dir.path())), ..IngestOptions::default() };
    (dir, source, options)
}

fn selecting(selection: Selection, options: IngestOptions) -> IngestOptions {
    IngestOptions { selection, ..options }
}

/// Plans and ingests as the program does.
fn run(source: &Path, out: &Path, options: &IngestOptions) -> Result<IngestReport, IngestError> {
    let plan = ingest::plan(source, options)?;
    let mut report = ingest::ingest(&plan, out, &Silent)?;
    report.notes.extend(plan.warnings);
    Ok(report)
}

/// The cohort, which must be whole.
fn open(out: &Path) -> Cohort {
    assert_eq!(bdo_data::cohort::verify(out).unwrap(), []);
    Cohort::open(out).unwrap()
}

/// Ingests what must be sound but for these rejects; returns the cohort and the report.
fn ingest(source: &Path, out: &Path, options: &IngestOptions) -> (Cohort, IngestReport) {
    let report = run(source, out, options).unwrap_or_else(|e| panic!("{e}"));
    (open(out), report)
}

/// What a refusal of everything, or of the settings, says.
fn refused(source: &Path, out: &Path, options: &IngestOptions) -> String {
    run(source, out, options).unwrap_err().to_string()
}

fn sentence(r: &Rejection) -> String {
    format!("{}: {}: expected {}, found {}", r.file, r.reason, r.expected, r.found)
}

/// The sentence of the only reject.
fn only(report: &IngestReport) -> String {
    let all: Vec<String> = report.rejected.iter().map(sentence).collect();
    assert_eq!(all.len(), 1, "{all:#?}");
    all[0].clone()
}
