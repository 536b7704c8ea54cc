//! Frames of high motion.

use serde::{Deserialize, Serialize};

use super::ConfoundTable;
use crate::problem::ReadError;

/// When a frame is left out. A comparison with a missing value is false: the first frame has neither measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scrub {
    pub fd_threshold_mm: f64,
    pub std_dvars_threshold: f64,
    /// Stretches between censored frames shorter than this go too; 0 keeps them.
    pub shortest_segment: usize,
}

impl Default for Scrub {
    fn default() -> Self {
        Self { fd_threshold_mm: 0.5, std_dvars_threshold: 1.5, shortest_segment: 5 }
    }
}

impl Scrub {
    pub(super) fn outliers(&self, table: &ConfoundTable) -> Result<Vec<usize>, ReadError> {
        let measure = |name: &str| table.column(name).ok_or_else(|| table.lacks(&format!("{name} (for scrubbing)")));
        let (fd, dvars) = (measure("framewise_displacement")?, measure("std_dvars")?);
        let high = |t: &usize| fd[*t] > self.fd_threshold_mm || dvars[*t] > self.std_dvars_threshold;
        let outliers: Vec<usize> = (0..table.frames()).filter(high).collect();
        Ok(without_short_segments(&outliers, table.frames(), self.shortest_segment))
    }
}

/// Adds the frames of kept stretches shorter than `shortest`, at the ends and in between.
fn without_short_segments(outliers: &[usize], frames: usize, shortest: usize) -> Vec<usize> {
    if outliers.is_empty() || shortest == 0 {
        return outliers.to_vec();
    }
    let mut out = vec![false; frames];
    for t in outliers {
        out[*t] = true;
    }
    let mut start = 0;
    for end in (0..=frames).filter(|t| *t == frames || outliers.binary_search(t).is_ok()) {
        if end - start < shortest {
            out[start..end].fill(true);
        }
        start = end + 1;
        if start > frames {
            break;
        }
    }
    (0..frames).filter(|t| out[*t]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_stretches_go_with_their_neighbours() {
        // Kept stretches: 0-2 (3 frames), 4-8 (5), 10-12 (3), 14-19 (6).
        assert_eq!(without_short_segments(&[3, 9, 13], 20, 5), [0, 1, 2, 3, 9, 10, 11, 12, 13]);
        assert_eq!(without_short_segments(&[3, 9, 13], 20, 0), [3, 9, 13]);
        assert_eq!(without_short_segments(&[], 3, 5), [0usize; 0]);
        assert_eq!(without_short_segments(&[17], 20, 5), [17, 18, 19]);
    }
}
