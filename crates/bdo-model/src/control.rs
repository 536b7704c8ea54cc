//! The control along every scan of a cohort: whole scans, unmasked, with their true times.

use crate::batch::{BatchError, scan_grid};
use crate::device::{download, is_cpu, upload};
use crate::dynamics::{Frames, UnionGrid, shares};
use crate::error::ModelError;
use crate::frozen::FrozenModel;
use crate::intake::{CutScan, Intake, PaddedBatch, Windows};
use crate::model::Bdo;
use crate::pooling::{LEAST_MOVED, SECONDS_APART, changes};
use crate::readout::Readout;
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::scaler::ScaledScan;
use burn::tensor::{Device, Float, Int, Tensor};
use rayon::prelude::*;

/// Frames (with padding) that are encoded at once: enough for full kernels, little enough for the caches.
const FRAMES_AT_ONCE: usize = 2048;
/// Scans of them in one pass of the model.
const SCANS_TOGETHER: usize = 4;

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
    /// Linear map from the control to regions, where the model has one.
    pub readout: Option<&'a Readout>,
}

/// The control along samples of a batch, on a device.
#[derive(Clone, Debug)]
pub struct Controls {
    /// [B, C, d]; the rows of a sample beyond its count hold unused values.
    pub control: Tensor<3>,
    /// Real frames of each sample.
    pub counts: Vec<usize>,
}

impl Bdo {
    /// series [B, K, N] -> the control at every valid frame, whatever its role. Differentiable, so the same call serves
    /// frozen probes and fine-tuning.
    pub fn controls(&self, series: &Tensor<3>, frames: &Frames, region_valid: &[bool]) -> Result<Controls, BatchError> {
        let (series, grid) = self.all_visible(series, frames, region_valid)?;
        let z = self.encoder.forward(self.tokens(&series, frames, &grid.context), None);
        let control = self.with_fingerprint(self.dynamics.control.forward(z), &series, &grid);
        Ok(Controls { control, counts: grid.context.count })
    }

    /// A series as the encoder takes it, and the grid of its valid frames, all of them visible.
    fn all_visible(
        &self,
        series: &Tensor<3>,
        frames: &Frames,
        region_valid: &[bool],
    ) -> Result<(Tensor<3>, UnionGrid), BatchError> {
        let visible = Frames { context: frames.valid.clone(), ..frames.clone() };
        let grid = scan_grid(series, &visible, region_valid, self.config())?;
        Ok((self.unit_sized(series, &grid, region_valid).0, grid))
    }

    /// The control along scans that may be cut into windows; differentiable as well.
    pub fn controls_of(&self, batch: &ScanBatch) -> Result<Controls, BatchError> {
        let controls = self.controls(&batch.series, &batch.frames, &batch.region_valid)?;
        let Some(places) = &batch.places else { return Ok(controls) };
        let [windows, rows, width] = controls.control.dims();
        let (scans, slots) = (batch.counts.len(), batch.counts.iter().copied().max().unwrap_or(0));
        let control = controls.control.reshape([windows * rows, width]).select(0, places.clone());
        Ok(Controls { control: control.reshape([scans, slots, width]), counts: batch.counts.clone() })
    }

    /// Their mean [B, d]. Frames have no part in the mean of a model with a fingerprint, so whole scans are not encoded for it.
    pub fn mean_control_of(&self, batch: &ScanBatch) -> Result<Tensor<2>, BatchError> {
        if batch.places.is_some() || self.fingerprint.is_none() {
            return Ok(self.controls_of(batch)?.mean());
        }
        let (series, grid) = self.all_visible(&batch.series, &batch.frames, &batch.region_valid)?;
        let nothing = Tensor::zeros([grid.batch, grid.context.slots, self.config().width], &series.device());
        let part = self.with_fingerprint(nothing, &series, &grid);
        Ok(part.narrow(1, 0, 1).squeeze_dim(1)) // [B, d]
    }
}

/// Scans, whole or in windows, on a device.
#[derive(Clone, Debug)]
pub struct ScanBatch {
    series: Tensor<3>,
    frames: Frames,
    region_valid: Vec<bool>,
    /// Row of all windows that each frame of each scan is taken from, padded; none where every scan is one window.
    places: Option<Tensor<1, Int>>,
    /// Frames of each scan.
    counts: Vec<usize>,
    /// Their times.
    times_seconds: Vec<Vec<f64>>,
}

