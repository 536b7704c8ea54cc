//! Whether the feature is of the brain or of the scanner's clock: the same scan sampled otherwise.

use crate::error::EvalError;
use crate::reliability::correlation;
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::random::{below, stream};
use bdo_data::scaler::ScaledScan;
use bdo_model::control::control_of;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Intake;
use bdo_model::pooling::Pooling;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "amount")]
pub enum Change {
    /// Every n-th frame is kept: n times the repetition time.
    Subsample(usize),
    /// One of every two frames at random.
    Jitter,
    /// So many frames of a hundred are lost.
    Drop(u64),
    /// The repetition time is stated wrongly by this factor.
    Stretch(f64),
}

impl Change {
    /// The curves: what is asked about each.
    pub const ALL: [Self; 12] = [
        Self::Subsample(2),
        Self::Subsample(3),
        Self::Subsample(4),
        Self::Jitter,
        Self::Drop(10),
        Self::Drop(30),
        Self::Drop(50),
        Self::Stretch(0.8),
        Self::Stretch(0.9),
        Self::Stretch(1.1),
        Self::Stretch(1.25),
        Self::Stretch(2.0),
    ];

    pub fn name(self) -> String {
        match self {
            Self::Subsample(n) => format!("every {n}. frame"),
            Self::Jitter => "one of two at random".to_owned(),
            Self::Drop(share) => format!("{share} % dropped"),
            Self::Stretch(factor) => format!("TR stated x {factor}"),
        }
    }

    fn apply(self, scan: &ScaledScan, rng: &mut impl Rng) -> ScaledScan {
        let frames = scan.times_seconds.len();
        let kept: Vec<usize> = match self {
            Self::Subsample(n) => (0..frames).step_by(n).collect(),
            Self::Jitter => (0..frames).step_by(2).map(|i| (i + below(rng, 2) as usize).min(frames - 1)).collect(),
            Self::Drop(share) => (0..frames).filter(|_| below(rng, 100) >= share).collect(),
            Self::Stretch(_) => (0..frames).collect(),
        };
        let factor = if let Self::Stretch(factor) = self { factor } else { 1.0 };
        let (regions, first) = (scan.region_valid.len(), kept.first().copied().unwrap_or(0));
        ScaledScan {
            times_seconds: kept.iter().map(|&i| factor * (scan.times_seconds[i] - scan.times_seconds[first])).collect(),
            values: kept.iter().flat_map(|&i| scan.values[i * regions..(i + 1) * regions].iter().copied()).collect(),
            region_valid: scan.region_valid.clone(),
        }
    }
}

/// How alike features are before and after a change.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeScore {
    pub change: Change,
    pub scans: usize,
    /// Mean correlation of the two features of a scan, each number centred over scans.
    pub similarity: f64,
    /// The same between different scans.
    pub between: f64,
    /// Share of scans whose changed feature is nearest to their own.
    pub identified: f64,
}

/// Compares the features of scans with those of their changed copies.
pub fn invariance(
    frozen: &FrozenModel,
    cohort: &Cohort,
    scans: &[usize],
    pooling: Pooling,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Vec<ChangeScore>, EvalError> {
    let intake = Intake::new(&frozen.contract, cohort)?;
    let feature =
        |scan: &ScaledScan| -> Result<Vec<f32>, EvalError> { Ok(pooling.of_control(&control_of(frozen, scan)?)) };
    let mut whole = Vec::new();
    let mut changed: Vec<Vec<Vec<f32>>> = vec![Vec::new(); Change::ALL.len()];
    for (done, &i) in scans.iter().enumerate() {
        if observer.stop_requested() {
            return Err(EvalError::Interrupted);
        }
        let Some(scan) = intake.scale(&cohort.scan(i)?).filter(|s| s.times_seconds.len() >= 20) else { continue };
        whole.push(feature(&scan)?);
        for (number, (change, features)) in Change::ALL.iter().zip(&mut changed).enumerate() {
            let mut rng = stream("invariance", &[seed, i as u64, number as u64]);
            features.push(feature(&change.apply(&scan, &mut rng))?);
        }
        observer.advance(done + 1, 0);
    }
    if whole.len() < 3 {
        return Err(EvalError::named("invariance", "at least 3 scans", whole.len()));
    }
    Ok(Change::ALL.iter().zip(&changed).map(|(change, features)| compare(*change, &whole, features)).collect())
}

fn compare(change: Change, whole: &[Vec<f32>], changed: &[Vec<f32>]) -> ChangeScore {
    let (n, width) = (whole.len(), whole[0].len());
    // Centred on the unchanged scans only, so that a shift common to all changed ones counts against the feature. Not scaled:
    // how far to trust a coordinate is part of the feature.
    let mean = |c: usize| whole.iter().map(|row| f64::from(row[c])).sum::<f64>() / n as f64;
    let means: Vec<f64> = (0..width).map(mean).collect();
    let centred =
        |row: &Vec<f32>| -> Vec<f64> { row.iter().zip(&means).map(|(x, mean)| f64::from(*x) - mean).collect() };
    let (whole, changed): (Vec<_>, Vec<_>) =
        (whole.iter().map(centred).collect(), changed.iter().map(centred).collect());
    let (mut own, mut others, mut identified) = (0.0, 0.0, 0usize);
    for (i, row) in changed.iter().enumerate() {
        let alike: Vec<f64> = whole.iter().map(|other| correlation(row, other)).collect();
        own += alike[i] / n as f64;
        others += (alike.iter().sum::<f64>() - alike[i]) / ((n - 1) * n) as f64;
        identified += usize::from(alike.iter().all(|a| *a <= alike[i]));
    }
    ChangeScore { change, scans: n, similarity: own, between: others, identified: identified as f64 / n as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_keep_true_times_and_values() {
        let scan = ScaledScan {
            times_seconds: (0..10).map(|i| f64::from(i) * 2.0).collect(),
            values: (0..10).map(|i| i as f32).collect(),
            region_valid: vec![true],
        };
        let mut rng = stream("t", &[1]);
        let half = Change::Subsample(2).apply(&scan, &mut rng);
        assert_eq!((half.times_seconds, half.values), (vec![0.0, 4.0, 8.0, 12.0, 16.0], vec![0.0, 2.0, 4.0, 6.0, 8.0]));
        let wrong = Change::Stretch(1.1).apply(&scan, &mut rng);
        assert!((wrong.times_seconds[9] - 19.8).abs() < 1e-9 && wrong.values == scan.values);
    }

    #[test]
    fn a_copy_is_recognised_and_noise_is_not() {
        let row = |i: usize| (0..8).map(|c| ((i * i * 37 + c * c * 101 + i * c * 13) % 23) as f32).collect::<Vec<_>>();
        let whole: Vec<Vec<f32>> = (0..9).map(row).collect();
        let same = compare(Change::Jitter, &whole, &whole);
        assert!((same.similarity - 1.0).abs() < 1e-9 && same.identified == 1.0);
        let mut turned = whole.clone();
        turned.rotate_left(1);
        assert!(compare(Change::Jitter, &whole, &turned).identified < 0.5);
    }
}
