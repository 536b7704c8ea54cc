//! Whole scans to features, as `bdo embed` computes them.

use bdo_data::scaler::ScaledScan;
use bdo_model::control::encode;
use bdo_model::intake::Windows;
use bdo_model::model::Bdo;
use bdo_model::ops::Precision;
use bdo_model::pooling::Pooling;

use super::{Step, Workload, workload};
use crate::cli::Common;

pub(super) struct EmbedStep {
    model: Bdo,
    scans: Vec<ScaledScan>,
    precision: Precision,
}

impl EmbedStep {
    pub(super) fn new(args: &Workload, common: &Common) -> anyhow::Result<Self> {
        let seed = common.seed;
        let config = workload::config(args);
        let (kernels, precision) = workload::embed_kernels(args);
        let values = workload::noise("bench-series", &[seed], args.batch * args.frames * args.regions);
        let times = workload::frames(args, seed, 0).times_seconds;
        let scan = |(values, times): (&[f32], &[f64])| ScaledScan {
            times_seconds: times.to_vec(),
            values: values.to_vec(),
            region_valid: vec![true; args.regions],
        };
        let samples = values.chunks_exact(args.frames * args.regions).zip(times.chunks_exact(args.frames));
        Ok(Self {
            model: Bdo::init(&config, seed, kernels, &common.place()?)?,
            scans: samples.map(scan).collect(),
            precision,
        })
    }
}

impl Step for EmbedStep {
    fn step(&mut self) -> anyhow::Result<()> {
        std::hint::black_box(features(&self.model, &self.scans)?);
        Ok(())
    }

    fn flops(&self) -> f64 {
        let frames = self.scans.first().map_or(0, |scan| scan.times_seconds.len());
        self.scans.len() as f64 * workload::encoder_flops(self.model.config(), frames)
    }

    fn precision(&self) -> Precision {
        self.precision
    }
}

/// The mean of the control of every scan, through the functions that `bdo embed` calls.
pub(super) fn features(model: &Bdo, scans: &[ScaledScan]) -> anyhow::Result<Vec<Vec<f32>>> {
    let controls = encode(model, Windows::WHOLE_SCANS, &scans.iter().collect::<Vec<_>>())?;
    Ok(controls.iter().map(|control| Pooling::Mean.of_control(control)).collect())
}