impl ScanBatch {
    /// Puts scans onto a device.
    pub fn on(scans: &[&CutScan], device: &Device) -> Self {
        let windows: Vec<&ScaledScan> = scans.iter().flat_map(|scan| &scan.windows).collect();
        let counts: Vec<usize> = scans.iter().map(|scan| scan.taken.iter().map(ExactSizeIterator::len).sum()).collect();
        let (series, frames, region_valid) = PaddedBatch::of_scans(&windows).on(device);
        let slots = counts.iter().copied().max().unwrap_or(0);
        let (mut places, mut window) = (Vec::with_capacity(scans.len() * slots), 0);
        for scan in scans {
            for taken in &scan.taken {
                places.extend(taken.clone().map(|row| (window * frames.frames + row) as i32));
                window += 1;
            }
            places.resize(places.len().next_multiple_of(slots.max(1)), 0);
        }
        let places = (windows.len() > scans.len()).then(|| upload(places.as_slice(), device));
        let times_seconds = scans.iter().map(|scan| scan.times_seconds.clone()).collect();
        Self { series, frames, region_valid, places, counts, times_seconds }
    }

    /// Frame times of each scan.
    pub fn times_seconds(&self) -> &[Vec<f64>] {
        &self.times_seconds
    }
}

impl Controls {
    /// The mean over the real frames: [B, d].
    pub fn mean(self) -> Tensor<2> {
        let place = (&self.control.device(), self.control.dtype());
        let shares = shares(&self.counts, self.control.dims()[1], |_| 1, place);
        (self.control * shares).sum_dim(1).squeeze_dim(1) // [B, d]
    }

    /// How far and how fast it moves at these frame times of the samples, the second part of
    /// [`Pooling::MeanMovement`](crate::pooling::Pooling::MeanMovement): [B, 2 d].
    pub fn movement(&self, times_seconds: &[Vec<f64>]) -> Tensor<2> {
        let ([batch, slots, width], device) = (self.control.dims(), self.control.device());
        let frames = self.control.clone().reshape([batch * slots, width]);
        let of_samples: Vec<_> = times_seconds.iter().map(|times| changes(times)).collect();
        let squares_of = |apart: usize| {
            let count = of_samples.iter().map(|found| found[apart].len()).max().unwrap_or(0);
            let (mut from, mut to, mut weights) = (vec![], vec![], vec![]);
            for (b, found) in of_samples.iter().enumerate() {
                for (i, j, weight) in &found[apart] {
                    from.push((b * slots + i) as i32);
                    to.push((b * slots + j) as i32);
                    weights.push(*weight as f32);
                }
                let end = (b + 1) * count;
                from.resize(end, 0);
                to.resize(end, 0);
                weights.resize(end, 0.0);
            }
            let [from, to] = [from, to].map(|rows| frames.clone().select(0, upload(rows.as_slice(), &device)));
            let weights = upload::<1, Float>(weights.as_slice(), &device).reshape([batch * count, 1]);
            let squares = (to - from).square() * weights; // [B P, d]
            squares.reshape([batch, count, width]).sum_dim(1) // [B, 1, d]
        };
        let squares = (0..SECONDS_APART.len()).map(squares_of).collect();
        let squares = Tensor::cat(squares, 2).squeeze_dim(1); // [B, 2 d]
        squares.clamp_min(LEAST_MOVED).log() * 0.5
    }
}

/// The controls of scans, in their order: short ones several at a time, a long one in windows.
pub fn encode(model: &Bdo, windows: Windows, scans: &[&ScaledScan]) -> Result<Vec<ControlSequence>, BatchError> {
    let mut found = Vec::with_capacity(scans.len());
    for now in runs(scans, |some| fit_together(some, windows.longest_whole, |scan| scan.times_seconds.len())) {
        match now {
            [scan] if scan.times_seconds.len() > windows.longest_whole => {
                found.push(encode_windows(model, scan, windows)?);
            }
            _ => found.extend(encode_whole(model, now)?),
        }
    }
    Ok(found)
}

