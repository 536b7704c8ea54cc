//! Scans of different lengths as one batch.

use crate::dynamics::Frames;
use bdo_data::scaler::ScaledScan;
use burn::tensor::{Device, Tensor, TensorData};

/// Scans side by side on a device: series [B, K, N], their frames, and the valid regions.
pub fn padded(scans: &[&ScaledScan], device: &Device) -> (Tensor<3>, Frames, Vec<bool>) {
    let longest = scans.iter().map(|s| s.times_seconds.len()).max().unwrap_or(0);
    let regions = scans.first().map_or(0, |s| s.region_valid.len());
    let mut series = vec![0.0; scans.len() * longest * regions];
    let mut frames = Frames {
        batch: scans.len(),
        frames: longest,
        times_seconds: vec![0.0; scans.len() * longest],
        context: vec![false; scans.len() * longest],
        valid: vec![false; scans.len() * longest],
    };
    for (b, scan) in scans.iter().enumerate() {
        let (at, count) = (b * longest, scan.times_seconds.len());
        series[at * regions..][..scan.values.len()].copy_from_slice(&scan.values);
        frames.times_seconds[at..at + count].copy_from_slice(&scan.times_seconds);
        frames.context[at..at + count].fill(true);
        frames.valid[at..at + count].fill(true);
    }
    let region_valid = scans.iter().flat_map(|s| s.region_valid.iter().copied()).collect();
    let data = TensorData::new(series, [scans.len(), longest, regions]);
    (Tensor::from_data(data, device), frames, region_valid)
}
