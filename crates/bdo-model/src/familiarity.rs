//! When not to trust the model: how far a scan lies from those it was trained on, in what was measured and in what the
//! model makes of it.

use crate::control::{Encoded, encode_cohort};
use crate::error::ModelError;
use crate::frozen::FrozenModel;
use crate::noise::fill_normal;
use crate::pooling::Pooling;
use bdo_data::cohort::{Cohort, IndexEntry, Observer};
use bdo_data::durable;
use bdo_data::random::stream;
use bdo_kernels::linalg::{dot, remove_directions};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a model directory, or the folder of a head, says of the scans that are familiar.
pub const FAMILIARITY_FILE: &str = "familiarity.json";
/// Training scans, and scans of other people, that say what is familiar.
pub(crate) const MOST_SCANS: [usize; 2] = [300, 100];

/// Directions in which features are compared; the rest counts as one more.
const DIRECTIONS: usize = 16;
/// Rounds of subspace iteration: directions need not be exact, only the same every time.
const ROUNDS: usize = 30;
/// A scan farther than this share of the known ones is looked at, farther than the second is not trusted.
const FAR: [f64; 2] = [0.95, 0.995];
/// How far a repetition time or a length may lie outside the known range, as a factor.
const SLACK: f64 = 1.25;
/// How much larger the share of missing regions may be than in any known scan before a scan is looked at, and is not trusted.
const MISSING: [f64; 2] = [0.02, 0.2];

/// What is known about a scan before anything is predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanFacts {
    /// The universal feature.
    pub feature: Vec<f32>,
    /// Repetition time.
    pub tr_seconds: f64,
    /// Kept frames.
    pub frames: usize,
    /// Mean square of the scaled values.
    pub variance: f64,
    /// Mean framewise displacement, where known.
    pub motion_mm: Option<f64>,
    /// Share of the model's regions that carry no signal.
    pub missing: f64,
    /// Whether the model was trained on it.
    pub trained_on: bool,
}

impl ScanFacts {
    /// Of a scan of a cohort with its control.
    pub fn of_entry(frozen: &FrozenModel, entry: &IndexEntry, encoded: &Encoded<'_>) -> Self {
        let trained_on = frozen.people.has_scan(entry);
        Self { trained_on, ..Self::of(entry.tr_seconds, entry.mean_fd_mm, encoded) }
    }

    /// Of a scan nothing else is known about.
    pub fn of(tr_seconds: f64, motion_mm: Option<f64>, encoded: &Encoded<'_>) -> Self {
        let scan = encoded.scan;
        let valid = scan.region_valid.iter().filter(|v| **v).count();
        let values = (valid * scan.times_seconds.len()).max(1) as f64;
        Self {
            feature: Pooling::Mean.of_control(&encoded.control),
            tr_seconds,
            frames: scan.times_seconds.len(),
            variance: scan.values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / values,
            motion_mm,
            missing: 1.0 - valid as f64 / scan.region_valid.len().max(1) as f64,
            trained_on: false,
        }
    }

    /// Of scans of a cohort, in their order; scans without a usable region are left out.
    pub fn of_scans(
        frozen: &FrozenModel,
        cohort: &Cohort,
        scans: &[usize],
        observer: &dyn Observer,
    ) -> Result<Vec<Self>, ModelError> {
        let mut found = Vec::with_capacity(scans.len());
        encode_cohort(frozen, cohort, scans, observer, |i, encoded| {
            found.push((i, Self::of_entry(frozen, &cohort.index()[i], &encoded)));
        })?;
        found.sort_by_key(|(i, _)| *i);
        Ok(found.into_iter().map(|(_, facts)| facts).collect())
    }
}

/// The scans a model knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Familiarity {
    mean: Vec<f64>,
    directions: Vec<Vec<f64>>,
    spread: Vec<f64>,
    rest: f64,
    /// Distances of scans of validation people, increasing.
    distances: Vec<f64>,
    /// Shortest and longest repetition time of training scans.
    pub tr_seconds: [f64; 2],
    /// Fewest and most frames of training scans.
    pub frames: [usize; 2],
    /// Mean square of scaled values: where the middle 99 % of training scans lie.
    pub variance: [f64; 2],
    /// Motion that 99 % of training scans stay below, where known.
    pub motion_mm: Option<f64>,
    /// Largest share of missing regions of a training scan, where known.
    #[serde(default)]
    pub missing: Option<f64>,
}

