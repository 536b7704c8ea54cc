//! The path from nothing to a report, one call a stage. A newcomer reads this file first; the demo runs it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::bail;
use bdo_data::cohort::{self, Cohort, Plan, Provenance, Tables};
use bdo_data::division::{Division, SplitManifest};
use bdo_data::durable;
use bdo_data::participants::{ColumnNote, Participants};
use bdo_data::record::is_run;
use bdo_data::region::Region;
use bdo_data::scaler::FittedRobustScaler;
use bdo_data::scan::{Scan, ScanId, Source};
use bdo_data::synth::{Generator, SynthSpec};
use clap::Parser;

use crate::cli::{Cli, Common};
use crate::commands;
use crate::progress::Progress;

/// A part of a synthetic cohort is closed at this size; a kill costs at most this much work.
pub(crate) const PART_MIB: u64 = 32;

/// What the demo left behind.
pub(crate) struct Demo {
    pub(crate) cohort: PathBuf,
    pub(crate) model: PathBuf,
    pub(crate) comparison: PathBuf,
    pub(crate) report: PathBuf,
    pub(crate) scans: usize,
}

/// The whole path, stage by stage, on a small synthetic cohort. A demo run again continues with what is there.
pub(crate) fn demo(out: &Path, common: &Common) -> anyhow::Result<Demo> {
    durable::create_folder(out)?;
    let spec = SynthSpec { subjects: 60, regions: 100, frames: 200, seed: common.seed, ..SynthSpec::default() };
    let folder = out.join("cohort");
    let cohort = match cohort::existing(&folder, &synthetic_provenance(&spec, PART_MIB))? {
        Some(cohort) => cohort,
        None => simulate(&Generator::new(spec)?, &folder, PART_MIB, common.quiet)?,
    };
    if let Some(damage) = cohort::verify(&folder)?.first() {
        bail!("{}", damage.message);
    }
    let splits = demo_splits(&cohort)?;
    durable::write(&out.join("splits.json"), serde_json::to_string_pretty(&splits)?.as_bytes())?;
    let split = &splits.splits[0];
    let scaler = FittedRobustScaler::fit(&cohort, &split.train)?;
    durable::write(&out.join("scaler.json"), serde_json::to_string_pretty(&scaler)?.as_bytes())?;

    let (run, comparison, report) = (out.join("run"), out.join("comparison"), out.join("report.html"));
    let model = run.join("model");
    let mut changed = false;
    if !model.exists() {
        let how: &[&str] = if is_run(&run) { &["--resume"] } else { &["--set", DEMO_EPOCHS] };
        stage("pretrain", &[("--data", &folder), ("--out", &run)], how, common)?;
        changed = true;
    }
    if changed || !comparison.join("table.json").exists() {
        let rows = ["--methods", "bdo-mean,bdo-coupling", "--targets", "sex,age"];
        stage("compare", &[("--data", &folder), ("--model", &model), ("--out", &comparison)], &rows, common)?;
        changed = true;
    }
    if changed || !report.exists() {
        let shown = [("--data", &folder), ("--out", &report), ("--", &folder), ("", &run), ("", &comparison)];
        stage("report", &shown, &[], common)?;
    }
    Ok(Demo { cohort: folder, model, comparison, report, scans: cohort.len() })
}

/// Enough for every part to move, in seconds; not enough to learn much.
const DEMO_EPOCHS: &str = "train.epochs=20";

/// Runs a verb as a user would, and says how. A path follows its flag, or stands alone.
fn stage(verb: &str, paths: &[(&str, &PathBuf)], rest: &[&str], common: &Common) -> anyhow::Result<()> {
    let mut words = vec![OsString::from("bdo"), verb.into()];
    words.extend(rest.iter().map(OsString::from));
    for (flag, path) in paths {
        if !flag.is_empty() {
            words.push(flag.into());
        }
        words.push(path.as_os_str().to_owned());
    }
    let typed: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    commands::note(common, &typed.join(" "));
    let cli = Cli::try_parse_from(&words)?;
    commands::verb(&cli.verb, &Common { within: true, ..common.clone() })?;
    Ok(())
}

/// Three seeds of the split that every method will share, for each label of the synthetic people.
fn demo_splits(cohort: &Cohort) -> anyhow::Result<SplitManifest> {
    let division = Division::of(cohort)?.with_sites(None);
    let mut splits = Vec::new();
    for target in ["age", "sex", "diagnosis", "trait"] {
        splits.extend(division.random(target, &[0, 1, 2])?.splits);
    }
    Ok(division.manifest(splits))
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
