//! The scans of a run: whose they are, in which order they come, and how one is made ready.

use crate::error::TrainError;
use crate::learner::Hand;
use crate::settings::TrainSettings;
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::{Division, Scheme, Split};
use bdo_data::random::{shuffle, stream};
use bdo_data::scaler::FittedRobustScaler;
use bdo_model::config::ModelConfig;
use bdo_model::fingerprint::{self, Acquisition, FittedFingerprint, together};
use bdo_model::intake::{
    Kin, MaskSettings, MicroBatches, NoiseShape, Part, PlannedVisit, Sample, VisitKey, unit_sized,
};
use bdo_model::parameters::Parameters;
use bdo_model::smoother::{self, fit_smoother};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The people of a cohort, divided, with the scaler fitted on those that are trained on.
#[derive(Clone, Debug)]
pub struct ScanSource {
    cohort: Arc<Cohort>,
    scaler: Arc<FittedRobustScaler>,
    split: Split,
    /// Scans that are trained on.
    train: Vec<usize>,
    /// Scans of the people held out for validation.
    validation: Vec<usize>,
    /// Of every scan of the cohort.
    kin: Vec<Kin>,
}

/// How visits of a batch are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    pub seed: u64,
    pub epoch: u64,
    pub mask: MaskSettings,
    pub noise: NoiseShape,
    /// Whether each scan is visited twice, in disjoint halves, beside others scanned in the same way.
    pub pairs: bool,
    pub micro_batch_size: usize,
    pub hand: Hand,
}

impl ScanSource {
    /// Divides the people and fits the scaler. Test people are never read again.
    pub fn new(cohort: Cohort, settings: &TrainSettings) -> Result<Self, TrainError> {
        let scheme = Scheme::HoldOut { percent: settings.held_out_percent };
        let split = Division::of(&cohort)?.split(None, scheme, settings.split_seed)?;
        Self::of_split(cohort, split, settings)
    }

    /// With the people of a split, of whose training people a share may be used. Test people are never read.
    pub fn of_split(cohort: Cohort, split: Split, settings: &TrainSettings) -> Result<Self, TrainError> {
        let scaler = FittedRobustScaler::fit(&cohort, &split.train)?;
        let mut trained: Vec<String> = split.train.subjects().to_vec();
        shuffle(&mut trained, &mut stream("data fraction", &[settings.split_seed]));
        trained.truncate(((settings.data_fraction * trained.len() as f64).round() as usize).max(1));
        trained.sort();
        let usable = |i: &usize| {
            let entry = &cohort.index()[*i];
            entry.invalid_regions < cohort.regions().len() && entry.frames >= 2
        };
        let subject = |i: &usize| &cohort.index()[*i].id.subject;
        let train: Vec<usize> =
            (0..cohort.len()).filter(usable).filter(|i| trained.binary_search(subject(i)).is_ok()).collect();
        let validation = (0..cohort.len()).filter(usable).filter(|i| split.validation.contains(subject(i))).collect();
        if train.is_empty() {
            return Err(TrainError::NoScan);
        }
        let kin = kin_of(&cohort);
        let (cohort, scaler) = (Arc::new(cohort), Arc::new(scaler));
        Ok(Self { cohort, scaler, split, train, validation, kin })
    }

    /// The values a model starts with that are fitted on scans of training people, by name.
    pub fn fitted_start(&self, config: &ModelConfig, seed: u64) -> Result<Parameters, CohortError> {
        let regions = self.cohort.regions().len();
        let chosen = |purpose: &str, most: usize| {
            let mut scans = self.train.clone();
            shuffle(&mut scans, &mut stream(purpose, &[seed]));
            scans.truncate(most);
            scans
        };
        let mut start = Parameters::default();
        if config.fingerprint {
            let of = |series: &[f32]| together(config.fingerprint_of, series, regions);
            let whole = |&i: &usize| Ok(of(&self.cohort.scan(i)?.series));
            let acquired = |&i: &usize| {
                let entry = &self.cohort.index()[i];
                [entry.frames as f64, entry.tr_seconds, entry.span_seconds]
            };
            let halves = |&i: &usize| {
                let series = self.cohort.scan(i)?.series;
                let (first, second) = series.split_at(series.len() / regions / 2 * regions);
                Ok([of(first), of(second)])
            };
            let scans = chosen("fingerprint", fingerprint::MOST_SCANS);
            let halved = &scans[scans.len() - fingerprint::MOST_HALVED.min(scans.len() / 2)..];
            let halves = halved.par_iter().map(halves).collect::<Result<Vec<_>, CohortError>>()?;
            let acquired: Vec<Acquisition> = scans.iter().map(acquired).collect();
            let scans = scans.par_iter().map(whole).collect::<Result<Vec<_>, CohortError>>()?;
            let fitted = FittedFingerprint::fit(scans, halves, &acquired, config.width);
            start.0.extend(fitted.map(|fitted| fitted.parameters().0).unwrap_or_default());
        }
        if config.smoother {
            let of_scan = |&i: &usize| Ok(unit_sized(self.scaler.apply(&self.cohort.scan(i)?), config));
            let scans = chosen("smoother", smoother::MOST_SCANS);
            let scans = scans.par_iter().map(of_scan).collect::<Result<Vec<_>, CohortError>>()?;
            start.0.extend(fit_smoother(&scans, regions).unwrap_or_default().0);
        }
        Ok(start)
    }