/// Contents of [`FAMILIARITY_FILE`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    /// The model whose features are compared.
    model_blake3: String,
    familiarity: Familiarity,
}

/// What to make of a scan, from the least reason for doubt to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Like those the model knows.
    Usual,
    /// At the edge of them.
    Unusual,
    /// Outside: what the model says of it was never checked.
    Outside,
}

impl Trust {
    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Unusual => "unusual",
            Self::Outside => "outside",
        }
    }
}

/// How far a scan is from known ones, and why that matters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Distance in the space of features.
    pub distance: f64,
    /// Share of known scans that are nearer; unknown of a scan that was trained on, and where nobody says how far is far.
    pub percentile: Option<f64>,
    /// What to make of it.
    pub trust: Trust,
    /// What is unusual, in words.
    pub reasons: Vec<String>,
}

impl Familiarity {
    /// What is familiar to a model after training on some scans of a cohort; others say how far new scans lie. `None` where
    /// there are too few.
    pub fn of_cohort(
        frozen: &FrozenModel,
        cohort: &Cohort,
        training: &[usize],
        others: &[usize],
        observer: &dyn Observer,
    ) -> Result<Option<Self>, ModelError> {
        let some = |scans: &[usize], most: usize| -> Vec<usize> {
            scans.iter().copied().step_by(scans.len().div_ceil(most).max(1)).collect()
        };
        let training = ScanFacts::of_scans(frozen, cohort, &some(training, MOST_SCANS[0]), observer)?;
        let others = ScanFacts::of_scans(frozen, cohort, &some(others, MOST_SCANS[1]), observer)?;
        Ok(Self::fit(&training, &others))
    }

