//! The data and sizes that training and embedding are timed on.

use bdo_data::random;
use bdo_data::scaler::ScaledScan;
use bdo_model::config::ModelConfig;
use bdo_model::device::is_cpu;
use bdo_model::ops::{Kernels, Precision};
use bdo_train::settings::Size;
use burn::tensor::Device;
use rand_chacha::rand_core::Rng;

use super::Workload;

/// The configuration of a size with the given number of regions.
pub(super) fn config(args: &Workload) -> ModelConfig {
    let mut config = match args.size {
        Size::Tiny => ModelConfig::tiny(),
        Size::Small => ModelConfig::small(),
        Size::Base => ModelConfig::base(),
    };
    config.regions = args.regions;
    config
}

/// The kernels to time on a device.
pub(super) fn kernels(args: &Workload, device: &Device) -> (Kernels, Precision) {
    let fastest = if is_cpu(device) { Precision::fastest() } else { Precision::F32 };
    kernels_in(args, args.precision.unwrap_or(fastest))
}

/// The kernels of an embedding, which `bdo embed` computes in single precision: bfloat16 only if asked for.
pub(super) fn embed_kernels(args: &Workload) -> (Kernels, Precision) {
    kernels_in(args, args.precision.unwrap_or(Precision::F32))
}

fn kernels_in(args: &Workload, precision: Precision) -> (Kernels, Precision) {
    (if args.composed { Kernels::Composed } else { Kernels::Fused(precision) }, precision)
}

/// Roughly normal numbers: the sum of four uniform ones, scaled to unit variance. The speed does not depend on their shape.
pub(super) fn noise(purpose: &str, position: &[u64], count: usize) -> Vec<f32> {
    let mut rng = random::stream(purpose, position);
    let uniform = |bits: u64| (bits & 0xffff) as f32 / 65_536.0 - 0.5;
    (0..count)
        .map(|_| {
            let bits = rng.next_u64();
            (uniform(bits) + uniform(bits >> 16) + uniform(bits >> 32) + uniform(bits >> 48)) * 3f32.sqrt()
        })
        .collect()
}

/// A batch of noise at irregular times with a mean gap of 2.2 s.
pub(super) fn scans(args: &Workload, seed: u64) -> Vec<ScaledScan> {
    let scan = |b: u64| {
        let mut rng = random::stream("bench-frames", &[seed, b]);
        let mut time = 0.0;
        let mut frame = || {
            let now = time;
            time += 0.1 + 4.2 * (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            now
        };
        ScaledScan {
            times_seconds: (0..args.frames).map(|_| frame()).collect(),
            values: noise("bench-series", &[seed, b], args.frames * args.regions),
            region_valid: vec![true; args.regions],
        }
    };
    (0..args.batch as u64).map(scan).collect()
}

/// Flops of one forward pass of the encoder over one sample's tokens.
pub(crate) fn encoder_flops(config: &ModelConfig, tokens: usize) -> f64 {
    let (d, n, t) = (config.width as f64, config.regions as f64, tokens as f64);
    let block = (4.0 + 2.0 * config.ffn_ratio as f64) * d * d + 2.0 * t * d;
    2.0 * t * (n * d + d * d + config.blocks as f64 * block)
}

/// Flops of one training step: online encoder forward and backward, teacher forward, dynamics and decoder.
pub(crate) fn train_flops(config: &ModelConfig, batch: usize, context: usize, targets: usize) -> f64 {
    let (d, n) = (config.width as f64, config.regions as f64);
    let (c, t) = (context as f64, targets as f64);
    // The input needs no gradient.
    let online = 3.0 * encoder_flops(config, context) - 2.0 * c * n * d;
    let driven = 6.0 * c * (d * d + 2.0 * config.basis_count as f64 * d);
    let decoder = 6.0 * t * (2.0 * d * d + d * n);
    batch as f64 * (online + encoder_flops(config, targets) + driven + decoder)
}
