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

pub(super) struct TrainStep {
    /// Taken out while a step changes it in place.
    learner: Option<BdoLearner>,
    noise: NoiseShape,
    adam: AdamState,
    samples: Vec<Sample>,
    mask: MaskSettings,
    micro_batch: usize,
    at: At,
    precision: Precision,
    flops: f64,
}

/// What the timed run cuts its batches into, unless told otherwise.
pub(super) const MICRO_BATCH: usize = 16;

impl TrainStep {
    pub(super) fn new(args: &Workload, common: &Common) -> anyhow::Result<Self> {
        let seed = common.seed;
        let device = common.place()?;
        let (kernels, precision) = workload::kernels(args, &device);
        let times = workload::frames(args, seed, 0).times_seconds;
        let samples = (0..args.batch)
            .map(|b| {
                let scan = ScaledScan {
                    times_seconds: times[b * args.frames..(b + 1) * args.frames].to_vec(),
                    values: workload::noise("bench-series", &[seed, b as u64], args.frames * args.regions),
                    region_valid: vec![true; args.regions],
                };
                Sample::alone(scan, VisitKey { seed, epoch: 0, scan: b as u64, visit: 0 })
            })
            .collect();
        Self::on(&workload::config(args), samples, kernels, precision, (args.frames, args.micro_batch), (seed, &device))
    }

    /// On given scans, of which a visit draws so many frames.
    pub(super) fn on(
        config: &ModelConfig,
        samples: Vec<Sample>,
        kernels: Kernels,
        precision: Precision,
        (frames, micro_batch): (usize, usize),
        (seed, device): (u64, &Device),
    ) -> anyhow::Result<Self> {
        let settings = Settings::preset(Preset::Paper);
        let learner = BdoLearner::with_kernels(config, &settings, kernels, seed, &device.clone().autodiff())?;
        let mask = MaskSettings { frames, ..MaskSettings::default() };
        let targets = (0.75 * frames as f64 + 0.5) as usize;
        // In the middle of a long run, where the moving average still moves.
        let at = At { plan: Plan::of_epochs(1000.0, 1), step: 500, seed };
        let flops = workload::train_flops(config, samples.len(), frames - targets, targets);
        let (noise, adam) = (NoiseShape::of(config), AdamState::default());
        Ok(Self { learner: Some(learner), noise, adam, samples, mask, micro_batch, at, precision, flops })
    }
}

impl Step for TrainStep {
    fn step(&mut self) -> anyhow::Result<()> {
        for sample in &mut self.samples {
            sample.key.epoch += 1;
        }
        let learner = self.learner.take().expect("a step puts the learner back");
        let batch = MicroBatches::of_samples(&self.samples, self.micro_batch, &self.mask, self.noise);
        let pieces = learner.pieces(batch, &self.at);
        let limits = StepLimits { clip_norm: 1.0, loss: f64::INFINITY };
        let (learner, report) = take_step(learner, &mut self.adam, &pieces, &self.at, &limits, &Alone)?;
        self.learner = Some(learner);
        anyhow::ensure!(report.skipped.is_none(), "expected a step that is taken, found {:?}", report.skipped);
        Ok(())
    }

    fn flops(&self) -> f64 {
        self.flops
    }

    fn precision(&self) -> Precision {
        self.precision
    }
}
