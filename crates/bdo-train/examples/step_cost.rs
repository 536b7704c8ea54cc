//! Times the parts of a training step at a real size:
//! `cargo run --release -p bdo-train --example step_cost -- [width] [batch]`.

use bdo_data::scaler::ScaledScan;
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_model::config::ModelConfig;
use bdo_model::intake::{HostBatch, MaskSettings, NoiseShape, Sample, VisitKey};
use bdo_train::bdo::BdoLearner;
use bdo_train::gradient::NamedGradients;
use bdo_train::optimiser::AdamState;
use bdo_train::settings::{Preset, Settings};
use burn::tensor::Device;
use std::time::Instant;

fn main() {
    bdo_kernels::allocator::tune_allocator();
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (width, batch) = (arguments.first().copied().unwrap_or(192), arguments.get(1).copied().unwrap_or(32));
    let config = ModelConfig { width, heads: width / 64, ..ModelConfig::default() };
    let device = Device::flex().autodiff();
    let learner =
        BdoLearner::fresh(&config, &Settings::preset(Preset::Paper), 1, &device).expect("a valid configuration");
    let BdoLearner { mut model, mut teacher, .. } = learner;
    let mut adam = AdamState::default();
    let settings = Adam {
        learning_rate: 1e-4,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: WeightDecay::None,
        gradient_scale: 1.0,
    };
    let samples: Vec<Sample> = (0..batch as u64).map(|scan| sample(&config, scan)).collect();
    for _ in 0..4 {
        let start = Instant::now();
        let noise = NoiseShape { width, draws: 1, sample_latent: true, unit_input: false };
        let host = HostBatch::draw(&samples, &MaskSettings::default(), noise);
        let drawn = start.elapsed();
        let masked = host.into_masked(&device);
        let start = Instant::now();
        let pass = model.train_pass(&teacher, &masked, model.loss_weights()).expect("the batch fits");
        let total = pass.loss.total.clone();
        drop(pass);
        let gradients = NamedGradients::of_module(&model, total.backward());
        let passes = start.elapsed();
        let start = Instant::now();
        let norm = gradients.norm();
        let clipped = start.elapsed();
        let start = Instant::now();
        model = adam.apply(model, &gradients, &settings, 1.0);
        let stepped = start.elapsed();
        let start = Instant::now();
        teacher.update(&model.encoder, 0.996);
        println!(
            "draw {drawn:.1?}, passes {passes:.1?}, norm {clipped:.1?} ({norm:.3}), Adam {stepped:.1?}, average {:.1?}",
            start.elapsed()
        );
    }
}

fn sample(config: &ModelConfig, scan: u64) -> Sample {
    let mut values = vec![0.0; 480 * config.regions];
    bdo_model::noise::fill_normal(&mut bdo_data::random::stream("example", &[scan]), &mut values);
    let times_seconds = (0..480).map(|frame| f64::from(frame) * 0.735).collect();
    let scan_values = ScaledScan { times_seconds, values, region_valid: vec![true; config.regions] };
    Sample { scan: scan_values, key: VisitKey { seed: 0, epoch: 0, scan } }
}
