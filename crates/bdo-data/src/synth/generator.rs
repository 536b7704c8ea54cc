//! Scans of a synthetic cohort, each made on its own.

use serde::Serialize;

use super::constants::{CONSTANTS, Constants, LABEL_WEIGHTS, LabelWeights};
use super::dynamics::{Brain, drift_matrix};
use super::layout::Layout;
use super::measurement::{displacement, signal};
use super::person::{Person, PersonTruth, subject_name};
use super::population::{Population, RegionTruth};
use super::site::Site;
use super::spec::{SynthError, SynthSpec};
use super::stream::{Purpose, Stream};
use crate::atlas::{Network, Region};

/// Makes the scans of a synthetic cohort. Scan i depends on the spec and on i, not on any other scan.
pub struct Generator {
    spec: SynthSpec,
    layout: Layout,
    population: Population,
    sites: Vec<Site>,
}

/// One synthetic scan.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthScan {
    /// `sub-0001`, ...
    pub subject: String,
    /// `ses-01`, ...; absent when everybody has one session.
    pub session: Option<String>,
    pub site: String,
    pub tr_seconds: f64,
    /// True time of each volume kept; irregular after censoring.
    pub frame_times_seconds: Vec<f64>,
    /// Row-major volumes x regions, in scanner units.
    pub series: Vec<f32>,
    /// Displacement to the preceding acquired volume, one per volume kept.
    pub framewise_displacement_mm: Vec<f32>,
}

/// What everybody in a synthetic cohort shares; enough, with [`PersonTruth`], to write down every equation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truth {
    pub spec: SynthSpec,
    /// The order of every array over networks.
    pub networks: [Network; 8],
    pub constants: Constants,
    /// Which label acts on which network.
    pub label_weights: LabelWeights,
    pub regions: Vec<RegionTruth>,
    /// Mean coupling between network drives, (to, from), in units of the drive rate.
    pub between: [[f64; 8]; 8],
    pub sites: Vec<Site>,
}

impl Generator {
    /// Checks the spec and prepares what all scans share.
    pub fn new(spec: SynthSpec) -> Result<Self, SynthError> {
        spec.validate()?;
        let layout = Layout::new(spec.regions);
        let population = Population::new(spec.population_seed, &layout);
        let sites = Site::all(&spec);
        Ok(Generator { spec, layout, population, sites })
    }

    pub fn spec(&self) -> &SynthSpec {
        &self.spec
    }

    pub fn regions(&self) -> &[Region] {
        &self.layout.regions
    }

    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Subjects times sessions.
    pub fn scan_count(&self) -> usize {
        self.spec.subjects * self.spec.sessions
    }

    /// The subject of a scan; the sessions of a subject are neighbours.
    pub fn subject_of_scan(&self, scan: usize) -> usize {
        scan / self.spec.sessions
    }

    /// What a study would know of a subject. Panics if there is no such subject.
    pub fn person(&self, subject: usize) -> Person {
        let truth = self.person_truth(subject);
        truth.observed(&self.spec, subject, &self.sites[truth.site].name)
    }

    /// A subject's true labels and parameters. Panics if there is no such subject.
    pub fn person_truth(&self, subject: usize) -> PersonTruth {
        assert!(subject < self.spec.subjects, "subject {subject} of {}", self.spec.subjects);
        PersonTruth::new(&self.spec, subject)
    }

    pub fn truth(&self) -> Truth {
        Truth {
            spec: self.spec.clone(),
            networks: Network::ALL,
            constants: CONSTANTS,
            label_weights: LABEL_WEIGHTS,
            regions: self.population.regions.clone(),
            between: Population::between(),
            sites: self.sites.clone(),
        }
    }

    /// The drift of a subject's latent state, per second: row-major over the regions, eight drives, the global drive.
    pub fn drift_matrix(&self, subject: usize) -> Vec<f64> {
        drift_matrix(&self.population, &self.layout, &self.person_truth(subject))
    }

    /// Makes one scan. Panics if `index` is not below [`Generator::scan_count`].
    pub fn scan(&self, index: usize) -> SynthScan {
        assert!(index < self.scan_count(), "scan {index} of {}", self.scan_count());
        let subject = self.subject_of_scan(index);
        let session = index % self.spec.sessions;
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
        let scan = SynthScan {
            subject: subject_name(&self.spec, subject),
            session: (self.spec.sessions > 1).then(|| format!("ses-{:02}", session + 1)),
            site: site.name.clone(),
            tr_seconds: site.tr_seconds,
            frame_times_seconds: (0..frames).map(|frame| frame as f64 * site.tr_seconds).collect(),
            series,
            framewise_displacement_mm: moved_mm.iter().map(|&mm| mm as f32).collect(),
        };
        match self.spec.censor_fd_mm {
            Some(limit_mm) => scan.censored(limit_mm, self.spec.regions),
            None => scan,
        }
    }
}

impl SynthScan {
    /// Leaves out volumes that moved more than the limit, but never goes below the two stillest.
    fn censored(self, limit_mm: f64, regions: usize) -> SynthScan {
        let fd = &self.framewise_displacement_mm;
        let mut ascending = fd.clone();
        ascending.sort_by(f32::total_cmp);
        let limit = (limit_mm as f32).max(ascending[1]);
        let kept: Vec<usize> = (0..fd.len()).filter(|&frame| fd[frame] <= limit).collect();
        SynthScan {
            frame_times_seconds: kept.iter().map(|&frame| self.frame_times_seconds[frame]).collect(),
            series: kept
                .iter()
                .flat_map(|&frame| &self.series[frame * regions..(frame + 1) * regions])
                .copied()
                .collect(),
            framewise_displacement_mm: kept.iter().map(|&frame| fd[frame]).collect(),
            ..self
        }
    }
}
