//! The control along every scan of a cohort: whole scans, unmasked, with their true times.

use crate::error::DownstreamError;
use crate::frozen::{FrozenModel, Intake};
use bdo_data::cohort::{Cohort, CohortError, Observer};
use bdo_data::scaler::ScaledScan;
use bdo_model::batch::BatchError;
use bdo_model::dynamics::Frames;
use bdo_model::model::Bdo;
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

/// A longer scan is encoded in windows: attention costs the square of the length, and no model has seen such lengths.
pub const WHOLE_SCAN_FRAMES: usize = 2000;
/// Frames of a window.
pub const WINDOW_FRAMES: usize = 512;
/// Frames (with padding) that are encoded at once: enough for full kernels, little enough for the caches.
const FRAMES_AT_ONCE: usize = 2048;

/// The control of one scan.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlSequence {
    /// Latent width, d.
    pub width: usize,
    /// Row-major [frames, d].
    pub values: Vec<f32>,
}

impl ControlSequence {
    /// Rows, one a frame.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.width)
    }
}

/// Encodes scans of a batch, padded at the end; no scan is longer than [`WHOLE_SCAN_FRAMES`].
pub fn encode(model: &Bdo, scans: &[&ScaledScan]) -> Result<Vec<ControlSequence>, BatchError> {
    let (series, frames, region_valid) = padded(scans, &Device::flex());
    let controls = model.controls(&series, &frames, &region_valid)?;
    let [_, slots, width] = controls.control.dims();
    let values = controls.control.into_data().try_to_vec::<f32>().expect("controls are f32");
    let cut = |(b, &count): (usize, &usize)| ControlSequence {
        width,
        values: values[b * slots * width..][..count * width].to_vec(),
    };
    Ok(controls.counts.iter().enumerate().map(cut).collect())
}

/// Scans side by side on a device: series [B, K, N], their frames, and the valid regions.
pub(crate) fn padded(scans: &[&ScaledScan], device: &Device) -> (Tensor<3>, Frames, Vec<bool>) {
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

/// A scan too long to be encoded whole: half-overlapping windows, each frame taken from the window it lies most
/// centrally in.
fn encode_windows(model: &Bdo, scan: &ScaledScan) -> Result<ControlSequence, BatchError> {
    let (frames, regions, half) = (scan.times_seconds.len(), scan.region_valid.len(), WINDOW_FRAMES / 2);
    let mut out = ControlSequence { width: model.config().width, values: Vec::new() };
    let mut start = 0;
    loop {
        let end = (start + WINDOW_FRAMES).min(frames);
        let window = ScaledScan {
            times_seconds: scan.times_seconds[start..end].to_vec(),
            values: scan.values[start * regions..end * regions].to_vec(),
            region_valid: scan.region_valid.clone(),
        };
        let control = encode(model, &[&window])?.swap_remove(0);
        let from = if start == 0 { 0 } else { half / 2 };
        let to = if end == frames { end - start } else { WINDOW_FRAMES - half / 2 };
        out.values.extend_from_slice(&control.values[from * out.width..to * out.width]);
        if end == frames {
            return Ok(out);
        }
        start += half;
    }
}

/// Encodes scans of a cohort and hands each control on with its number; scans without a usable region are passed over
/// and returned. The order in which scans come is by length.
pub fn encode_cohort(
    frozen: &FrozenModel,
    cohort: &Cohort,
    scans: &[usize],
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, ControlSequence),
) -> Result<Vec<usize>, DownstreamError> {
    let names: Vec<String> = cohort.regions().iter().map(|r| r.name.clone()).collect();
    let intake = Intake::new(&frozen.contract, &names)?;
    let mut order = scans.to_vec();
    order.sort_by_key(|&i| (cohort.index()[i].frames, i));
    let (mut done, mut passed_over, mut rest) = (0, Vec::new(), order.as_slice());
    while !rest.is_empty() {
        if observer.stop_requested() {
            return Err(DownstreamError::Interrupted);
        }
        let (now, later) = rest.split_at(batch_size(rest, |i| cohort.index()[i].frames));
        rest = later;
        let scaled: Vec<Option<ScaledScan>> =
            now.par_iter().map(|&i| Ok(intake.scale(&cohort.scan(i)?))).collect::<Result<_, CohortError>>()?;
        let (mut numbers, mut usable) = (Vec::new(), Vec::new());
        for (&i, scan) in now.iter().zip(&scaled) {
            match scan {
                Some(scan) => {
                    numbers.push(i);
                    usable.push(scan);
                }
                None => passed_over.push(i),
            }
        }
        let controls = match usable.first() {
            None => Vec::new(),
            Some(scan) if scan.times_seconds.len() > WHOLE_SCAN_FRAMES => vec![encode_windows(&frozen.model, scan)?],
            Some(_) => encode(&frozen.model, &usable)?,
        };
        for (i, control) in numbers.into_iter().zip(controls) {
            visit(i, control);
        }
        done += now.len();
        observer.advance(done, passed_over.len());
    }
    Ok(passed_over)
}

/// How many of the scans, which come by length, are encoded together; a scan that needs windows goes alone.
fn batch_size(scans: &[usize], frames: impl Fn(usize) -> usize) -> usize {
    let fits = |count: usize| {
        let longest = frames(scans[count - 1]);
        longest <= WHOLE_SCAN_FRAMES && count * longest <= FRAMES_AT_ONCE
    };
    (1..=scans.len()).take_while(|&count| fits(count)).last().unwrap_or(1)
}
