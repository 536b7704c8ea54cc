//! Whole scans to features, as `bdo embed` computes them.

use bdo_data::scaler::ScaledScan;
use bdo_model::control::encode;
use bdo_model::intake::Windows;
use bdo_model::model::Bdo;
use bdo_model::pooling::Pooling;

use super::{Step, Workload, workload};
use crate::cli::Common;

pub(super) fn step(args: &Workload, common: &Common) -> anyhow::Result<Step> {
    let config = workload::config(args);
    let (kernels, precision) = workload::embed_kernels(args);
    let values = workload::noise("bench-series", &[common.seed], args.batch * args.frames * args.regions);
    let times = workload::frames(args, common.seed, 0).times_seconds;
    let scan = |(values, times): (&[f32], &[f64])| ScaledScan {
        times_seconds: times.to_vec(),
        values: values.to_vec(),
        region_valid: vec![true; args.regions],
    };
    let samples = values.chunks_exact(args.frames * args.regions).zip(times.chunks_exact(args.frames));
    let scans: Vec<ScaledScan> = samples.map(scan).collect();
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
