//! One whole training step: draw, student, teacher, dynamics, decoder, clipping, Adam, moving average.

use bdo_data::record::Plan;
use bdo_data::scaler::ScaledScan;
use bdo_model::config::ModelConfig;
use bdo_model::intake::{MaskSettings, MicroBatches, NoiseShape, Sample, VisitKey};
use bdo_model::ops::{Kernels, Precision};
use bdo_train::bdo::BdoLearner;
use bdo_train::learner::{At, Learner};
use bdo_train::optimiser::AdamState;
use bdo_train::ranks::Alone;
use bdo_train::settings::{Preset, Settings};
use bdo_train::step::{StepLimits, take_step};
use burn::tensor::Device;

use super::{Step, Workload, workload};
use crate::cli::Common;

/// What the timed run cuts its batches into, unless told otherwise.
pub(super) const MICRO_BATCH: usize = 16;

pub(super) fn step(args: &Workload, common: &Common) -> anyhow::Result<Step> {
    let seed = common.seed;
    let device = common.place()?;
    let (kernels, precision) = workload::kernels(args, &device);
    let times = workload::frames(args, seed, 0).times_seconds;
    let sample = |b: usize| {
        let scan = ScaledScan {
            times_seconds: times[b * args.frames..(b + 1) * args.frames].to_vec(),
            values: workload::noise("bench-series", &[seed, b as u64], args.frames * args.regions),
            region_valid: vec![true; args.regions],
        };
        Sample::alone(scan, VisitKey { seed, epoch: 0, scan: b as u64, visit: 0 })
    };
    let samples = (0..args.batch).map(sample).collect();
    let sizes = (args.frames, args.micro_batch);
    step_on(&workload::config(args), samples, (kernels, precision), sizes, (seed, &device))
}

/// On given scans, of which a visit draws so many frames.
pub(super) fn step_on(
    config: &ModelConfig,
    mut samples: Vec<Sample>,
    (kernels, precision): (Kernels, Precision),
    (frames, micro_batch): (usize, usize),
    (seed, device): (u64, &Device),
) -> anyhow::Result<Step> {
    let settings = Settings::preset(Preset::Paper);
    // Taken out while a step changes it in place.
    let mut learner = Some(BdoLearner::with_kernels(config, &settings, kernels, seed, &device.clone().autodiff())?);
    let mask = MaskSettings { frames, ..MaskSettings::default() };
    let targets = (0.75 * frames as f64 + 0.5) as usize;
    // In the middle of a long run, where the moving average still moves.
    let at = At { plan: Plan::of_epochs(1000.0, 1), step: 500, seed };
    let flops = workload::train_flops(config, samples.len(), frames - targets, targets);
    let (noise, mut adam) = (NoiseShape::of(config), AdamState::default());
    let work = move || {
        samples.iter_mut().for_each(|sample| sample.visit.key.epoch += 1);
        let taken = learner.take().expect("a step puts the learner back");
        let batch = MicroBatches::of_samples(&samples, micro_batch, &mask, noise);
        let pieces = taken.pieces(batch, &at);
        let limits = StepLimits { clip_norm: 1.0, loss: f64::INFINITY };
        let (taken, report) = take_step(taken, &mut adam, &pieces, &at, &limits, &Alone)?;
        learner = Some(taken);
        anyhow::ensure!(report.skipped.is_none(), "expected a step that is taken, found {:?}", report.skipped);
        Ok(())
    };
    Ok(Step { work: Box::new(work), flops, precision })
}
