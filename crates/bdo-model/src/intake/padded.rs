//! Samples of different lengths as one batch.

use crate::device::upload;
use crate::dynamics::Frames;
use bdo_data::scaler::ScaledScan;
use burn::tensor::{Device, Tensor, TensorData};

/// Samples side by side on the host, each padded at its end to the longest.
#[derive(Clone, Debug, PartialEq)]
pub struct PaddedBatch {
    /// Row-major [B, K, N]; 0 at padding.
    pub series: Vec<f32>,
    /// Times and roles.
    pub frames: Frames,
    /// [B, N]: false at regions whose values are unknown.
    pub region_valid: Vec<bool>,
}

impl PaddedBatch {
    /// Room for samples with at most `longest` frames; every row is padding until it is set. `region_valid` holds one entry
    /// for each region of each sample.
    pub fn new(samples: usize, longest: usize, region_valid: Vec<bool>) -> Self {
        let slots = samples * longest;
        let frames = Frames {
            batch: samples,
            frames: longest,
            times_seconds: vec![0.0; slots],
            context: vec![false; slots],
            valid: vec![false; slots],
        };
        Self { series: vec![0.0; region_valid.len() * longest], frames, region_valid }
    }

    /// Whole scans, everything visible.
    pub fn of_scans(scans: &[&ScaledScan]) -> Self {
        Self::of_scans_padded(scans, 0)
    }

    /// The same, padded to `least` frames at least.
    pub(crate) fn of_scans_padded(scans: &[&ScaledScan], least: usize) -> Self {
        let longest = scans.iter().map(|scan| scan.times_seconds.len()).max().unwrap_or(0).max(least);
        let region_valid = scans.iter().flat_map(|scan| scan.region_valid.iter().copied()).collect();
        let mut batch = Self::new(scans.len(), longest, region_valid);
        for (sample, scan) in scans.iter().enumerate() {
            let regions = scan.region_valid.len();
            for (row, &seconds) in scan.times_seconds.iter().enumerate() {
                batch.set(sample, row, seconds, true).copy_from_slice(&scan.values[row * regions..(row + 1) * regions]);
            }
        }
        batch
    }

    /// Number of regions.
    pub fn regions(&self) -> usize {
        self.region_valid.len() / self.frames.batch.max(1)
    }

    /// Makes a row a frame of its sample and returns its values, to be filled in.
    pub fn set(&mut self, sample: usize, row: usize, seconds: f64, context: bool) -> &mut [f32] {
        let (at, regions) = (sample * self.frames.frames + row, self.regions());
        self.frames.times_seconds[at] = seconds;
        self.frames.context[at] = context;
        self.frames.valid[at] = true;
        &mut self.series[at * regions..(at + 1) * regions]
    }

    /// The series [B, K, N] on a device, beside the rest.
    pub fn on(self, device: &Device) -> (Tensor<3>, Frames, Vec<bool>) {
        let shape = [self.frames.batch, self.frames.frames, self.regions()];
        (upload(TensorData::new(self.series, shape), device), self.frames, self.region_valid)
    }
}
