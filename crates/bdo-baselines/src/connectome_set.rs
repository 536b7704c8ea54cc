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
    regions: usize,
    connectomes: Vec<Arc<Connectome>>,
    subjects: Vec<String>,
    people: Vec<String>,
    left_out: Vec<String>,
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

    pub fn regions(&self) -> usize {
        self.regions
    }

    /// Names of the people by their number in examples.
    pub fn people(&self) -> &[String] {
        &self.people
    }

    /// Scans that have too few frames or regions for a matrix.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Deals the scans out to the parts of a split; `label` gives a person's label in units of the loss.
    pub fn parts(&self, split: &Split, label: impl Fn(&str) -> Option<f32>) -> Parts<Arc<Connectome>> {
        let scans = self.subjects.iter().map(String::as_str).zip(self.connectomes.iter().cloned());
        Parts::deal(split, scans, &label).0
    }
}
