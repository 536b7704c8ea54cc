//! Scans of a synthetic cohort, each made on its own, and the cohort at rest with the truth beside it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::constants::{CONSTANTS, LABEL_WEIGHTS};
use super::dynamics::Brain;
use super::measurement::{Site, displacement, signal};
use super::person::{PersonTruth, subject_name};
use super::population::{Layout, Population};
use super::spec::SynthSpec;
use super::stream::{Purpose, Stream};
use crate::atlas::{Network, Region};
use crate::cohort::{BuildReport, Cohort, CohortError, Observer, Plan, Provenance, Tables, build};
use crate::participants::{ColumnNote, Participants};
use crate::problem::Problem;
use crate::scan::{Scan, ScanId, Source};

/// Makes the scans of a synthetic cohort. Scan i depends on the spec and on i, not on any other scan.
pub struct Generator {
    spec: SynthSpec,
    pub(super) layout: Layout,
    pub(super) population: Population,
    pub(super) sites: Vec<Site>,
}

impl Generator {
    pub fn new(spec: SynthSpec) -> Result<Self, Problem> {
        spec.validate()?;
        let layout = Layout::new(spec.regions);
        let population = Population::new(spec.population_seed, &layout);
        let sites = (0..spec.sites).map(|index| Site::new(&spec, index)).collect();
        Ok(Generator { spec, layout, population, sites })
    }

    pub fn spec(&self) -> &SynthSpec {
        &self.spec
    }

    pub fn regions(&self) -> &[Region] {
        &self.layout.regions
    }

    /// Subjects times sessions.
    pub fn scan_count(&self) -> usize {
        self.spec.subjects * self.spec.sessions
    }

    /// A subject's true labels and parameters. Panics if there is no such subject.
    pub fn person_truth(&self, subject: usize) -> PersonTruth {
        assert!(subject < self.spec.subjects, "subject {subject} of {}", self.spec.subjects);
        PersonTruth::new(&self.spec, subject)
    }

    /// What everybody shares; enough, with [`PersonTruth`], to write down every equation. Arrays over networks are in the order of
    /// `networks`; `between` is the mean coupling between their drives, (to, from), in units of the drive rate.
    fn truth(&self) -> Value {
        json!({
            "spec": self.spec,
            "networks": Network::ALL,
            "constants": CONSTANTS,
            "label_weights": LABEL_WEIGHTS,
            "regions": self.population.regions,
            "between": Population::between(),
            "sites": self.sites,
        })
    }

    /// What a study would know of the subjects.
    pub fn participants(&self) -> Participants {
        let mut people = Participants::with_columns(["age", "sex", "diagnosis", "trait", "site", "family_id"]);
        for subject in 0..self.spec.subjects {
            let truth = self.person_truth(subject);
            let labels = truth.observed(&self.spec, subject, &self.sites[truth.site].name);
            people.insert(subject_name(&self.spec, subject), labels);
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

    /// Makes one scan. Panics if `index` is not below [`Generator::scan_count`].
    pub fn scan(&self, index: usize) -> Scan {
        assert!(index < self.scan_count(), "scan {index} of {}", self.scan_count());
        // The sessions of a subject are neighbours.
        let (subject, session) = (index / self.spec.sessions, index % self.spec.sessions);
        let person = self.person_truth(subject);
        let site = &self.sites[person.site];
        let stream = |purpose| Stream::new(self.spec.seed, purpose, subject, session);
        let frames = self.spec.frames;
        let states = Brain::new(&self.population, &self.layout, &person, site.tr_seconds).run(
            frames,
            self.spec.regions,
            &mut stream(Purpose::State),
        );
        let moved_mm = displacement(&person, site.tr_seconds, frames, &mut stream(Purpose::Motion));
        let series =
            signal(&states, &moved_mm, &self.population, &self.layout, site, &mut stream(Purpose::Measurement));
        let fd: Vec<f32> = moved_mm.iter().map(|&mm| mm as f32).collect();
        // Volumes that moved more than the limit are left out, but never the two stillest.
        let limit_mm = self.spec.censor_fd_mm.map_or(f32::INFINITY, |limit_mm| {
            let mut ascending = fd.clone();
            ascending.sort_by(f32::total_cmp);
            (limit_mm as f32).max(ascending[1])
        });
        let kept: Vec<usize> = (0..frames).filter(|&t| fd[t] <= limit_mm).collect();
        let regions = self.spec.regions;
        Scan {
            id: ScanId {
                session: (self.spec.sessions > 1).then(|| format!("ses-{:02}", session + 1)),
                ..ScanId::of_subject(subject_name(&self.spec, subject))
            },
            site: Some(site.name.clone()),
            tr_seconds: site.tr_seconds,
            frame_times_seconds: kept.iter().map(|&t| t as f64 * site.tr_seconds).collect(),
            series: kept.iter().flat_map(|&t| &series[t * regions..(t + 1) * regions]).copied().collect(),
            framewise_displacement_mm: Some(kept.iter().map(|&t| fd[t]).collect()),
            coverage: None,
            source: Source { name: "simulated".into(), ..Source::default() },
        }
    }
}

/// Size in MiB at which a part of a synthetic cohort is closed by default; a kill costs at most this much work.
pub const PART_MIB: u64 = 32;

pub fn provenance(spec: &SynthSpec, part_mib: u64) -> Provenance {
    let mut settings = serde_json::to_value(spec).expect("a specification is plain data");
    settings["part_mib"] = part_mib.into();
    Provenance::of("simulate", settings)
}

pub fn simulate(
    generator: &Generator,
    out: &Path,
    part_mib: u64,
    observer: &dyn Observer,
) -> Result<Cohort, CohortError> {
    let plan = Plan {
        provenance: provenance(generator.spec(), part_mib),
        atlas_name: "schaefer400-tian3".into(),
        regions: generator.regions().iter().map(Into::into).collect(),
        items: generator.scan_count(),
        part_bytes: part_mib << 20,
    };
    let tables = |_: &BuildReport| Tables { participants: generator.participants(), extras: truth_files(generator) };
    build(out, &plan, |i| Ok(generator.scan(i)), tables, observer)?;
    Cohort::open(out)
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
