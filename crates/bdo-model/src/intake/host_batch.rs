//! A batch of visits, drawn from streams keyed by seed, epoch and scan: any batch of a run can be made at any time,
//! on any thread, without the ones before it.

use super::{Centre, MaskSettings, PaddedBatch, Part, Visit};
use crate::batch::MaskedBatch;
use crate::config::ModelConfig;
use crate::device::upload;
use crate::noise::fill_normal;
use bdo_data::random::{shuffle, stream};
use bdo_data::scaler::ScaledScan;
use burn::tensor::{Device, TensorData};
use rayon::prelude::*;
use std::sync::Arc;

/// A root mean square below this is that of nothing: values are not divided by it, or hidden ones would become huge.
pub(crate) const NO_SIZE: f64 = 1e-6;

/// Position of the random stream of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitKey {
    /// Seed of the run.
    pub seed: u64,
    /// Pass over the data.
    pub epoch: u64,
    /// Number of the scan in its cohort.
    pub scan: u64,
    /// Tells visits of one scan in one pass apart, counted from 0.
    pub visit: u64,
}

impl VisitKey {
    pub(super) fn position(self, draw: Option<u64>) -> Vec<u64> {
        let visit = (self.visit > 0).then_some(self.visit);
        [self.seed, self.epoch, self.scan].into_iter().chain(draw).chain(visit).collect()
    }
}

/// Whose visit a sample is, for terms that compare samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kin {
    /// Number of the scan.
    pub scan: usize,
    /// Number of the person.
    pub person: usize,
    /// Number of the way of scanning: site and repetition time. Samples of a group lie side by side.
    pub group: usize,
}

/// What is known of a sample before its scan is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedVisit {
    /// Where its random numbers come from.
    pub key: VisitKey,
    /// Frames it may see.
    pub part: Part,
    /// Whose it is.
    pub kin: Kin,
    /// Frames of the scan.
    pub frames: usize,
}

/// One scan of a batch and a visit to it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Centred and scaled.
    pub scan: Arc<ScaledScan>,
    /// How it is seen.
    pub visit: PlannedVisit,
}

impl Sample {
    /// A visit to the whole of a scan that is compared with no other.
    pub fn alone(scan: ScaledScan, key: VisitKey) -> Self {
        let visit = PlannedVisit { key, part: Part::Whole, kin: Kin::default(), frames: scan.times_seconds.len() };
        Self { scan: Arc::new(scan), visit }
    }
}

/// Sizes the tensors of a batch depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseShape {
    /// Latent width, d.
    pub width: usize,
    /// State draws a step.
    pub draws: usize,
    /// Whether the latents of the context are drawn too.
    pub sample_latent: bool,
    /// Whether visits are divided by the size of what is visible of them, as the model does.
    pub unit_input: bool,
    /// Whether each region is divided by its own.
    pub unit_regions: bool,
}

impl NoiseShape {
    /// The noise of a model.
    pub fn of(config: &ModelConfig) -> Self {
        Self {
            width: config.width,
            draws: config.loss.monte_carlo_samples,
            sample_latent: config.sample_latent,
            unit_input: config.unit_input,
            unit_regions: config.unit_regions,
        }
    }
}

/// A batch on the host, ready to become tensors without a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct HostBatch {
    width: usize,
    padded: PaddedBatch,
    latent_noise: Vec<f32>,
    process_noise: Vec<Vec<f32>>,
    pub(super) dropout_key: [u8; 32],
    target_mean_square: f64,
    pub(super) kin: Vec<Kin>,
}

impl HostBatch {
    /// Draws frames, targets and noise for each sample; samples are padded at their end to the longest, and to `least` frames at
    /// least. Every sample has at least one valid region and two frames.
    pub fn draw(samples: &[Sample], mask: &MaskSettings, noise: NoiseShape, least: usize) -> Self {
        let visits: Vec<Visit> = samples
            .iter()
            .map(|s| {
                Visit::draw_part(
                    mask,
                    &s.scan.times_seconds,
                    s.visit.part,
                    &mut stream("visit", &s.visit.key.position(None)),
                )
            })
            .collect();
        let mut host = Self::of_visits(samples, &visits, noise, least);
        if mask.region_ratio > 0.0 {
            host.hide_regions(samples, mask.region_ratio);
        }
        host
    }

    /// Takes regions out of what the encoder sees, as if they lay outside the field of view; they stay in the loss. Each
    /// sample loses its share at random and keeps at least one valid region.
    fn hide_regions(&mut self, samples: &[Sample], ratio: f64) {
        let (k, n) = (self.padded.frames.frames, self.padded.regions());
        for (b, sample) in samples.iter().enumerate() {
            let mut regions: Vec<usize> = (0..n).filter(|&r| sample.scan.region_valid[r]).collect();
            shuffle(&mut regions, &mut stream("hidden regions", &sample.visit.key.position(None)));
            let hidden = ((ratio * regions.len() as f64).round() as usize).min(regions.len().saturating_sub(1));
            for row in (b * k..(b + 1) * k).filter(|&row| self.padded.frames.context[row]) {
                regions[..hidden].iter().for_each(|region| self.padded.series[row * n + region] = 0.0);
            }
        }
    }

