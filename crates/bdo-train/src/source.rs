//! The scans of a run: whose they are, in which order they come, and how one is made ready.

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::{Division, Scheme, Split, SplitError};
use bdo_data::random::{shuffle, stream};
use bdo_data::scaler::FittedRobustScaler;
use bdo_model::intake::{HostBatch, MaskSettings, NoiseShape, Sample, VisitKey};
use rayon::prelude::*;
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
}

/// How many people train and how many are held out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Share held out for validation, and again for testing.
    pub held_out_percent: u32,
    /// Seed of the division.
    pub seed: u64,
    /// Share of the training people that is used.
    pub data_fraction: f64,
}

/// The scans cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum SourceError {
    #[error(transparent)]
    Cohort(#[from] CohortError),
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Nobody to train on.
    #[error("expected at least one scan with a valid region to train on, found none")]
    Empty,
}

impl ScanSource {
    /// Divides the people and fits the scaler. Test people are never read again.
    pub fn new(cohort: Cohort, shares: Shares) -> Result<Self, SourceError> {
        let scheme = Scheme::HoldOut { percent: shares.held_out_percent };
        let split = Division::of(&cohort)?.split(None, scheme, shares.seed)?;
        Self::of_split(cohort, split, shares)
    }

    /// With the people of a split; of the shares only that of the training people counts. Test people are never read.
    pub fn of_split(cohort: Cohort, split: Split, shares: Shares) -> Result<Self, SourceError> {
        let scaler = FittedRobustScaler::fit(&cohort, &split.train)?;
        let mut trained: Vec<String> = split.train.subjects().to_vec();
        shuffle(&mut trained, &mut stream("data fraction", &[shares.seed]));
        trained.truncate(((shares.data_fraction * trained.len() as f64).round() as usize).max(1));
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
            return Err(SourceError::Empty);
        }
        Ok(Self { cohort: Arc::new(cohort), scaler: Arc::new(scaler), split, train, validation })
    }

    /// The cohort.
    pub fn cohort(&self) -> &Cohort {
        &self.cohort
    }

    /// The scaler.
    pub fn scaler(&self) -> &FittedRobustScaler {
        &self.scaler
    }

    /// The division of people.
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

    /// Reads, centres and scales scans and draws a batch of visits; scans the scaler leaves without a valid region are
    /// left out, and a batch without any scan is `None`.
    pub fn batch(
        &self,
        scans: &[usize],
        seed: u64,
        epoch: u64,
        mask: &MaskSettings,
        noise: NoiseShape,
    ) -> Result<Option<HostBatch>, CohortError> {
        let samples: Vec<Option<Sample>> = scans
            .par_iter()
            .map(|&scan| {
                let scaled = self.scaler.apply(&self.cohort.scan(scan)?);
                let key = VisitKey { seed, epoch, scan: scan as u64 };
                Ok(scaled.region_valid.contains(&true).then_some(Sample { scan: scaled, key }))
            })
            .collect::<Result<_, CohortError>>()?;
        let samples: Vec<Sample> = samples.into_iter().flatten().collect();
        Ok((!samples.is_empty()).then(|| HostBatch::draw(&samples, mask, noise)))
    }

    /// Which part of an epoch's order belongs to a step; the last batch of an epoch may be smaller.
    pub fn batch_range(&self, place: u64, batch_size: usize) -> Range<usize> {
        let from = place as usize * batch_size;
        from..(from + batch_size).min(self.train.len())
    }

    /// Steps of one pass.
    pub fn steps_per_epoch(&self, batch_size: usize) -> u64 {
        self.train.len().div_ceil(batch_size) as u64
    }
}
