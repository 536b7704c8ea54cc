//! Intervals and sets that hold for new people whatever the model is like, as long as those it is calibrated on are like
//! them: split conformal prediction.

use serde::{Deserialize, Deserializer, Serialize};

/// Calibrated half-width of an interval, or threshold of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conformal {
    /// Wanted chance that the truth is inside.
    pub level: f64,
    /// People it was calibrated on.
    pub people: usize,
    /// Largest score that is still inside; infinite where there are too few people for the level.
    #[serde(deserialize_with = "infinite_or")]
    pub threshold: f64,
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

    /// From what was said of people, a number or the probabilities of all classes, and what is true of them.
    pub fn of_people<'a>(level: f64, people: impl Iterator<Item = (&'a [f64], f64)>) -> Self {
        Self::calibrate(level, people.map(|(said, truth)| score(said, truth)).collect())
    }

    /// Whether the truth is in the interval or set around what was said.
    pub fn holds(&self, said: &[f64], truth: f64) -> bool {
        score(said, truth) <= self.threshold
    }

    pub fn interval(&self, prediction: f64) -> [f64; 2] {
        [prediction - self.threshold, prediction + self.threshold]
    }

    /// The classes that cannot be ruled out: one is an answer, several are too little known, none looks like nobody the head
    /// was calibrated on.
    pub fn set(&self, probabilities: &[f64]) -> Vec<usize> {
        (0..probabilities.len()).filter(|class| self.holds(probabilities, *class as f64)).collect()
    }
}

/// How far the truth is from what was said: the error of a number, or one minus the probability of the true class.
fn score(said: &[f64], truth: f64) -> f64 {
    if let [number] = said { (number - truth).abs() } else { 1.0 - said[truth as usize] }
}

/// JSON has no infinity and writes null.
fn infinite_or<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
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
        assert_eq!(conformal.set(&[0.1, 0.9]), [1]);
        assert_eq!(conformal.set(&[0.9, 0.1]), [0]);
        assert_eq!(conformal.set(&[0.5, 0.5]), [0, 1]);
        assert_eq!(conformal.set(&[0.45, 0.1, 0.45]), [0, 2]);
        let strict = Conformal { threshold: 0.3, ..conformal };
        assert!(strict.set(&[0.5, 0.5]).is_empty());
        let halves = [(&[0.2, 0.8][..], 1.0), (&[0.4, 0.6], 0.0), (&[0.9, 0.1], 0.0)];
        assert!((Conformal::of_people(0.5, halves.into_iter()).threshold - 0.2).abs() < 1e-12);
        assert!(Conformal { threshold: 2.0, ..strict }.holds(&[3.0], 5.0));
    }
}