    /// The batch of visits already drawn.
    pub fn of_visits(samples: &[Sample], visits: &[Visit], noise: NoiseShape, least: usize) -> Self {
        let longest = visits.iter().map(|visit| visit.frames.len()).max().unwrap_or(0).max(least);
        let region_valid = samples.iter().flat_map(|s| s.scan.region_valid.iter().copied()).collect();
        let padded = PaddedBatch::new(samples.len(), longest, region_valid);
        let size = padded.frames.valid.len() * noise.width;
        let mut host = Self {
            width: noise.width,
            padded,
            latent_noise: vec![0.0; size],
            process_noise: vec![vec![0.0; size]; noise.draws],
            dropout_key: samples.first().map_or([0; 32], |s| dropout_key(s.visit.key)),
            target_mean_square: 0.0,
            kin: samples.iter().map(|sample| sample.visit.kin).collect(),
        };
        host.fill_series(samples, visits, noise);
        host.fill_noise(samples, visits, noise);
        host
    }

    fn fill_series(&mut self, samples: &[Sample], visits: &[Visit], noise: NoiseShape) {
        let (k, n) = (self.padded.frames.frames, self.padded.regions());
        for (b, (sample, visit)) in samples.iter().zip(visits).enumerate() {
            for (row, (&frame, &context)) in visit.frames.iter().zip(&visit.context).enumerate() {
                self.padded.set(b, row, sample.scan.times_seconds[frame] - visit.origin_seconds, context);
            }
        }
        let fill = |(out, (sample, visit)): (&mut [f32], (&Sample, &Visit))| -> f64 {
            let (mut sum, mut targets) = (0.0f64, 0usize);
            let means = visible_means(&sample.scan, visit);
            let sizes = visible_sizes(&sample.scan, visit, &means, noise);
            for (row, (&frame, &context)) in visit.frames.iter().zip(&visit.context).enumerate() {
                let values = &sample.scan.values[frame * n..(frame + 1) * n];
                let row = &mut out[row * n..(row + 1) * n];
                for (((x, value), mean), size) in row.iter_mut().zip(values).zip(&means).zip(&sizes) {
                    *x = (value - mean) / size;
                }
                if !context {
                    targets += 1;
                    sum += row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
                }
            }
            let valid = sample.scan.region_valid.iter().filter(|v| **v).count();
            sum / (targets * valid).max(1) as f64
        };
        let rows = self.padded.series.par_chunks_mut((k * n).max(1));
        let squares: Vec<f64> = rows.zip(samples.par_iter().zip(visits)).map(fill).collect();
        self.target_mean_square = squares.iter().sum::<f64>() / samples.len().max(1) as f64;
    }

    /// Noise only where it is read: context rows for the latents, target rows for the states.
    fn fill_noise(&mut self, samples: &[Sample], visits: &[Visit], noise: NoiseShape) {
        let (size, width) = (self.padded.frames.frames * self.width, self.width);
        let fill = |out: &mut [f32], purpose: &str, b: usize, draw: u64, wanted: bool| {
            let mut rng = stream(purpose, &samples[b].visit.key.position(Some(draw)));
            for (row, _) in visits[b].context.iter().enumerate().filter(|(_, context)| **context == wanted) {
                fill_normal(&mut rng, &mut out[row * width..(row + 1) * width]);
            }
        };
        if noise.sample_latent {
            let chunks = self.latent_noise.par_chunks_mut(size.max(1)).enumerate();
            chunks.for_each(|(b, out)| fill(out, "latent noise", b, 0, true));
        }
        for (draw, buffer) in self.process_noise.iter_mut().enumerate() {
            let chunks = buffer.par_chunks_mut(size.max(1)).enumerate();
            chunks.for_each(|(b, out)| fill(out, "process noise", b, draw as u64, false));
        }
    }

    /// Number of scans.
    pub fn scans(&self) -> usize {
        self.padded.frames.batch
    }

    /// Mean square of the target values: what predicting zero would cost.
    pub fn target_mean_square(&self) -> f64 {
        self.target_mean_square
    }

    /// The series, for tests that damage it.
    pub fn series_mut(&mut self) -> &mut [f32] {
        &mut self.padded.series
    }

    /// Moves the batch onto a device.
    pub fn into_masked(self, device: &Device) -> MaskedBatch {
        let shape = [self.padded.frames.batch, self.padded.frames.frames, self.width];
        let tensor = |values: Vec<f32>| upload(TensorData::new(values, shape), device);
        let (series, frames, region_valid) = self.padded.on(device);
        MaskedBatch {
            series,
            frames,
            region_valid,
            latent_noise: tensor(self.latent_noise),
            process_noise: self.process_noise.into_iter().map(tensor).collect(),
            dropout_key: self.dropout_key,
            kin: self.kin,
        }
    }
}

