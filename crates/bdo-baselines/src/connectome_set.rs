//! The connectomes of a cohort: computed once, shared by every split and seed.

use crate::connectivity::{ConnectivityKind, Connectome};
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::Split;
use bdo_eval::supervised::learner::Parts;
use rayon::prelude::*;
use std::sync::Arc;

/// Matrices of every usable scan, with whose they are.
#[derive(Clone, Debug)]
pub struct ConnectomeSet {
    pub regions: usize,
    connectomes: Vec<Arc<Connectome>>,
    subjects: Vec<String>,
    /// Names by their number in examples.
    pub people: Vec<String>,
    /// Scans that have too few frames or regions for a matrix.
    pub left_out: Vec<String>,
}

impl ConnectomeSet {
    /// Computes the matrices of all scans with at least two regions that have a signal. Matrices of a scan depend on that
    /// scan alone, so nothing of one person reaches another.
    pub fn of_cohort(cohort: &Cohort, kind: ConnectivityKind) -> Result<Self, CohortError> {
        let regions = cohort.regions().len();
        let usable = |i: &usize| cohort.index()[*i].invalid_regions + 2 <= regions && cohort.index()[*i].frames >= 3;
        let (chosen, others): (Vec<usize>, Vec<usize>) = (0..cohort.len()).partition(usable);
        let connectomes = chosen
            .par_iter()
            .map(|&i| Ok(Arc::new(Connectome::of_scan(&cohort.scan(i)?, kind))))
            .collect::<Result<_, CohortError>>()?;
        let subjects: Vec<String> = chosen.iter().map(|i| cohort.index()[*i].id.subject.clone()).collect();
        let mut people = subjects.clone();
        people.sort();
        people.dedup();
        let left_out = others.iter().map(|i| cohort.index()[*i].id.to_string()).collect();
        Ok(Self { regions, connectomes, subjects, people, left_out })
    }

    /// Deals the scans out to the parts of a split; `label` gives a person's label in units of the loss.
    pub fn parts(&self, split: &Split, label: impl Fn(&str) -> Option<f32>) -> Parts<Arc<Connectome>> {
        let scans = self.subjects.iter().map(String::as_str).zip(self.connectomes.iter().cloned());
        Parts::deal(split, scans, &label).0
    }
}
