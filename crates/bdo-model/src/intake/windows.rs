//! How long scans are cut before the model sees them.

use super::MaskSettings;

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
        if mask.stretch == 0.0 {
            return Self::WHOLE_SCANS;
        }
        let frames = ((mask.frames as f64 * mask.stretch).ceil() as usize).clamp(2, Self::WHOLE_SCANS.frames);
        Self { longest_whole: frames, frames, own_clock: true }
    }
}
