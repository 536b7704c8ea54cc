//! The control along every scan of a cohort: whole scans, unmasked, with their true times.

use crate::batch::BatchError;
use crate::error::ModelError;
use crate::frozen::FrozenModel;
use crate::intake::{Intake, Windows, padded};
use crate::model::Bdo;
use crate::readout::Readout;
use bdo_data::cohort::{Cohort, CohortError, Observer};
use bdo_data::scaler::ScaledScan;
use burn::tensor::Device;
use rayon::prelude::*;

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

/// A scan with its control: what there is to pool.
#[derive(Clone, Debug)]
pub struct Encoded<'a> {
    /// The control along the scan.
    pub control: ControlSequence,
    /// The scan as the model saw it.
    pub scan: &'a ScaledScan,
    /// What the model brings to read regions out of a control.
    pub readout: Option<&'a Readout>,
}

/// Encodes scans of a batch whole, padded at the end.
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

/// The control of one scan, whole or in windows as the model is used.
pub fn control_of(frozen: &FrozenModel, scan: &ScaledScan) -> Result<ControlSequence, BatchError> {
    if scan.times_seconds.len() > frozen.windows.longest_whole {
        return encode_windows(&frozen.model, scan, frozen.windows);
    }
    Ok(encode(&frozen.model, &[scan])?.swap_remove(0))
}

/// A scan too long to be encoded whole: half-overlapping windows, each frame taken from the window it lies most
/// centrally in.
fn encode_windows(model: &Bdo, scan: &ScaledScan, windows: Windows) -> Result<ControlSequence, BatchError> {
    let (frames, regions, length) = (scan.times_seconds.len(), scan.region_valid.len(), windows.frames);
    let half = (length / 2).max(1);
    let count = if frames <= length { 1 } else { (frames - length).div_ceil(half) + 1 };
    let starts: Vec<usize> = (0..count).map(|i| i * half).collect();
    let mut out = ControlSequence { width: model.config().width, values: Vec::new() };
    for some in starts.chunks((FRAMES_AT_ONCE / length).max(1)) {
        let cut = |start: &usize| {
            let end = (start + length).min(frames);
            let origin = if windows.own_clock { scan.times_seconds[*start] } else { 0.0 };
            ScaledScan {
                times_seconds: scan.times_seconds[*start..end].iter().map(|t| t - origin).collect(),
                values: scan.values[start * regions..end * regions].to_vec(),
                region_valid: scan.region_valid.clone(),
            }
        };
        let windows: Vec<ScaledScan> = some.iter().map(cut).collect();
        let controls = encode(model, &windows.iter().collect::<Vec<_>>())?;
        for (&start, control) in some.iter().zip(&controls) {
            let end = (start + length).min(frames);
            // Up to the middle of the overlap with the window before, and to the middle of that with the next one.
            let from = out.values.len() / out.width;
            let to = if end == frames { frames } else { start + length - half / 2 };
            out.values.extend_from_slice(&control.values[(from - start) * out.width..(to - start) * out.width]);
        }
    }
    Ok(out)
}

/// Encodes scans of a cohort and hands each on with its number; scans without a usable region are passed over
/// and returned. The order in which scans come is by length.
pub fn encode_cohort(
    frozen: &FrozenModel,
    cohort: &Cohort,
    scans: &[usize],
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, Encoded<'_>),
) -> Result<Vec<usize>, ModelError> {
    let intake = Intake::new(&frozen.contract, cohort)?;
    let windows = frozen.windows;
    let mut order = scans.to_vec();
    order.sort_by_key(|&i| (cohort.index()[i].frames, i));
    let (mut done, mut passed_over, mut rest) = (0, Vec::new(), order.as_slice());
    while !rest.is_empty() {
        if observer.stop_requested() {
            return Err(ModelError::Interrupted);
        }
        let (now, later) = rest.split_at(batch_size(rest, windows.longest_whole, |i| cohort.index()[i].frames));
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
            Some(scan) if scan.times_seconds.len() > windows.longest_whole => {
                vec![encode_windows(&frozen.model, scan, windows)?]
            }
            Some(_) => encode(&frozen.model, &usable)?,
        };
        for ((i, scan), control) in numbers.into_iter().zip(usable).zip(controls) {
            visit(i, Encoded { control, scan, readout: frozen.readout.as_ref() });
        }
        done += now.len();
        observer.advance(done, passed_over.len());
    }
    Ok(passed_over)
}

/// How many of the scans, which come by length, are encoded together; a scan that needs windows goes alone.
fn batch_size(scans: &[usize], longest_whole: usize, frames: impl Fn(usize) -> usize) -> usize {
    let fits = |count: usize| {
        let longest = frames(scans[count - 1]);
        longest <= longest_whole && count * longest <= FRAMES_AT_ONCE
    };
    (1..=scans.len()).take_while(|&count| fits(count)).last().unwrap_or(1)
}
