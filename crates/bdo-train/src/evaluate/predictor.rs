//! Predictors that know nothing of the other regions.

use bdo_model::autocorrelation::Autocorrelation;
use bdo_model::intake::Masked;

/// A simple way to fill hidden frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predictor {
    /// The line between the visible frames on both sides; the nearest one at the ends.
    Interpolation,
    /// The last visible frame; the first one before it.
    Hold,
    /// The mean of the visible frames.
    Mean,
    /// The best linear combination of the visible frames under the training people's autocorrelation.
    Kriging,
}

impl Predictor {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Interpolation, Self::Hold, Self::Mean, Self::Kriging];

    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interpolation => "interpolation",
            Self::Hold => "hold",
            Self::Mean => "mean",
            Self::Kriging => "kriging",
        }
    }

    /// Row-major predictions for every row, as weighted sums of visible rows.
    pub fn predict(self, masked: &Masked, regions: usize, correlation: &Autocorrelation) -> Vec<f32> {
        let visible: Vec<usize> = (0..masked.context.len()).filter(|&row| masked.context[row]).collect();
        let times: Vec<f64> = visible.iter().map(|&row| masked.times_seconds[row]).collect();
        let count = visible.len();
        let kriging = (self == Self::Kriging).then(|| correlation.kriging(&times, &masked.times_seconds));
        let mut out = vec![0.0f32; masked.values.len()];
        for (row, &now) in masked.times_seconds.iter().enumerate() {
            let after = times.partition_point(|t| *t <= now);
            let mut weights = vec![0.0; count];
            match self {
                Self::Hold => weights[after.saturating_sub(1)] = 1.0,
                Self::Mean => weights.fill(1.0 / count as f64),
                Self::Interpolation => match (after.checked_sub(1), after < count) {
                    (Some(before), true) => {
                        let share = (now - times[before]) / (times[after] - times[before]);
                        weights[before] = 1.0 - share;
                        weights[after] = share;
                    }
                    (Some(before), false) => weights[before] = 1.0,
                    (None, _) => weights[0] = 1.0,
                },
                Self::Kriging => {
                    weights = kriging.iter().flat_map(|found| (0..count).map(|i| found[(i, row)])).collect();
                    // Around the visible mean: what the weights leave over belongs to it.
                    let rest = (1.0 - weights.iter().sum::<f64>()) / count as f64;
                    weights.iter_mut().for_each(|w| *w += rest);
                }
            }
            let sum = &mut out[row * regions..(row + 1) * regions];
            for (weight, &from) in weights.iter().zip(&visible).filter(|(w, _)| **w != 0.0) {
                let values = &masked.values[from * regions..(from + 1) * regions];
                sum.iter_mut().zip(values).for_each(|(s, v)| *s += *weight as f32 * v);
            }
        }
        out
    }
}

/// How little the visible frames say about other times: the variance kriging leaves, as a share of the whole, at each of
/// `times_seconds`. 0 at a visible frame, 1 far from all of them.
pub fn kriging_variance(visible_seconds: &[f64], times_seconds: &[f64], correlation: &Autocorrelation) -> Vec<f64> {
    let weights = correlation.kriging(visible_seconds, times_seconds);
    let left = |(j, now): (usize, &f64)| {
        let told = (visible_seconds.iter().enumerate()).map(|(i, t)| weights[(i, j)] * correlation.at(now - t));
        (1.0 - told.sum::<f64>()).clamp(0.0, 1.0)
    };
    times_seconds.iter().enumerate().map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked() -> Masked {
        Masked {
            times_seconds: vec![0.0, 1.0, 2.0, 4.0, 5.0],
            context: vec![false, true, false, true, false],
            values: vec![9.0, 1.0, 9.0, 4.0, 9.0],
            region_valid: vec![true],
        }
    }

    #[test]
    fn simple_predictors_by_hand() {
        let flat = Autocorrelation { lag_seconds: 1.0, values: vec![1.0, 0.0] };
        let predict = |p: Predictor| p.predict(&masked(), 1, &flat);
        assert_eq!(predict(Predictor::Hold), [1.0, 1.0, 1.0, 4.0, 4.0]);
        assert_eq!(predict(Predictor::Interpolation), [1.0, 1.0, 2.0, 4.0, 4.0]);
        assert_eq!(predict(Predictor::Mean), [2.5; 5]);
        // Without correlation a hidden frame is worth the mean, and a visible one itself.
        for (found, expected) in predict(Predictor::Kriging).iter().zip([2.5, 1.0, 2.5, 4.0, 2.5]) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
