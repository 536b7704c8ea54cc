//! Frames of a scan of which some are hidden, centred on the visible ones: the mean of a whole scan would tell the model
//! about what is hidden.

use super::{Intake, MaskSettings, Timing, Visit};
use crate::dynamics::Frames;
use bdo_data::scan::Scan;
use burn::tensor::{Device, Tensor, TensorData};
use rand_chacha::rand_core::Rng;

/// Some frames of a scan, centred on what is visible; one row per frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Masked {
    /// Since the clock of the visit began, increasing.
    pub times_seconds: Vec<f64>,
    /// Whether a row is visible.
    pub context: Vec<bool>,
    /// Row-major [rows, regions], in the units of the model, hidden rows included: what predictions are compared with.
    pub values: Vec<f32>,
    /// False at regions without a signal, whose values are 0.
    pub region_valid: Vec<bool>,
}

/// From the units of the model back to those of the scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    /// Added to every region; NaN where the mean of a region was never seen.
    pub centre: Vec<f64>,
    /// Multiplies every region.
    pub scale: Vec<f64>,
}

impl Intake {
    /// Draws a visit; `None` if no region is usable.
    pub fn draw(&self, scan: &Scan, timing: Timing, mask: &MaskSettings, rng: &mut impl Rng) -> Option<Masked> {
        let first = scan.frame_times_seconds[0];
        let kept = timing.kept(scan.frames(), rng);
        let times: Vec<f64> = kept.iter().map(|&frame| scan.frame_times_seconds[frame] - first).collect();
        let visit = Visit::draw(mask, &times, rng);
        let frames: Vec<usize> = visit.frames.iter().map(|&frame| kept[frame]).collect();
        self.masked(scan, &frames, visit.context, first + visit.origin_seconds)
    }

    /// The given frames of a scan, scaled around the mean of the visible ones; `None` if no region is usable.
    pub fn masked(&self, scan: &Scan, frames: &[usize], context: Vec<bool>, origin_seconds: f64) -> Option<Masked> {
        let region_valid = self.region_valid(scan);
        let visible: Vec<usize> = frames.iter().zip(&context).filter(|(_, seen)| **seen).map(|(f, _)| *f).collect();
        let mut values = vec![0.0; frames.len() * self.regions()];
        for (r, column) in self.valid_columns(scan, &region_valid) {
            let mean = column.mean(&visible);
            for (row, &frame) in frames.iter().enumerate() {
                values[row * self.regions() + r] = ((column.at(frame) - mean - self.medians[r]) / self.iqrs[r]) as f32;
            }
        }
        let times_seconds = frames.iter().map(|&frame| scan.frame_times_seconds[frame] - origin_seconds).collect();
        region_valid.contains(&true).then_some(Masked { times_seconds, context, values, region_valid })
    }

    /// The way back from `masked`, whose rows are all frames of the scan.
    pub(crate) fn units(&self, scan: &Scan, masked: &Masked) -> Units {
        let visible: Vec<usize> = (0..scan.frames()).filter(|&row| masked.context[row]).collect();
        let mut centre = vec![f64::NAN; self.regions()];
        for (r, column) in self.valid_columns(scan, &masked.region_valid) {
            centre[r] = column.mean(&visible) + self.medians[r];
        }
        Units { centre, scale: self.iqrs.clone() }
    }
}

impl Masked {
    /// [1, rows, regions].
    pub fn series(&self) -> Tensor<3> {
        let data = TensorData::new(self.values.clone(), [1, self.context.len(), self.region_valid.len()]);
        Tensor::from_data(data, &Device::flex())
    }

    /// Times and roles of the rows.
    pub fn frames(&self) -> Frames {
        Frames {
            batch: 1,
            frames: self.context.len(),
            times_seconds: self.times_seconds.clone(),
            context: self.context.clone(),
            valid: vec![true; self.context.len()],
        }
    }
}

impl Units {
    /// A value in the units of the scan; a region without a known mean is given around 0.
    pub fn value(&self, region: usize, x: f32) -> f32 {
        let centre = self.centre[region];
        (f64::from(x) * self.scale[region] + if centre.is_nan() { 0.0 } else { centre }) as f32
    }

    /// A standard deviation in the units of the scan.
    pub fn spread(&self, region: usize, sd: f32) -> f32 {
        (f64::from(sd) * self.scale[region]) as f32
    }
}
