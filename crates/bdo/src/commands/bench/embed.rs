//! One batch of whole scans to features.

use bdo_model::dynamics::Frames;
use bdo_model::model::Bdo;
use bdo_model::ops::Precision;
use burn::tensor::{Device, Tensor, TensorData};

use super::{Step, Workload, workload};

pub(super) struct EmbedStep {
    model: Bdo,
    series: Tensor<3>,
    frames: Frames,
    region_valid: Vec<bool>,
    precision: Precision,
}

impl EmbedStep {
    pub(super) fn new(args: &Workload, seed: u64) -> anyhow::Result<Self> {
        let config = workload::config(args);
        let (kernels, precision) = workload::kernels(args);
        let device = Device::flex();
        let values = workload::noise("bench-series", &[seed], args.batch * args.frames * args.regions);
        Ok(Self {
            model: Bdo::init(&config, seed, kernels, &device)?,
            series: Tensor::from_data(TensorData::new(values, [args.batch, args.frames, args.regions]), &device),
            frames: workload::frames(args, seed, 0),
            region_valid: vec![true; args.batch * args.regions],
            precision,
        })
    }
}

impl Step for EmbedStep {
    fn step(&mut self) -> anyhow::Result<()> {
        let feature = self.model.feature(&self.series, &self.frames, &self.region_valid)?;
        std::hint::black_box(feature.into_data());
        Ok(())
    }

    fn flops(&self) -> f64 {
        self.frames.batch as f64 * workload::encoder_flops(self.model.config(), self.frames.frames)
    }

    fn precision(&self) -> Precision {
        self.precision
    }
}
