//! Values and gradients against an independent `PyTorch` twin computed in double precision.

use crate::toy::{gradients, relative_l2, values};
use bdo_model::batch::MaskedBatch;
use bdo_model::config::ModelConfig;
use bdo_model::dynamics::Frames;
use bdo_model::ema::EmaEncoder;
use bdo_model::model::Bdo;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{Array, Parameters};
use burn::tensor::{Device, Tensor, TensorData};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[test]
fn plain() {
    check("plain");
}

#[test]
fn ragged_batch_with_missing_regions() {
    check("ragged");
}

#[test]
fn every_option_away_from_its_default() {
    check("variants");
}

#[test]
fn frozen_basis() {
    check("frozen_basis");
}

#[test]
fn no_latent_target() {
    check("tau_zero");
}

struct Golden {
    arrays: BTreeMap<String, Array>,
    config: ModelConfig,
}

fn read(case: &str) -> Golden {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/golden/model_{case}.safetensors"));
    let bytes = std::fs::read(path).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let twin: serde_json::Value = serde_json::from_str(&metadata.metadata().as_ref().unwrap()["config"]).unwrap();
    let arrays = SafeTensors::deserialize(&bytes)
        .unwrap()
        .iter()
        .map(|(name, view)| {
            let values = view.data().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
            (name.to_owned(), Array { shape: view.shape().to_vec(), values })
        })
        .collect();
    Golden { arrays, config: translate(&twin) }
}

/// The twin's keys into ours; it gives the diffusion as a variance, we as a standard deviation.
fn translate(twin: &serde_json::Value) -> ModelConfig {
    let number = |key: &str| twin[key].as_f64().unwrap();
    let count = |key: &str| twin[key].as_u64().unwrap() as usize;
    let flag = |key: &str| twin[key].as_bool().unwrap();
    let mut config = ModelConfig {
        regions: count("regions"),
        width: count("width"),
        blocks: count("blocks"),
        heads: count("heads"),
        ffn_ratio: count("ffn_ratio"),
        basis_count: count("mixtures"),
        layer_norm_eps: number("layer_norm_eps"),
        final_norm: flag("final_norm"),
        attention_norm: flag("attention_norm"),
        qkv_bias: flag("qkv_bias"),
        time_encoding: serde_json::from_value(twin["time_encoding"].clone()).unwrap(),
        time_scale: number("time_scale"),
        ..ModelConfig::default()
    };
    config.dynamics.diffusion = number("diffusion").sqrt();
    config.dynamics.learn_basis = flag("learn_basis");
    config.loss.tau = number("tau");
    config.loss.sigma_q = number("sigma_q");
    config.loss.sigma_p = number("sigma_p");
    config.loss.sigma_g = number("sigma_g");
    config.loss.latent_term = serde_json::from_value(twin["latent_term"].clone()).unwrap();
    config
}

impl Golden {
    fn under(&self, prefix: &str) -> Parameters {
        let strip = |(name, array): (&String, &Array)| Some((name.strip_prefix(prefix)?.to_owned(), array.clone()));
        Parameters(self.arrays.iter().filter_map(strip).collect())
    }

    fn tensor(&self, name: &str, device: &Device) -> Tensor<3> {
        let array = &self.arrays[name];
        let shape: [usize; 3] = array.shape.clone().try_into().unwrap();
        Tensor::from_data(TensorData::new(array.values.clone(), shape), device)
    }

    fn flags(&self, name: &str) -> Vec<bool> {
        self.arrays[name].values.iter().map(|&x| x != 0.0).collect()
    }

    fn batch(&self, device: &Device) -> MaskedBatch {
        let times = &self.arrays["input.times"];
        let (batch, frames) = (times.shape[0], times.shape[1]);
        MaskedBatch {
            series: self.tensor("input.series", device),
            frames: Frames {
                batch,
                frames,
                times_seconds: times.values.iter().map(|&t| f64::from(t) / self.config.time_scale).collect(),
                context: self.flags("input.context"),
                valid: self.flags("input.frame_valid"),
            },
            region_valid: self.flags("input.region_valid"),
            latent_noise: self.tensor("input.eps_q", device),
            process_noise: vec![self.tensor("input.eps_p", device)],
            dropout_key: [0; 32],
        }
    }

