//! How long scans are cut before the model sees them.

use super::MaskSettings;
use bdo_data::scaler::ScaledScan;
use std::ops::Range;

/// How scans are cut before they are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// A longer scan is encoded in windows.
    pub longest_whole: usize,
    /// Frames of a window.
    pub frames: usize,
    /// Whether a window's clock starts at its first frame.
    pub own_clock: bool,
}

impl Windows {
    /// For models trained on frames from whole scans: attention costs the square of the length, so very long ones are cut.
    pub const WHOLE_SCANS: Self = Self { longest_whole: 2000, frames: 512, own_clock: false };

    /// As the model has seen scans in training: stretches of them, if it was trained on stretches.
    pub fn of_training(mask: &MaskSettings) -> Self {
        if mask.varied > 0.0 {
            // Irregular visits span whole scans, on the clock of their first frame.
            return Self { own_clock: true, ..Self::WHOLE_SCANS };
        }
        if mask.stretch == 0.0 {
            return Self::WHOLE_SCANS;
        }
        let frames = ((mask.frames as f64 * mask.stretch).ceil() as usize).clamp(2, Self::WHOLE_SCANS.frames);
        Self { longest_whole: frames, frames, own_clock: true }
    }

    /// Half-overlapping windows over so many frames; a scan that may stay whole is one window.
    pub fn cut(self, count: usize) -> Vec<Window> {
        if count <= self.longest_whole {
            return vec![Window { frames: 0..count, taken: 0..count }];
        }
        let half = (self.frames / 2).max(1);
        let number = count.saturating_sub(self.frames).div_ceil(half) + 1;
        let mut taken = 0;
        let window = |i: usize| {
            let frames = i * half..(i * half + self.frames).min(count);
            // To the middle of the overlap with the next window.
            let end = if frames.end == count { count } else { frames.end - half / 2 };
            let window = Window { frames, taken: taken..end };
            taken = end;
            window
        };
        (0..number).map(window).collect()
    }

    /// A scan as the model sees it: whole, or in windows.
    pub fn of_scan(self, scan: ScaledScan) -> CutScan {
        let frames = scan.times_seconds.len();
        if frames <= self.longest_whole {
            let times_seconds = scan.times_seconds.clone();
            return CutScan { taken: std::iter::once(0..frames).collect(), windows: vec![scan], times_seconds };
        }
        let (mut windows, mut taken) = (Vec::new(), Vec::new());
        for window in self.cut(frames) {
            let origin = if self.own_clock { scan.times_seconds[window.frames.start] } else { 0.0 };
            taken.push(window.taken.start - window.frames.start..window.taken.end - window.frames.start);
            windows.push(scan.cut(window.frames, origin));
        }
        CutScan { windows, taken, times_seconds: scan.times_seconds }
    }
}

/// A scan in the windows a model sees it in.
#[derive(Clone, Debug, PartialEq)]
pub struct CutScan {
    /// At least one.
    pub windows: Vec<ScaledScan>,
    /// The rows of each window whose result is taken: together the frames of the scan in their order.
    pub taken: Vec<Range<usize>>,
    /// Of the whole scan, on its own clock.
    pub times_seconds: Vec<f64>,
}

/// One window over a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The frames (or rows of an answer) it sees.
    pub frames: Range<usize>,
    /// The frames whose result is taken from it: those that lie more centrally in it than in its neighbours.
    pub taken: Range<usize>,
}
