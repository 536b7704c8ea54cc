//! Times one training step (pass, gradients, moving average) at a real size:
//! `cargo run --release -p bdo-model --example step -- [width] [batch] [fused|bf16|composed]`.

use bdo_model::batch::MaskedBatch;
use bdo_model::config::ModelConfig;
use bdo_model::dynamics::Frames;
use bdo_model::ema::EmaEncoder;
use bdo_model::init::Stream;
use bdo_model::model::Bdo;
use bdo_model::ops::{Kernels, Precision};
use burn::tensor::{Device, Tensor, TensorData};
use std::time::Instant;

const FRAMES: usize = 160;
const STEPS: usize = 5;

fn main() {
    bdo_kernels::allocator::tune_allocator();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default: usize| arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (width, batch) = (number(0, 192), number(1, 32));
    let kernels = match arguments.get(2).map(String::as_str) {
        Some("composed") => Kernels::Composed,
        Some("bf16") => Kernels::Fused(Precision::Bf16),
        _ => Kernels::default(),
    };
    let config = ModelConfig { width, heads: width / 64, ..ModelConfig::default() };
    let device = Device::flex().autodiff();
    let model = Bdo::init(&config, 1, kernels, &device).expect("the configuration is valid");
    let mut teacher = EmaEncoder::new(&model.encoder);
    let masked = random_batch(&config, batch, &device);
    for _ in 0..STEPS {
        let start = Instant::now();
        let pass = model.train_pass(&teacher, &masked, model.loss_weights()).expect("the batch fits the model");
        let forward = start.elapsed();
        let start = Instant::now();
        let _gradients = pass.loss.total.backward();
        let backward = start.elapsed();
        let start = Instant::now();
        teacher.update(&model.encoder, 0.996);
        let average = start.elapsed();
        println!("forward {forward:.1?}, backward {backward:.1?}, moving average {average:.1?}");
    }
}

fn random_batch(config: &ModelConfig, batch: usize, device: &Device) -> MaskedBatch {
    let mut stream = Stream::named(1, "batch");
    let mut normal = |width: usize| {
        let values: Vec<f32> = (0..batch * FRAMES * width).map(|_| stream.normal() as f32).collect();
        Tensor::<3>::from_data(TensorData::new(values, [batch, FRAMES, width]), device)
    };
    MaskedBatch {
        kin: Vec::new(),
        fingerprint: None,
        series: normal(config.regions),
        frames: Frames {
            batch,
            frames: FRAMES,
            times_seconds: (0..batch * FRAMES).map(|row| (row % FRAMES) as f64 * 2.2).collect(),
            context: (0..batch * FRAMES).map(|row| row % 4 == 1).collect(),
            valid: vec![true; batch * FRAMES],
        },
        region_valid: vec![true; batch * config.regions],
        latent_noise: normal(config.width),
        process_noise: vec![normal(config.width)],
        dropout_key: [0; 32],
    }
}
