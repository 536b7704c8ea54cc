//! A synthetic cohort at rest: scans made in parallel and stored in order, with the truth beside them.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Generator, SynthScan, SynthSpec};
use crate::cohort::{BuildReport, Cohort, CohortError, Observer, Plan, Provenance, Tables, build};
use crate::participants::{ColumnNote, Participants};
use crate::region::Region;
use crate::scan::{Scan, ScanId, Source};

/// Size in MiB at which a part of a synthetic cohort is closed by default; a kill costs at most this much work.
pub const PART_MIB: u64 = 32;

/// What decides a synthetic cohort.
pub fn provenance(spec: &SynthSpec, part_mib: u64) -> Provenance {
    let mut settings = serde_json::to_value(spec).expect("a specification is plain data");
    settings["part_mib"] = part_mib.into();
    Provenance::of("simulate", settings)
}

/// Builds the cohort in `out`, or goes on with one that was interrupted.
pub fn simulate(
    generator: &Generator,
    out: &Path,
    part_mib: u64,
    observer: &dyn Observer,
) -> Result<Cohort, CohortError> {
    let plan = Plan {
        provenance: provenance(generator.spec(), part_mib),
        atlas_name: "schaefer400-tian3".into(),
        regions: generator.regions().iter().map(Region::from).collect(),
        items: generator.scan_count(),
        part_bytes: part_mib << 20,
    };
    let tables = |_: &BuildReport| Tables { participants: people(generator), extras: truth_files(generator) };
    build(out, &plan, |i| Ok(generator.scan(i).into()), tables, observer)?;
    Cohort::open(out)
}

impl From<SynthScan> for Scan {
    fn from(made: SynthScan) -> Self {
        Self {
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
}

fn people(generator: &Generator) -> Participants {
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
    for (column, description, units) in [
        ("age", "Age; slows the rates and weakens coupling within networks", Some("years")),
        ("sex", "Sex; shifts coupling between networks", None),
        ("diagnosis", "Diagnosis; weakens salience and default coupling", None),
        ("trait", "A trait; raises control and attention coupling", None),
        ("family_id", "Siblings share it", None),
    ] {
        let (description, units) = (Some(description.to_owned()), units.map(str::to_owned));
        people.describe(column, ColumnNote { description, units, levels: BTreeMap::new() });
    }
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