    /// Rows of the golden at the frames listed; ours are compared at the same.
    fn compare(&self, name: &str, ours: &Tensor<3>, rows: &[(usize, usize)]) {
        let width = ours.dims()[2];
        let ours = values(ours);
        let expected = &self.arrays[name].values;
        let pick = |row: usize, of: &dyn Fn(usize) -> f64| {
            (0..width).map(move |k| row * width + k).map(of).collect::<Vec<_>>()
        };
        let ours: Vec<f64> = rows.iter().flat_map(|&(slot, _)| pick(slot, &|k| ours[k])).collect();
        let expected: Vec<f64> = rows.iter().flat_map(|&(_, frame)| pick(frame, &|k| f64::from(expected[k]))).collect();
        let error = relative_l2(&ours, &expected);
        assert!(error < 1e-5, "{name}: relative error {error}");
    }
}

fn check(case: &str) {
    for kernels in [Kernels::Composed, Kernels::default()] {
        check_on(case, kernels, &Device::flex().autodiff());
    }
}

/// The same code on a device of another kind, where our kernels do not apply and composed ops serve. A machine without a graphics
/// card needs a driver in software; Debian calls it mesa-vulkan-drivers.
#[cfg(feature = "wgpu")]
#[test]
fn every_case_on_a_graphics_device() {
    let device = Device::wgpu(burn::tensor::DeviceKind::DefaultDevice);
    for case in ["plain", "ragged", "variants", "frozen_basis", "tau_zero"] {
        check_on(case, Kernels::default(), &device.clone().autodiff());
        println!("{case}: values and gradients on {device:?}");
    }
}

fn check_on(case: &str, kernels: Kernels, device: &Device) {
    let golden = read(case);
    let config = &golden.config;
    let model = Bdo::from_parameters(config, golden.under("param."), kernels, device).unwrap();
    let teacher = EmaEncoder::from_parameters(config, golden.under("ema."), kernels, device).unwrap();
    let batch = golden.batch(device);
    let pass = model.train_pass(&teacher, &batch, model.loss_weights()).unwrap();
    let grid = &pass.grid;

    // (slot in our gathered tensor, frame in the golden) of every real row.
    let real = |rows: &[usize], slots: usize, counts: &[usize]| -> Vec<(usize, usize)> {
        let sample = |(b, &count): (usize, &usize)| {
            (b * slots..b * slots + count).map(|slot| (slot, rows[slot])).collect::<Vec<_>>()
        };
        counts.iter().enumerate().flat_map(sample).collect()
    };
    let context = real(&grid.context_row, grid.context_slots, &grid.context_count);
    let targets = real(&grid.target_row, grid.target_slots, &grid.target_count);
    let frames: Vec<_> =
        (0..batch.frames.valid.len()).filter(|&row| batch.frames.valid[row]).map(|row| (row, row)).collect();
    golden.compare("out.z", &pass.encoded, &context);
    golden.compare("out.alpha", &pass.latents.control, &context);
    golden.compare("out.rates", &pass.latents.rates, &context);
    golden.compare("out.mean", &pass.moments.mean, &frames);
    golden.compare("out.var", &pass.moments.variance, &frames);
    golden.compare("out.latent", &pass.states[0], &targets);
    golden.compare("out.recon", &pass.predicted[0], &targets);
    if config.loss.tau > 0.0 {
        golden.compare("out.target", pass.target.as_ref().unwrap(), &targets);
    }
    for (name, term) in [
        ("out.loss_total", &pass.loss.total),
        ("out.loss_energy", &pass.loss.energy),
        ("out.loss_recon", &pass.loss.reconstruction),
        ("out.loss_latent", &pass.loss.latent),
    ] {
        let expected = f64::from(golden.arrays[name].values[0]);
        let found = values(term)[0];
        assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{name}: {found}, expected {expected}");
    }

    let feature = model.feature(&batch.series, &batch.frames, &batch.region_valid).unwrap();
    let expected: Vec<f64> = golden.arrays["out.feature"].values.iter().map(|&x| f64::from(x)).collect();
    let error = relative_l2(&values(&feature), &expected);
    assert!(error < 1e-5, "feature: relative error {error}");

    let ours = gradients(&model, &pass.loss.total);
    let twin = golden.under("grad.");
    assert_eq!(ours.keys().collect::<Vec<_>>(), twin.0.keys().collect::<Vec<_>>());
    for (name, gradient) in &ours {
        let expected: Vec<f64> = twin.0[name].values.iter().map(|&x| f64::from(x)).collect();
        if expected.iter().all(|&x| x == 0.0) {
            assert!(gradient.iter().all(|&x| x == 0.0), "{name}: expected a gradient of zeros");
            continue;
        }
        let error = relative_l2(gradient, &expected);
        assert!(error < 1e-4, "{name}: relative error of the gradient {error}");
    }
}