/// Mean to subtract from each region; missing regions are 0 and stay so.
fn visible_means(scan: &ScaledScan, visit: &Visit) -> Vec<f32> {
    let n = scan.region_valid.len();
    if visit.centre == Centre::Scan {
        return vec![0.0; n];
    }
    let visible = visit.frames.iter().zip(&visit.context).filter(|(_, context)| **context);
    means_of_rows(&scan.values, n, visible.map(|(frame, _)| *frame))
}

/// Mean of some rows of row-major values, column by column; 0 of none.
pub(crate) fn means_of_rows(values: &[f32], columns: usize, rows: impl Iterator<Item = usize>) -> Vec<f32> {
    let (mut sums, mut count) = (vec![0.0f64; columns], 0usize);
    for row in rows {
        count += 1;
        sums.iter_mut().zip(&values[row * columns..(row + 1) * columns]).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    sums.iter().map(|sum| (sum / count.max(1) as f64) as f32).collect()
}

/// Root mean square of what is visible of each region, or of all of them, as the model divides by it.
fn visible_sizes(scan: &ScaledScan, visit: &Visit, means: &[f32], noise: NoiseShape) -> Vec<f32> {
    let n = scan.region_valid.len();
    if !noise.unit_input && !noise.unit_regions {
        return vec![1.0; n];
    }
    let (mut sums, mut frames) = (vec![0.0f64; n], 0usize);
    for (frame, _) in visit.frames.iter().zip(&visit.context).filter(|(_, context)| **context) {
        let values = &scan.values[frame * n..(frame + 1) * n];
        for ((sum, x), mean) in sums.iter_mut().zip(values).zip(means) {
            *sum += f64::from(x - mean) * f64::from(x - mean);
        }
        frames += 1;
    }
    let size = |sum: f64, count: usize| {
        let size = (sum / count.max(1) as f64).sqrt();
        if size < NO_SIZE { 1.0 } else { size as f32 }
    };
    if noise.unit_regions {
        return sums.iter().map(|sum| size(*sum, frames)).collect();
    }
    let valid = || sums.iter().zip(&scan.region_valid).filter(|(_, valid)| **valid);
    vec![size(valid().map(|(sum, _)| sum).sum(), frames * valid().count()); n]
}

/// A whole scan divided as the model divides a visit to all of it.
pub fn unit_sized(mut scan: ScaledScan, config: &ModelConfig) -> ScaledScan {
    let (frames, regions) = (scan.times_seconds.len(), scan.region_valid.len());
    let visit =
        Visit { frames: (0..frames).collect(), context: vec![true; frames], origin_seconds: 0.0, centre: Centre::Scan };
    let sizes = visible_sizes(&scan, &visit, &vec![0.0; regions], NoiseShape::of(config));
    for row in scan.values.chunks_exact_mut(regions) {
        row.iter_mut().zip(&sizes).for_each(|(x, size)| *x /= size);
    }
    scan
}

pub(super) fn dropout_key(key: VisitKey) -> [u8; 32] {
    let mut bytes = [0; 32];
    rand_chacha::rand_core::Rng::fill_bytes(&mut stream("dropout", &key.position(None)), &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_regions_are_gone_from_what_is_seen_and_stay_in_what_is_asked() {
        let regions = 10;
        let scan = ScaledScan {
            times_seconds: (0..40).map(f64::from).collect(),
            values: vec![1.0; 40 * regions],
            region_valid: (0..regions).map(|r| r != 3).collect(),
        };
        let sample = |number| Sample::alone(scan.clone(), VisitKey { seed: 1, epoch: 2, scan: number, visit: 0 });
        let samples = [sample(0), sample(1)];
        let mask = MaskSettings { ratio: 0.5, frames: 20, region_ratio: 1.0 / 3.0, ..MaskSettings::default() };
        let noise = NoiseShape { width: 4, draws: 1, sample_latent: false, unit_input: false, unit_regions: false };
        let (host, again) = (HostBatch::draw(&samples, &mask, noise, 0), HostBatch::draw(&samples, &mask, noise, 0));
        assert_eq!(host, again);
        let hidden = |row: usize| -> Vec<usize> {
            (0..regions).filter(|r| host.padded.series[row * regions + r] == 0.0).collect()
        };
        for b in 0..2 {
            let rows = b * 20..(b + 1) * 20;
            let seen: Vec<Vec<usize>> =
                rows.clone().filter(|&row| host.padded.frames.context[row]).map(hidden).collect();
            // Three of nine valid regions.
            assert!(seen.iter().all(|regions| regions.len() == 3 && *regions == seen[0]), "{seen:?}");
            assert!(rows.filter(|&row| !host.padded.frames.context[row]).all(|row| hidden(row).is_empty()));
        }
        assert_ne!(hidden(host.padded.frames.context.iter().position(|c| *c).unwrap_or(0)).len(), 0);
    }
}