    /// Reads what a folder says is familiar to a model; `None` where it says nothing or means another model.
    pub fn read(folder: &Path, model_blake3: &str) -> Result<Option<Self>, ModelError> {
        let path = folder.join(FAMILIARITY_FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let stored: Stored = serde_json::from_slice(&durable::read(&path)?)
            .map_err(|error| ModelError::refused(&path, "what scans are familiar to a model", error))?;
        Ok((stored.model_blake3 == model_blake3).then_some(stored.familiarity))
    }

    /// Leaves it in a folder.
    pub fn write(&self, folder: &Path, model_blake3: &str) -> Result<(), ModelError> {
        let stored = Stored { model_blake3: model_blake3.to_owned(), familiarity: self.clone() };
        let text = serde_json::to_string(&stored).expect("what is familiar holds only finite numbers") + "\n";
        Ok(durable::write(&folder.join(FAMILIARITY_FILE), text.as_bytes())?)
    }

    /// From scans of training people; distances are learned from people the model was not trained on, where there are ten
    /// scans of them. `None` under ten training scans.
    pub fn fit(training: &[ScanFacts], validation: &[ScanFacts]) -> Option<Self> {
        if training.len() < 10 {
            return None;
        }
        let width = training[0].feature.len();
        let n = training.len() as f64;
        let mut mean = vec![0.0; width];
        for facts in training {
            mean.iter_mut().zip(&facts.feature).for_each(|(m, x)| *m += f64::from(*x) / n);
        }
        let centred: Vec<Vec<f64>> = training.iter().map(|f| minus(&f.feature, &mean)).collect();
        let directions = leading_directions(&centred, DIRECTIONS.min(training.len() / 4));
        let along = |direction: &Vec<f64>| centred.iter().map(|row| dot(row, direction).powi(2)).sum::<f64>() / n;
        let spread: Vec<f64> = directions.iter().map(|d| along(d).max(f64::MIN_POSITIVE)).collect();
        let rest = centred.iter().map(|row| dot(row, row)).sum::<f64>() / n - spread.iter().sum::<f64>();
        let column = |pick: fn(&ScanFacts) -> f64| {
            let mut values: Vec<f64> = training.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (tr, frames, variance) = (column(|f| f.tr_seconds), column(|f| f.frames as f64), column(|f| f.variance));
        let motion = column(|f| f.motion_mm.unwrap_or(f64::NAN));
        let at = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        let mut found = Self {
            mean,
            directions,
            spread,
            rest: rest.max(f64::MIN_POSITIVE),
            distances: Vec::new(),
            tr_seconds: [tr[0], tr[tr.len() - 1]],
            frames: [frames[0] as usize, frames[frames.len() - 1] as usize],
            variance: [at(&variance, 0.005), at(&variance, 0.995)],
            motion_mm: motion.iter().all(|m| m.is_finite()).then(|| at(&motion, 0.99)),
            missing: Some(training.iter().map(|f| f.missing).fold(0.0, f64::max)),
        };
        let validation = if validation.len() < 10 { &[] } else { validation };
        let mut distances: Vec<f64> = validation.iter().map(|f| found.distance(&f.feature)).collect();
        distances.sort_by(f64::total_cmp);
        found.distances = distances;
        Some(found)
    }

    /// Whether there is anything to compare with.
    pub fn is_known(&self) -> bool {
        !self.mean.is_empty()
    }

    fn distance(&self, feature: &[f32]) -> f64 {
        let centred = minus(feature, &self.mean);
        let along: Vec<f64> = self.directions.iter().map(|d| dot(&centred, d).powi(2)).collect();
        let rest = (dot(&centred, &centred) - along.iter().sum::<f64>()).max(0.0);
        (along.iter().zip(&self.spread).map(|(a, s)| a / s).sum::<f64>() + rest / self.rest).sqrt()
    }

    /// What to make of a scan; `None` where nothing is known to compare with.
    pub fn judge(&self, facts: &ScanFacts) -> Option<Verdict> {
        if !self.is_known() || facts.feature.len() != self.mean.len() {
            return None;
        }
        let distance = self.distance(&facts.feature);
        // Features of scans that were trained on are fitted to them and lie farther out than those of new people, who are
        // what distances are compared with.
        let comparable = !facts.trained_on && !self.distances.is_empty();
        let nearer = || self.distances.partition_point(|d| *d < distance) as f64 / self.distances.len() as f64;
        let percentile = comparable.then(nearer);
        let mut reasons = Vec::new();
        let mut trust = Trust::Usual;
        if let Some(share) = percentile.filter(|share| *share > FAR[0]) {
            reasons.push(format!("its feature is farther out than {:.1} % of known scans", 100.0 * share));
            // Beyond all known ones by half as much again: the percentile cannot say more.
            let beyond = share > FAR[1] && self.distances.last().is_some_and(|farthest| distance > 1.5 * farthest);
            trust = if beyond { Trust::Outside } else { Trust::Unusual };
        }
        let mut outside = |name: &str, found: f64, low: f64, high: f64, unit: &str| {
            if found < low / SLACK || found > high * SLACK {
                reasons.push(format!("{name} {found:.3}{unit}, known are {low:.3} to {high:.3}{unit}"));
                trust = Trust::Outside;
            }
        };
        outside("repetition time", facts.tr_seconds, self.tr_seconds[0], self.tr_seconds[1], " s");
        outside("variance", facts.variance, self.variance[0], self.variance[1], "");
        if (facts.frames as f64) < self.frames[0] as f64 / SLACK {
            reasons.push(format!("{} frames, known are {} or more", facts.frames, self.frames[0]));
            trust = trust.max(Trust::Unusual);
        }
        if let (Some(found), Some(known)) = (facts.motion_mm, self.motion_mm)
            && found > known
        {
            reasons.push(format!("motion {found:.2} mm, 99 % of known scans have less than {known:.2} mm"));
            trust = trust.max(Trust::Unusual);
        }
        if let Some(known) = self.missing
            && facts.missing > known + MISSING[0]
        {
            let [found, most] = [facts.missing, known].map(|share| 100.0 * share);
            reasons.push(format!("{found:.0} % of the regions are missing, known are at most {most:.0} %"));
            let far = facts.missing > known + MISSING[1];
            trust = trust.max(if far { Trust::Outside } else { Trust::Unusual });
        }
        Some(Verdict { distance, percentile, trust, reasons })
    }
}

fn minus(feature: &[f32], mean: &[f64]) -> Vec<f64> {
    feature.iter().zip(mean).map(|(x, m)| f64::from(*x) - m).collect()
}

/// Orthonormal directions of largest spread, by subspace iteration from a fixed start.
fn leading_directions(rows: &[Vec<f64>], count: usize) -> Vec<Vec<f64>> {
    let width = rows[0].len();
    let count = count.min(width);
    let start = |i: usize| {
        let mut values = vec![0.0f32; width];
        fill_normal(&mut stream("familiarity", &[i as u64]), &mut values);
        values.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>()
    };
    let mut directions: Vec<Vec<f64>> = (0..count).map(start).collect();
    for _ in 0..ROUNDS {
        for direction in &mut directions {
            let mut next = vec![0.0; width];
            for row in rows {
                let weight = dot(row, direction);
                next.iter_mut().zip(row).for_each(|(n, x)| *n += weight * x);
            }
            *direction = next;
        }
        for i in 0..count {
            let (done, rest) = directions.split_at_mut(i);
            remove_directions(&mut rest[0], done);
            let length = dot(&rest[0], &rest[0]).sqrt().max(f64::MIN_POSITIVE);
            rest[0].iter_mut().for_each(|x| *x /= length);
        }
    }
    directions
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn facts(seed: u64, shift: f32) -> ScanFacts {
        let mut feature = vec![0.0f32; 24];
        fill_normal(&mut stream("familiarity test", &[seed]), &mut feature);
        feature[0] = 5.0 * feature[0] + shift;
        ScanFacts {
            feature,
            tr_seconds: 2.0,
            frames: 150,
            variance: 1.0,
            motion_mm: Some(0.1),
            missing: 0.0,
            trained_on: false,
        }
    }

    #[test]
    fn what_lies_outside_is_named() {
        let training: Vec<ScanFacts> = (0..80).map(|i| facts(i, 0.0)).collect();
        let validation: Vec<ScanFacts> = (100..160).map(|i| facts(i, 0.0)).collect();
        let known = Familiarity::fit(&training, &validation).unwrap();
        let usual = (200..300).filter(|i| known.judge(&facts(*i, 0.0)).unwrap().trust == Trust::Usual).count();
        // 95 % are expected; Binomial(100, 0.95) has a standard deviation of 2.2, the estimate of the quantile adds 2.8.
        assert!(usual >= 80, "{usual}");
        assert_eq!(known.judge(&facts(1, 500.0)).unwrap().trust, Trust::Outside);
        let other = known.judge(&ScanFacts { tr_seconds: 0.7, ..facts(1, 0.0) }).unwrap();
        assert!(other.trust == Trust::Outside && other.reasons[0].starts_with("repetition time 0.700 s"), "{other:?}");
        let moved = known.judge(&ScanFacts { motion_mm: Some(2.0), ..facts(201, 0.0) }).unwrap();
        assert!(moved.trust != Trust::Usual && moved.reasons.iter().any(|r| r.starts_with("motion 2.00 mm")));
        let patchy = known.judge(&ScanFacts { missing: 0.3, ..facts(201, 0.0) }).unwrap();
        assert!(patchy.trust == Trust::Outside && patchy.reasons.iter().any(|r| r.starts_with("30 % of the regions")));
        let trained = known.judge(&ScanFacts { trained_on: true, ..facts(1, 500.0) }).unwrap();
        assert_eq!(trained.trust, Trust::Usual, "a scan that was trained on is compared with nobody");
        let alone = Familiarity::fit(&training, &[]).unwrap();
        assert_eq!(alone.judge(&facts(1, 500.0)).unwrap().trust, Trust::Usual, "nobody says how far is far");
        assert_eq!(alone.judge(&ScanFacts { tr_seconds: 4.0, ..facts(1, 0.0) }).unwrap().trust, Trust::Outside);
        assert!(Familiarity::fit(&training[..5], &validation).is_none());
    }
}
