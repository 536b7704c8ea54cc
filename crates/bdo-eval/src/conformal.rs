//! Intervals and sets that hold for new people whatever the model is like, as long as those it is calibrated on are like
//! them: split conformal prediction.

use serde::{Deserialize, Serialize};

/// Calibrated half-width of an interval, or threshold of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conformal {
    /// Wanted chance that the truth is inside.
    pub level: f64,
    /// People it was calibrated on.
    pub people: usize,
    /// Largest score that is still inside; infinite where there are too few people for the level.
    #[serde(with = "maybe_infinite")]
    pub threshold: f64,
}

/// What may be said of one person's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassSet {
    /// Only the first class.
    First,
    /// Only the second class.
    Second,
    /// Either: not enough is known.
    Both,
    /// Neither: the scan looks like nobody the head was calibrated on.
    Neither,
}

impl ClassSet {
    /// Whether a single class is named; otherwise the answer is to abstain.
    pub fn is_decided(self) -> bool {
        matches!(self, Self::First | Self::Second)
    }

    /// Whether the set holds a class.
    pub fn holds(self, second: bool) -> bool {
        match self {
            Self::Both => true,
            Self::Neither => false,
            Self::First => !second,
            Self::Second => second,
        }
    }
}

impl Conformal {
    /// From the scores of calibration people: absolute errors, or one minus the probability of the true class. The
    /// threshold is the ceil((n + 1) level)-th smallest, which makes the guarantee hold for any n.
    pub fn calibrate(level: f64, mut scores: Vec<f64>) -> Self {
        scores.sort_by(f64::total_cmp);
        let rank = ((scores.len() + 1) as f64 * level).ceil() as usize;
        let threshold = rank.checked_sub(1).and_then(|i| scores.get(i)).copied().unwrap_or(f64::INFINITY);
        Self { level, people: scores.len(), threshold }
    }

    /// Scores of numbers.
    pub fn of_numbers(level: f64, predictions: &[f64], truths: &[f64]) -> Self {
        Self::calibrate(level, predictions.iter().zip(truths).map(|(p, t)| (p - t).abs()).collect())
    }

    /// Scores of classes, from the probability of the second one.
    pub fn of_classes(level: f64, probabilities: &[f64], second: &[bool]) -> Self {
        let score = |(p, second): (&f64, &bool)| if *second { 1.0 - p } else { *p };
        Self::calibrate(level, probabilities.iter().zip(second).map(score).collect())
    }

    /// The interval around a prediction.
    pub fn interval(&self, prediction: f64) -> [f64; 2] {
        [prediction - self.threshold, prediction + self.threshold]
    }

    /// The classes that cannot be ruled out.
    pub fn set(&self, probability_of_second: f64) -> ClassSet {
        match (probability_of_second <= self.threshold, 1.0 - probability_of_second <= self.threshold) {
            (true, true) => ClassSet::Both,
            (true, false) => ClassSet::First,
            (false, true) => ClassSet::Second,
            (false, false) => ClassSet::Neither,
        }
    }
}

/// JSON has no infinity.
mod maybe_infinite {
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { to.serialize_some(value) } else { to.serialize_none() }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::INFINITY))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use bdo_data::random::{shuffle, stream};

    #[test]
    fn the_threshold_is_the_rank_that_gives_the_guarantee() {
        let scores: Vec<f64> = (1..=9).map(f64::from).collect();
        // ceil(10 * 0.9) = 9, ceil(10 * 0.8) = 8, and 0.95 needs a tenth score that is not there.
        assert_eq!(Conformal::calibrate(0.9, scores.clone()).threshold, 9.0);
        assert_eq!(Conformal::calibrate(0.8, scores.clone()).threshold, 8.0);
        let open = Conformal::calibrate(0.95, scores);
        assert_eq!(open.threshold, f64::INFINITY);
        let text = serde_json::to_string(&open).unwrap();
        assert_eq!(serde_json::from_str::<Conformal>(&text).unwrap(), open);
    }

    #[test]
    fn coverage_holds_over_random_splits_for_a_bad_model_too() {
        // Squares of uniform numbers predicted by a constant: skewed errors, wrong model.
        let truths: Vec<f64> = (0..200).map(|i| (f64::from(i) / 200.0).powi(2)).collect();
        let mut covered = 0usize;
        for repetition in 0..100 {
            let mut order: Vec<usize> = (0..200).collect();
            shuffle(&mut order, &mut stream("conformal test", &[repetition]));
            let errors = order[..100].iter().map(|&i| (truths[i] - 0.2).abs()).collect();
            let conformal = Conformal::calibrate(0.9, errors);
            let inside = |&&i: &&usize| {
                let [low, high] = conformal.interval(0.2);
                low <= truths[i] && truths[i] <= high
            };
            covered += order[100..].iter().filter(inside).count();
        }
        // 0.9 to 0.9 + 1/101 in expectation; the spread over splits of one finite set is below 0.005 for 100 of them.
        let share = covered as f64 / 10_000.0;
        assert!((0.885..0.925).contains(&share), "{share}");
    }

    #[test]
    fn sets_name_what_cannot_be_ruled_out() {
        let conformal = Conformal { level: 0.9, people: 50, threshold: 0.6 };
        assert_eq!(conformal.set(0.9), ClassSet::Second);
        assert_eq!(conformal.set(0.1), ClassSet::First);
        assert_eq!(conformal.set(0.5), ClassSet::Both);
        let strict = Conformal { threshold: 0.3, ..conformal };
        assert_eq!(strict.set(0.5), ClassSet::Neither);
        assert!(!ClassSet::Neither.is_decided() && ClassSet::First.holds(false) && !ClassSet::First.holds(true));
    }
}