/// Encodes scans whole: a few at a time and several such groups side by side. What a group computes stays in the caches, and
/// no thread waits for another at every layer.
fn encode_whole(model: &Bdo, scans: &[&ScaledScan]) -> Result<Vec<ControlSequence>, BatchError> {
    // A card shares out one large pass by itself.
    let device = model.device();
    let together = if is_cpu(&device) { SCANS_TOGETHER } else { scans.len().max(1) };
    // All are padded to the same length, so that how they are grouped does not change a byte.
    let longest = scans.iter().map(|scan| scan.times_seconds.len()).max().unwrap_or(0);
    let group = |scans: &[&ScaledScan]| -> Result<Vec<ControlSequence>, BatchError> {
        let (series, frames, region_valid) = PaddedBatch::of_scans_padded(scans, longest).on(&device);
        let controls = model.controls(&series, &frames, &region_valid)?;
        let [_, slots, width] = controls.control.dims();
        let values = download(controls.control);
        let cut = |(b, &count): (usize, &usize)| ControlSequence {
            width,
            values: values[b * slots * width..][..count * width].to_vec(),
        };
        Ok(controls.counts.iter().enumerate().map(cut).collect())
    };
    let groups: Vec<_> = scans.par_chunks(together).map(group).collect::<Result<_, _>>()?;
    Ok(groups.into_iter().flatten().collect())
}

/// The control of one scan, whole or in windows as the model is used.
pub fn control_of(frozen: &FrozenModel, scan: &ScaledScan) -> Result<ControlSequence, BatchError> {
    Ok(encode(&frozen.model, frozen.windows, &[scan])?.swap_remove(0))
}

/// A scan too long to be encoded whole: each frame is taken from the window it lies most centrally in.
fn encode_windows(model: &Bdo, scan: &ScaledScan, windows: Windows) -> Result<ControlSequence, BatchError> {
    let mut out = ControlSequence { width: model.config().width, values: Vec::new() };
    let (cut, at_once) = (windows.of_scan(scan.clone()), (FRAMES_AT_ONCE / windows.frames).max(1));
    for (some, taken) in cut.windows.chunks(at_once).zip(cut.taken.chunks(at_once)) {
        let controls = encode_whole(model, &some.iter().collect::<Vec<_>>())?;
        for (taken, control) in taken.iter().zip(&controls) {
            out.values.extend_from_slice(&control.values[taken.start * out.width..taken.end * out.width]);
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
    visit: impl FnMut(usize, Encoded<'_>),
) -> Result<Vec<usize>, ModelError> {
    let intake = Intake::new(&frozen.contract, cohort)?;
    let scaled = |i: usize| Ok(intake.scale(&cohort.scan(i)?));
    encode_each(frozen, scans, |i| cohort.index()[i].frames, scaled, observer, visit)
}

/// The same for scans from anywhere: `frames` says how long one is, `scaled` brings it as the model takes it.
pub fn encode_each(
    frozen: &FrozenModel,
    scans: &[usize],
    frames: impl Fn(usize) -> usize,
    scaled: impl Fn(usize) -> Result<Option<ScaledScan>, ModelError> + Sync,
    observer: &dyn Observer,
    mut visit: impl FnMut(usize, Encoded<'_>),
) -> Result<Vec<usize>, ModelError> {
    let windows = frozen.windows;
    let mut order = scans.to_vec();
    order.sort_by_key(|&i| (frames(i), i));
    let (mut done, mut passed_over) = (0, Vec::new());
    for now in runs(&order, |some| fit_together(some, windows.longest_whole, |&i| frames(i))) {
        if observer.stop_requested() {
            return Err(ModelError::Interrupted);
        }
        let scaled: Vec<Option<ScaledScan>> = now.par_iter().map(|&i| scaled(i)).collect::<Result<_, _>>()?;
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
        let controls = encode(&frozen.model, windows, &usable)?;
        for ((i, scan), control) in numbers.into_iter().zip(usable).zip(controls) {
            visit(i, Encoded { control, scan, readout: frozen.readout.as_ref() });
        }
        done += now.len();
        observer.advance(done, passed_over.len());
    }
    Ok(passed_over)
}

/// Whether scans, which come by length, are encoded together; a scan that needs windows goes alone.
fn fit_together<T>(scans: &[T], longest_whole: usize, frames: impl Fn(&T) -> usize) -> bool {
    let longest = scans.last().map_or(0, frames);
    longest <= longest_whole && scans.len() * longest <= FRAMES_AT_ONCE
}

/// Cuts items into runs that grow as long as they fit; what does not fit alone is a run of its own.
pub(crate) fn runs<T>(mut rest: &[T], fits: impl Fn(&[T]) -> bool) -> Vec<&[T]> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let count = (1..=rest.len()).take_while(|&count| fits(&rest[..count])).last().unwrap_or(1);
        let (run, later) = rest.split_at(count);
        found.push(run);
        rest = later;
    }
    found
}