    /// Whose scan it is, and how it was scanned.
    pub fn kin(&self, scan: usize) -> Kin {
        self.kin[scan]
    }

    pub fn cohort(&self) -> &Cohort {
        &self.cohort
    }

    pub fn scaler(&self) -> &FittedRobustScaler {
        &self.scaler
    }

    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Scans that are trained on.
    pub fn train_scans(&self) -> &[usize] {
        &self.train
    }

    /// Scans of validation people.
    pub fn validation_scans(&self) -> &[usize] {
        &self.validation
    }

    /// Training scans in the order of one pass: a function of seed and epoch alone.
    pub fn order(&self, seed: u64, epoch: u64) -> Vec<usize> {
        let mut order = self.train.clone();
        shuffle(&mut order, &mut stream("order", &[seed, epoch]));
        order
    }

    /// Training scans in groups of at most `most` that were scanned in the same way, in the order of one pass. How many groups
    /// there are does not depend on seed and epoch.
    pub fn groups(&self, most: usize, seed: u64, epoch: u64) -> Vec<Vec<usize>> {
        let mut alike: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for scan in self.order(seed, epoch) {
            alike.entry(self.kin[scan].group).or_default().push(scan);
        }
        let cut = |scans: &Vec<usize>| -> Vec<Vec<usize>> {
            // As even as possible: a group of one has nobody to be told from.
            let pieces = scans.len().div_ceil(most.max(1));
            (0..pieces).map(|i| scans[i * scans.len() / pieces..(i + 1) * scans.len() / pieces].to_vec()).collect()
        };
        let mut groups: Vec<Vec<usize>> = alike.values().flat_map(cut).collect();
        shuffle(&mut groups, &mut stream("groups", &[seed, epoch]));
        groups
    }

    /// Reads, centres and scales scans and draws a batch of visits, of which a hand is built; scans the scaler leaves without a
    /// valid region are left out, and a batch without any scan is `None`. In pairs, each scan is visited twice, in each of its
    /// halves.
    pub fn batch(&self, scans: &[usize], draw: &Draw) -> Result<Option<MicroBatches>, CohortError> {
        let parts: &[Part] = if draw.pairs { &[Part::FirstHalf, Part::SecondHalf] } else { &[Part::Whole] };
        let mut visits = Vec::with_capacity(scans.len() * parts.len());
        for &scan in scans {
            if !self.has_signal(scan)? {
                continue;
            }
            visits.extend(parts.iter().enumerate().map(|(visit, &part)| PlannedVisit {
                key: VisitKey { seed: draw.seed, epoch: draw.epoch, scan: scan as u64, visit: visit as u64 },
                part,
                kin: if draw.pairs { self.kin[scan] } else { Kin::default() },
                frames: self.cohort.index()[scan].frames,
            }));
        }
        if visits.is_empty() {
            return Ok(None);
        }
        let samples =
            |number: usize, range: Range<usize>| draw.hand.holds(number).then(|| self.samples(&visits[range]));
        MicroBatches::draw(&visits, draw.micro_batch_size, (&draw.mask, draw.noise), samples).map(Some)
    }

    /// Visits with their scans, each of which is read once.
    fn samples(&self, visits: &[PlannedVisit]) -> Result<Vec<Sample>, CohortError> {
        let of_scan = |visits: &&[PlannedVisit]| {
            let scan = Arc::new(self.scaler.apply(&self.cohort.scan(visits[0].key.scan as usize)?));
            let sample = |v: &PlannedVisit| Sample { scan: scan.clone(), visit: *v };
            Ok(visits.iter().map(sample).collect())
        };
        let scans: Vec<&[PlannedVisit]> = visits.chunk_by(|a, b| a.key.scan == b.key.scan).collect();
        let samples = scans.par_iter().map(of_scan).collect::<Result<Vec<Vec<Sample>>, CohortError>>()?;
        Ok(samples.into_iter().flatten().collect())
    }

    /// Whether the scaler leaves a scan a valid region. Read only where the counts of invalid regions do not say it.
    fn has_signal(&self, scan: usize) -> Result<bool, CohortError> {
        let missing = self.scaler.iqrs().iter().filter(|iqr| **iqr == 0.0).count();
        if self.cohort.index()[scan].invalid_regions + missing < self.scaler.iqrs().len() {
            return Ok(true);
        }
        Ok(self.scaler.apply(&self.cohort.scan(scan)?).region_valid.contains(&true))
    }
}

/// Numbers of people, and of ways of scanning: site and repetition time in milliseconds.
fn kin_of(cohort: &Cohort) -> Vec<Kin> {
    let mut people: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ways: BTreeMap<(Option<&str>, u64), usize> = BTreeMap::new();
    let mut kin = Vec::with_capacity(cohort.len());
    for (scan, entry) in cohort.index().iter().enumerate() {
        let (person, group) = (people.len(), ways.len());
        let way = (entry.site.as_deref(), (1000.0 * entry.tr_seconds).round().max(0.0) as u64);
        kin.push(Kin {
            scan,
            person: *people.entry(&entry.id.subject).or_insert(person),
            group: *ways.entry(way).or_insert(group),
        });
    }
    kin
}
