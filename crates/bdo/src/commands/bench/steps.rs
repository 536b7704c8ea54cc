//! What is timed again and again: one whole training step (draw, student, teacher, dynamics, decoder, clipping, Adam, moving
//! average), or whole scans to features.

use bdo_data::record::Plan;
use bdo_data::scaler::ScaledScan;
use bdo_model::config::ModelConfig;
use bdo_model::control::encode;
use bdo_model::intake::{MaskSettings, MicroBatches, NoiseShape, Sample, VisitKey, Windows};
use bdo_model::model::Bdo;
use bdo_model::ops::{Kernels, Precision};
use bdo_model::pooling::Pooling;
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

pub(super) fn training(args: &Workload, common: &Common) -> anyhow::Result<Step> {
    let seed = common.seed;
    let device = common.place()?;
    let (kernels, precision) = workload::kernels(args, &device);
    let scans = workload::scans(args, seed);
    let samples = scans.into_iter().enumerate().map(|(b, scan)| sample(scan, seed, b)).collect();
    let sizes = (args.frames, args.micro_batch);
    step_on(&workload::config(args), samples, (kernels, precision), sizes, (seed, &device))
}

/// The first visit of a scan.
pub(super) fn sample(scan: ScaledScan, seed: u64, number: usize) -> Sample {
    Sample::alone(scan, VisitKey { seed, epoch: 0, scan: number as u64, visit: 0 })
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

/// Whole scans to features, as `bdo embed` computes them.
pub(super) fn embedding(args: &Workload, common: &Common) -> anyhow::Result<Step> {
    let config = workload::config(args);
    let (kernels, precision) = workload::embed_kernels(args);
    let scans = workload::scans(args, common.seed);
    let flops = scans.len() as f64 * workload::encoder_flops(&config, args.frames);
    let model = Bdo::init(&config, common.seed, kernels, &common.place()?)?;
    Ok(Step { work: features(model, scans), flops, precision })
}

/// The mean of the control of every scan, through the functions that `bdo embed` calls.
pub(super) fn features(model: Bdo, scans: Vec<ScaledScan>) -> Box<dyn FnMut() -> anyhow::Result<()>> {
    Box::new(move || {
        let controls = encode(&model, Windows::WHOLE_SCANS, &scans.iter().collect::<Vec<_>>())?;
        let features = controls.iter().map(|control| Pooling::Mean.of_control(control));
        std::hint::black_box(features.collect::<Vec<_>>());
        Ok(())
    })
}
