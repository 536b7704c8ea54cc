//! One whole training step: draw, student, teacher, dynamics, decoder, clipping, Adam, moving average.

use bdo_data::scaler::ScaledScan;
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_model::batch::MaskedBatch;
use bdo_model::config::ModelConfig;
use bdo_model::ema::EmaEncoder;
use bdo_model::intake::MaskSettings;
use bdo_model::intake::{HostBatch, NoiseShape, Sample, VisitKey};
use bdo_model::model::Bdo;
use bdo_model::ops::{Kernels, Precision};
use bdo_train::optimiser::AdamState;
use bdo_train::step::{StepSettings, train_step_accumulated};
use burn::tensor::Device;

use super::{Step, Workload, workload};

pub(super) struct TrainStep {
    /// Taken out while a step changes it in place.
    model: Option<Bdo>,
    teacher: EmaEncoder,
    state: AdamState,
    samples: Vec<Sample>,
    mask: MaskSettings,
    settings: StepSettings,
    device: Device,
    precision: Precision,
    micro_batch: usize,
    flops: f64,
}

/// What the timed run cuts its batches into, unless told otherwise.
const MICRO_BATCH: usize = 16;

impl TrainStep {
    pub(super) fn new(args: &Workload, seed: u64) -> anyhow::Result<Self> {
        let (kernels, precision) = workload::kernels(args);
        let times = workload::frames(args, seed, 0).times_seconds;
        let samples = (0..args.batch)
            .map(|b| Sample {
                scan: ScaledScan {
                    times_seconds: times[b * args.frames..(b + 1) * args.frames].to_vec(),
                    values: workload::noise("bench-series", &[seed, b as u64], args.frames * args.regions),
                    region_valid: vec![true; args.regions],
                },
                key: VisitKey { seed, epoch: 0, scan: b as u64 },
            })
            .collect();
        let work = Self::on(&workload::config(args), samples, kernels, precision, args.frames, seed)?;
        Ok(Self { micro_batch: args.micro_batch, ..work })
    }

    /// On given scans, of which a visit draws so many frames.
    pub(super) fn on(
        config: &ModelConfig,
        samples: Vec<Sample>,
        kernels: Kernels,
        precision: Precision,
        frames: usize,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let device = Device::flex().autodiff();
        let model = Bdo::init(config, seed, kernels, &device)?;
        let mask = MaskSettings { frames, ..MaskSettings::default() };
        let targets = (0.75 * frames as f64 + 0.5) as usize;
        let adam = Adam {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: WeightDecay::None,
            gradient_scale: 1.0,
        };
        let settings = StepSettings {
            adam,
            clip_norm: 1.0,
            ema_momentum: 0.996,
            weights: model.loss_weights(),
            loss_limit: f64::INFINITY,
        };
        let flops = workload::train_flops(config, samples.len(), frames - targets, targets);
        let (teacher, state) = (EmaEncoder::new(&model.encoder), AdamState::default());
        Ok(Self {
            model: Some(model),
            teacher,
            state,
            samples,
            mask,
            settings,
            device,
            precision,
            micro_batch: MICRO_BATCH,
            flops,
        })
    }
}

impl Step for TrainStep {
    fn step(&mut self) -> anyhow::Result<()> {
        for sample in &mut self.samples {
            sample.key.epoch += 1;
        }
        let model = self.model.take().expect("a step puts the model back");
        let config = model.config();
        let noise = NoiseShape::of(config);
        let batch = HostBatch::draw(&self.samples, &self.mask, noise).micro_batches(self.micro_batch);
        let batches: Vec<MaskedBatch> = batch.into_iter().map(|part| part.into_masked(&self.device)).collect();
        let (model, report) =
            train_step_accumulated(model, &mut self.teacher, &mut self.state, &batches, &self.settings)?;
        self.model = Some(model);
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
