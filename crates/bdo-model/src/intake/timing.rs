//! The same scan as another scanner would have sampled it. Frames are left out, never invented, and those that stay keep
//! their true times.

use bdo_data::random::below;
use rand_chacha::rand_core::Rng;

/// Which frames of a scan there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// All.
    AsScanned,
    /// Every second one: twice the repetition time.
    Subsampled,
    /// One of every two, at random: steps from one to three repetition times.
    Jittered,
    /// Three of ten are gone, as after censoring.
    Dropped,
}

impl Timing {
    /// Those that differ from the scan.
    pub const OTHERS: [Self; 3] = [Self::Subsampled, Self::Jittered, Self::Dropped];

    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsScanned => "as scanned",
            Self::Subsampled => "every second frame",
            Self::Jittered => "one of two at random",
            Self::Dropped => "30 % dropped",
        }
    }

    /// Indices of the frames that stay, increasing; at least two of a scan that has two.
    pub(crate) fn kept(self, frames: usize, rng: &mut impl Rng) -> Vec<usize> {
        let kept: Vec<usize> = match self {
            Self::AsScanned => (0..frames).collect(),
            Self::Subsampled => (0..frames).step_by(2).collect(),
            Self::Jittered => (0..frames).step_by(2).map(|i| (i + below(rng, 2) as usize).min(frames - 1)).collect(),
            Self::Dropped => (0..frames).filter(|_| below(rng, 10) >= 3).collect(),
        };
        if kept.len() < 2 { (0..frames).collect() } else { kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_data::random::stream;

    #[test]
    fn frames_stay_in_order_and_in_their_share() {
        for (timing, share) in
            [(Timing::AsScanned, 1.0), (Timing::Subsampled, 0.5), (Timing::Jittered, 0.5), (Timing::Dropped, 0.7)]
        {
            let kept = timing.kept(1001, &mut stream("t", &[1]));
            assert!(kept.is_sorted_by(|a, b| a < b) && kept[kept.len() - 1] <= 1000, "{timing:?}");
            // Binomial(1001, 0.7) has a standard deviation of 14.5.
            assert!((kept.len() as f64 - 1001.0 * share).abs() < 75.0, "{timing:?}: {}", kept.len());
        }
        let steps: Vec<usize> =
            Timing::Jittered.kept(1001, &mut stream("t", &[2])).windows(2).map(|w| w[1] - w[0]).collect();
        assert!((1..=3).all(|step| steps.contains(&step)) && steps.iter().all(|step| *step <= 3));
        assert_eq!(Timing::Dropped.kept(2, &mut stream("t", &[3])).len(), 2);
    }
}
