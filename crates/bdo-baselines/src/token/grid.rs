//! The grid, and how a scan of any length is cut to it.

use bdo_data::random::below;
use bdo_data::scaler::ScaledScan;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

/// Frames of a token.
pub const PATCH: usize = 16;
/// Windows of the originals: 160 frames.
pub const WINDOWS: usize = 10;
/// Spacing of the frames Brain-JEPA takes from UK Biobank: every third at a repetition time of 0.735 s.
const JEPA_SPACING_SECONDS: f64 = 2.205;

/// Regions by windows; token `region * windows + window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Regions, N.
    pub regions: usize,
    /// Windows of sixteen frames.
    pub windows: usize,
}

/// Which frames of a scan become the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub start: usize,
    /// Frames from one to the next.
    pub stride: usize,
}

impl Grid {
    /// The originals demand 160 frames. Where the shortest scan has fewer, the grid has as many whole windows as it has; a
    /// scan shorter than one window has no grid.
    pub fn for_frames(regions: usize, shortest: usize) -> Option<Self> {
        let windows = (shortest / PATCH).min(WINDOWS);
        (windows > 0).then_some(Self { regions, windows })
    }

    pub fn tokens(&self) -> usize {
        self.regions * self.windows
    }

    /// Frames of a scan that are used.
    pub fn frames(&self) -> usize {
        self.windows * PATCH
    }

    /// Frames at a random place.
    pub fn random_cut(&self, frames: usize, stride: usize, rng: &mut impl Rng) -> Cut {
        let span = (self.frames() - 1) * stride + 1;
        Cut { start: below(rng, (frames - span) as u64 + 1) as usize, stride }
    }

    /// From one frame to the next about 2.2 s, as Brain-JEPA takes them, or as far as the scan allows.
    pub fn stride(&self, frames: usize, tr_seconds: f64) -> usize {
        let wanted = (JEPA_SPACING_SECONDS / tr_seconds).round().max(1.0) as usize;
        let longest = ((frames - 1) / (self.frames() - 1)).max(1);
        wanted.min(longest)
    }

    /// The cut in the middle of a scan: what features are made from, so that they do not change from call to call.
    pub fn middle_cut(&self, frames: usize, stride: usize) -> Cut {
        let span = (self.frames() - 1) * stride + 1;
        Cut { start: frames.saturating_sub(span) / 2, stride }
    }

    /// Row-major [tokens, 16].
    pub fn patches(&self, scan: &ScaledScan, cut: Cut) -> Vec<f32> {
        let mut patches = Vec::with_capacity(self.tokens() * PATCH);
        for region in 0..self.regions {
            for frame in 0..self.frames() {
                patches.push(scan.values[(cut.start + frame * cut.stride) * self.regions + region]);
            }
        }
        patches
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use bdo_data::random::stream;

    #[test]
    fn cuts_stay_inside_scans_of_any_length() {
        for frames in [16, 40, 159, 160, 161, 490, 1200] {
            let grid = Grid::for_frames(3, frames).unwrap();
            assert_eq!(grid.windows, (frames / 16).min(10));
            for seed in 0..50 {
                let mut rng = stream("cut", &[seed]);
                let near = grid.random_cut(frames, 1, &mut rng);
                assert!(near.start + grid.frames() <= frames && near.stride == 1);
                for tr_seconds in [0.5, 0.735, 2.0, 3.0] {
                    let far = grid.random_cut(frames, grid.stride(frames, tr_seconds), &mut rng);
                    assert!(far.start + (grid.frames() - 1) * far.stride < frames, "{frames} {tr_seconds} {far:?}");
                }
            }
        }
        assert!(Grid::for_frames(3, 15).is_none());
        // UK Biobank: 480 kept frames, every third.
        assert_eq!(Grid::for_frames(450, 480).unwrap().stride(480, 0.735), 3);
    }

    #[test]
    fn tokens_run_over_windows_first() {
        let grid = Grid { regions: 2, windows: 2 };
        let values = (0..32).flat_map(|t| [t as f32, 100.0 + t as f32]).collect();
        let scan = ScaledScan { times_seconds: vec![], values, region_valid: vec![true; 2] };
        let patches = grid.patches(&scan, Cut { start: 0, stride: 1 });
        assert_eq!((patches[0], patches[16], patches[32], patches[48]), (0.0, 16.0, 100.0, 116.0));
    }
}
