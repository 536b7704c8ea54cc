//! The path from nothing to a report, one call a stage. A newcomer reads this file first; the demo runs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use bdo_data::cohort::{self, Cohort, Plan, Provenance, Tables};
use bdo_data::durable;
use bdo_data::participants::{ColumnNote, Participants};
use bdo_data::region::Region;
use bdo_data::scaler::FittedRobustScaler;
use bdo_data::scan::{Scan, ScanId, Source};
use bdo_data::split::{Scheme, SplitManifest, SplitSpec};
use bdo_data::synth::{Generator, SynthSpec};
use bdo_report::report::{Kind, Report};

use crate::progress::Progress;

/// A part of a synthetic cohort is closed at this size; a kill costs at most this much work.
pub(crate) const PART_MIB: u64 = 32;

/// What the demo left behind.
pub(crate) struct Demo {
    pub(crate) cohort: PathBuf,
    pub(crate) report: PathBuf,
    pub(crate) scans: usize,
}

/// The whole path, stage by stage, on a small synthetic cohort.
pub(crate) fn demo(out: &Path, seed: u64, quiet: bool) -> anyhow::Result<Demo> {
    durable::create_folder(out)?;
    let spec = SynthSpec { subjects: 60, regions: 100, frames: 200, seed, ..SynthSpec::default() };
    let folder = out.join("cohort");
    // A demo run again continues with what is there.
    let cohort = match cohort::existing(&folder, &synthetic_provenance(&spec, PART_MIB))? {
        Some(cohort) => cohort,
        None => simulate(&Generator::new(spec)?, &folder, PART_MIB, quiet)?,
    };
    if let Some(damage) = cohort::verify(&folder)?.first() {
        bail!("{}", damage.message);
    }
    let splits = demo_splits(&cohort)?;
    durable::write(&out.join("splits.json"), serde_json::to_string_pretty(&splits)?.as_bytes())?;
    let split = &splits.splits[0];
    let scaler = FittedRobustScaler::fit(&cohort, &split.train)?;
    durable::write(&out.join("scaler.json"), serde_json::to_string_pretty(&scaler)?.as_bytes())?;
    let report = out.join("report.html");
    durable::write(&report, demo_page(&cohort, &scaler)?.as_bytes())?;
    Ok(Demo { cohort: folder, report, scans: cohort.len() })
}

/// The page of the demo: its cohort, and what was done with it.
fn demo_page(cohort: &Cohort, scaler: &FittedRobustScaler) -> anyhow::Result<String> {
    let mut page = Report::new("BDO: a synthetic cohort", "bdo demo");
    page.methods.say("Scans of people with known dynamics were simulated; every stored byte was compared with its checksum before this page was drawn.", &[]);
    page.methods.say(
        format!(
            "Median and inter-quartile range of each region come from the {} scans of training people only (BLAKE3 of their list {}).",
            scaler.scans(),
            scaler.scans_blake3()
        ),
        &[],
    );
    page.add(&[(cohort.folder().to_path_buf(), Kind::Cohort)])?;
    Ok(page.finish(env!("CARGO_PKG_VERSION")))
}

/// Three seeds of the split that every method will share, for each label of the synthetic people.
fn demo_splits(cohort: &Cohort) -> anyhow::Result<SplitManifest> {
    let specs: Vec<SplitSpec> = ["age", "sex", "diagnosis", "trait"]
        .iter()
        .flat_map(|target| (0..3).map(move |seed| (target, seed)))
        .map(|(target, seed)| SplitSpec {
            target: Some((*target).to_owned()),
            family_column: Some("family_id".into()),
            site_column: Some("site".into()),
            scheme: Scheme::Random,
            seed,
        })
        .collect();
    Ok(SplitManifest::new(&cohort.content_blake3()?, cohort.participants(), &specs)?)
}

/// What decides a synthetic cohort.
pub(crate) fn synthetic_provenance(spec: &SynthSpec, part_mib: u64) -> Provenance {
    let mut settings = serde_json::to_value(spec).expect("a specification is plain data");
    settings["part_mib"] = part_mib.into();
    Provenance::of("simulate", settings)
}

/// Generator to cohort: scans are made in parallel and stored in order; the truth is kept beside them.
pub(crate) fn simulate(generator: &Generator, out: &Path, part_mib: u64, quiet: bool) -> anyhow::Result<Cohort> {
    let plan = Plan {
        provenance: synthetic_provenance(generator.spec(), part_mib),
        atlas_name: "schaefer400-tian3".into(),
        regions: generator.regions().iter().map(Region::from).collect(),
        items: generator.scan_count(),
        part_bytes: part_mib << 20,
    };
    let progress = Progress::start("simulate", plan.items, quiet)?;
    let tables =
        |_: &cohort::BuildReport| Tables { participants: synthetic_people(generator), extras: truth_files(generator) };
    let built = cohort::build(out, &plan, |i| Ok(synthetic_scan(generator, i)), tables, &progress);
    progress.finish();
    built?;
    Ok(Cohort::open(out)?)
}

fn synthetic_scan(generator: &Generator, i: usize) -> Scan {
    let made = generator.scan(i);
    Scan {
        id: ScanId { subject: made.subject, session: made.session, task: None, run: None },
        site: Some(made.site),
        tr_seconds: made.tr_seconds,
        frame_times_seconds: made.frame_times_seconds,
        series: made.series,
        framewise_displacement_mm: Some(made.framewise_displacement_mm),
        coverage: None,
        source: Source { name: "simulated".into(), ..Source::default() },
    }
}

fn synthetic_people(generator: &Generator) -> Participants {
    let mut people = Participants::with_columns(["age", "sex", "diagnosis", "trait", "site", "family_id"]);
    for i in 0..generator.spec().subjects {
        let person = generator.person(i);
        let number = |x: Option<f64>| x.map(|x| format!("{x:.4}"));
        let text = |x: Option<&str>| x.map(str::to_owned);
        let labels = vec![
            number(person.age_years),
            text(person.sex),
            text(person.diagnosis),
            number(person.trait_score),
            Some(person.site),
            Some(person.family),
        ];
        people.insert(person.subject, labels);
    }
    let note = |description: &str, units: Option<&str>| ColumnNote {
        description: Some(description.into()),
        units: units.map(str::to_owned),
        levels: BTreeMap::new(),
    };
    people.describe("age", note("Age; slows the rates and weakens coupling within networks", Some("years")));
    people.describe("sex", note("Sex; shifts coupling between networks", None));
    people.describe("diagnosis", note("Diagnosis; weakens salience and default coupling", None));
    people.describe("trait", note("A trait; raises control and attention coupling", None));
    people.describe("family_id", note("Siblings share it", None));
    people
}

fn truth_files(generator: &Generator) -> BTreeMap<String, Vec<u8>> {
    let group = serde_json::to_vec_pretty(&generator.truth()).expect("the truth is plain data");
    let mut people = Vec::new();
    for i in 0..generator.spec().subjects {
        serde_json::to_writer(&mut people, &generator.person_truth(i)).expect("the truth is plain data");
        people.push(b'\n');
    }
    BTreeMap::from([("truth/group.json".to_owned(), group), ("truth/people.jsonl".to_owned(), people)])
}
