//! Values and gradients against an independent `PyTorch` twin computed in double precision.

use crate::toy::{self, relative_l2, values};
use bdo_data::scaler::ScaledScan;
use bdo_model::batch::MaskedBatch;
use bdo_model::config::{AttentionStart, EmbedStart, ModelConfig};
use bdo_model::dynamics::Frames;
use bdo_model::ema::EmaEncoder;
use bdo_model::feature_heads::FeatureHeads;
use bdo_model::init::initial_parameters;
use bdo_model::intake::{Centre, HostBatch, Kin, NoiseShape, Sample, Visit, VisitKey};
use bdo_model::model::{Bdo, TrainPass};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{Array, Parameters, flat_gradients};
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
fn norms_biases_time_code_latent_term_variances_and_unit_input() {
    check("variants");
}

/// What `bdo pretrain` uses without --config.
#[test]
fn default_preset() {
    check("default");
    let found = read("default").config;
    let expected = ModelConfig {
        regions: found.regions,
        width: found.width,
        blocks: found.blocks,
        heads: found.heads,
        basis_count: found.basis_count,
        ..toy::preset()
    };
    assert_eq!(found, expected);
}

#[test]
fn lead_token_dropout_draws_floors_and_weights() {
    check("rest");
}

#[test]
fn unit_regions_and_the_terms_on_the_mean_control() {
    check("people");
}

const CASES: [&str; 8] = ["plain", "ragged", "variants", "frozen_basis", "tau_zero", "default", "rest", "people"];

#[test]
fn every_option_is_away_from_its_default_in_some_case() {
    let leaves = |config: &ModelConfig| {
        let serde_json::Value::Object(keys) = serde_json::to_value(config).unwrap() else { panic!("an object") };
        let nested = |(key, value): (String, serde_json::Value)| match value {
            serde_json::Value::Object(inner) => inner.into_iter().map(|(k, v)| (format!("{key}.{k}"), v)).collect(),
            value => vec![(key, value)],
        };
        keys.into_iter().flat_map(nested).collect::<Vec<_>>()
    };
    let moved: Vec<_> = CASES.iter().map(|case| leaves(&read(case).config)).collect();
    for (place, (key, default)) in leaves(&ModelConfig::default()).into_iter().enumerate() {
        // The architecture has one name.
        let at_default = moved.iter().all(|leaves| leaves[place].1 == default);
        assert!(!at_default || ["model_type", "pooling"].contains(&key.as_str()), "{key} is {default} in every case");
    }
}

/// Queries and keys of a local start.
#[test]
fn the_start_of_the_default_preset() {
    let golden = read("default");
    let config = ModelConfig { attention_output_init: 0.2, ..golden.config.clone() };
    let start = initial_parameters(&config, 5);
    let plain = initial_parameters(&ModelConfig { attention_start: AttentionStart::Independent, ..config.clone() }, 5);
    let (d, of) = (config.width, |p: &Parameters, name: &str| p.0[name].values.clone());
    for block in 0..config.blocks {
        let name = |layer: &str| format!("encoder.blocks.{block}.attn.{layer}.weight");
        let (qkv, expected) = (of(&start, &name("qkv")), &golden.arrays[&format!("start.{block}")].values);
        for (found, expected) in qkv[..2 * d * d].iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "block {block}: {found}, expected {expected}");
        }
        let value = &qkv[2 * d * d..];
        assert_eq!(value, &of(&plain, &name("qkv"))[2 * d * d..]);
        let proj = of(&start, &name("proj"));
        assert!((0..d * d).all(|i| proj[i] == 0.2 * value[(i % d) * d + i / d]), "the transposed value projection");
    }
}

#[test]
fn an_affine_start_has_larger_weights_and_spread_biases() {
    let config = read("variants").config;
    assert_eq!(config.embed_start, EmbedStart::Affine);
    let start = initial_parameters(&config, 5);
    let plain = initial_parameters(&ModelConfig { embed_start: EmbedStart::Independent, ..config }, 5);
    let of = |p: &Parameters, name: &str| p.0[name].values.clone();
    for (layer, gain, most) in [("encoder.embed.linear1", 2.0f32, 6.0f32), ("encoder.embed.linear2", 1.7, 4.0)] {
        let (weight, bias) = (format!("{layer}.weight"), format!("{layer}.bias"));
        assert!(of(&start, &weight).iter().zip(of(&plain, &weight)).all(|(a, b)| *a == gain * b), "{layer}");
        // Uniform between 0 and the largest: the mean of 24 has a standard error of 0.059 of the range.
        let biases = of(&start, &bias);
        assert!(biases.iter().all(|b| (0.0..most).contains(b)));
        let mean = biases.iter().sum::<f32>() / biases.len() as f32 / most;
        assert!((mean - 0.5).abs() < 0.25, "{layer}: mean bias {mean} of the range");
    }
}

/// The batch the default preset makes of scaled values, and the one of a scan divided as a whole.
#[test]
fn the_batch_of_the_default_preset() {
    let golden = read("default");
    let config = &golden.config;
    let context = golden.flags("input.context");
    let (samples, slots) = (golden.arrays["input.times"].shape[0], golden.arrays["input.times"].shape[1]);
    let (valid, known) = (golden.flags("input.frame_valid"), golden.flags("input.region_valid"));
    let n = config.regions;
    let part = |name: &str, b: usize, each: usize| golden.arrays[name].values[b * each..(b + 1) * each].to_vec();
    let (mut visits, mut scans) = (Vec::new(), Vec::new());
    for b in 0..samples {
        let count = (0..slots).filter(|row| valid[b * slots + row]).count();
        let mut values = part("input.scaled", b, slots * n);
        values.truncate(count * n);
        let seconds = |t: &f32| f64::from(*t) / config.time_scale;
        let scan = ScaledScan {
            times_seconds: part("input.times", b, slots)[..count].iter().map(seconds).collect(),
            values,
            region_valid: known[b * n..(b + 1) * n].to_vec(),
        };
        visits.push(Visit {
            frames: (0..count).collect(),
            context: context[b * slots..b * slots + count].to_vec(),
            origin_seconds: 0.0,
            centre: Centre::Visible,
        });
        scans.push(Sample::alone(scan, VisitKey { seed: 1, epoch: 0, scan: b as u64, visit: 0 }));
    }
    // Mean square of what is visible of a region; the golden leaves the division to the model.
    let series = &golden.arrays["input.series"].values;
    let square = |b: usize, region: usize| {
        let seen = (b * slots..(b + 1) * slots).filter(|&row| context[row] && valid[row]);
        let squares: Vec<f64> = seen.map(|row| f64::from(series[row * n + region]).powi(2)).collect();
        squares.iter().sum::<f64>() / squares.len() as f64
    };
    let of_regions = |b: usize, region: usize| square(b, region).sqrt();
    let of_scan = |b: usize, _: usize| {
        let squares: Vec<f64> = (0..n).filter(|r| known[b * n + r]).map(|region| square(b, region)).collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    };
    let by_region = NoiseShape::of(config);
    assert!(by_region.unit_regions && !by_region.unit_input);
    let by_scan = NoiseShape { unit_input: true, unit_regions: false, ..by_region };
    let device = Device::flex();
    for noise in [by_region, by_scan] {
        let size = |b: usize, r: usize| if noise.unit_regions { of_regions(b, r) } else { of_scan(b, r) };
        let batch = HostBatch::of_visits(&scans, &visits, noise, 0).into_masked(&device);
        assert_eq!(batch.frames, golden.batch(&device).frames);
        assert!(values(&batch.latent_noise).iter().all(|x| *x == 0.0), "no latent is drawn");
        for (i, (found, expected)) in values(&batch.series).iter().zip(series).enumerate() {
            let (b, region) = (i / n / slots, i % n);
            if !known[b * n + region] {
                assert_eq!(*found, 0.0);
                continue;
            }
            let (size, expected) = (size(b, region), f64::from(*expected));
            // Values of order 3 in single precision, before the division.
            assert!((found - expected / size).abs() < 1e-6 * (1.0 + expected.abs()) / size.min(1.0), "{i}: {found}");
        }
    }
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
    /// Widens the tolerances.
    slack: f64,
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
    Golden { arrays, config: translate(&twin), slack: 1.0 }
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
    // Keys that came later are there where they are not at their default.
    let given = |key: &str| twin.get(key).cloned();
    let float = |key: &str, default: f64| given(key).map_or(default, |x| x.as_f64().unwrap());
    let truth = |key: &str, default: bool| given(key).map_or(default, |x| x.as_bool().unwrap());
    config.time_encoding_rate = float("time_encoding_rate", config.time_encoding_rate);
    config.gap_code = truth("gap_code", config.gap_code);
    config.unit_input = truth("unit_input", config.unit_input);
    config.unit_regions = truth("unit_regions", config.unit_regions);
    config.sample_latent = truth("sample_latent", config.sample_latent);
    config.dropout = float("dropout", config.dropout);
    config.attention_output_init = float("attention_output_init", config.attention_output_init);
    config.dynamics.rate_floor = float("rate_floor", config.dynamics.rate_floor);
    config.dynamics.variance_floor = float("variance_floor", config.dynamics.variance_floor);
    config.loss.reconstruction_weight = float("reconstruction_weight", config.loss.reconstruction_weight);
    config.loss.energy_weight = given("energy_weight").map(|x| x.as_f64().unwrap());
    let whole = |key: &str, default: usize| given(key).map_or(default, |x| x.as_u64().unwrap() as usize);
    config.loss.monte_carlo_samples = whole("draws", 1);
    config.loss.identity = float("identity", config.loss.identity);
    config.loss.identity_temperature = float("identity_temperature", config.loss.identity_temperature);
    config.loss.identity_width = whole("identity_width", config.loss.identity_width);
    config.fingerprint = truth("model_fingerprint", config.fingerprint);
    config.smoother = truth("smoother", config.smoother);
    let word = |key: &str| given(key).unwrap_or(serde_json::Value::Null);
    if let Ok(of) = serde_json::from_value(word("fingerprint_of")) {
        config.fingerprint_of = of;
    }
    if let Ok(start) = serde_json::from_value(word("attention_start")) {
        config.attention_start = start;
    }
    if let Ok(start) = serde_json::from_value(word("embed_start")) {
        config.embed_start = start;
    }
    if let Ok(lead) = serde_json::from_value(word("lead")) {
        config.dynamics.lead = lead;
    }
    config.dynamics.diffusion = number("diffusion").sqrt();
    config.dynamics.learn_basis = flag("learn_basis");
    config.loss.sigma_q = number("sigma_q");
    config.loss.sigma_p = number("sigma_p");
    config.loss.sigma_g = number("sigma_g");
    config.loss.latent_term = serde_json::from_value(twin["latent_term"].clone()).unwrap();
    // The twin is given tau; ours follows from lambda where it can.
    if twin["case"] == "variants" {
        config.loss.lambda = 0.952;
    }
    if (config.tau() - number("tau")).abs() > 1e-12 {
        config.loss.tau = Some(number("tau"));
    }
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
        let kin = |three: &[f32]| Kin { scan: three[0] as usize, person: three[1] as usize, group: three[2] as usize };
        MaskedBatch {
            kin: self.arrays.get("input.kin").map_or(vec![], |k| k.values.chunks_exact(3).map(kin).collect()),
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
            process_noise: (0..self.config.loss.monte_carlo_samples)
                .map(|draw| if draw == 0 { "input.eps_p".to_owned() } else { format!("input.eps_p.{draw}") })
                .map(|name| self.tensor(&name, device))
                .collect(),
            dropout_key: std::array::from_fn(|i| i as u8),
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
        assert!(error < 1e-5 * self.slack, "{name}: relative error {error}");
    }

    fn compare_number(&self, name: &str, term: &Tensor<1>) {
        let expected = f64::from(self.arrays[name].values[0]);
        let found = values(term)[0];
        assert!((found - expected).abs() <= 1e-5 * self.slack * expected.abs(), "{name}: {found}, expected {expected}");
    }

    /// Compares the identity term, which is there where the golden has it, and returns the whole loss.
    fn compare_feature_terms(&self, heads: &FeatureHeads, pass: &TrainPass, batch: &MaskedBatch) -> Tensor<1> {
        let feature = pass.mean_control();
        let term = heads.identity(&feature, &batch.kin).map(|term| term.loss * self.config.loss.identity);
        let mut total = pass.loss.total.clone();
        assert_eq!(term.is_some(), self.arrays.contains_key("out.loss_identity"));
        if let Some(term) = term {
            self.compare_number("out.loss_identity", &term);
            total = total + term;
        }
        if let Some(expected) = self.arrays.get("out.mean_control") {
            let expected: Vec<f64> = expected.values.iter().map(|&x| f64::from(x)).collect();
            let error = relative_l2(&values(&feature), &expected);
            assert!(error < 1e-5 * self.slack, "mean control: relative error {error}");
            self.compare_number("out.loss_whole", &total);
        }
        total
    }
}

fn check(case: &str) {
    for kernels in [Kernels::Composed, Kernels::default()] {
        check_on(case, kernels, &Device::flex().autodiff(), 1.0);
    }
}

/// The same code on a device of another kind, where our kernels do not apply and composed ops serve. A machine without a graphics
/// card needs a driver in software; Debian calls it mesa-vulkan-drivers.
#[cfg(feature = "cube")]
#[test]
fn every_case_on_a_graphics_device() {
    let (device, slack) = crate::device::graphics_device();
    for case in CASES {
        for kernels in [Kernels::Composed, Kernels::default()] {
            check_on(case, kernels, &device.clone().autodiff(), slack);
        }
        println!("{case}: values within {:.0e}, gradients within {:.0e}", 1e-5 * slack, 1e-4 * slack);
    }
}

/// `slack` widens the tolerances, for devices that round operands of products.
fn check_on(case: &str, kernels: Kernels, device: &Device, slack: f64) {
    let golden = Golden { slack, ..read(case) };
    let config = &golden.config;
    let mut parameters = golden.under("param.");
    let heads = FeatureHeads::split_off(config, &mut parameters, kernels, device).unwrap();
    let model = Bdo::from_parameters(config, parameters, kernels, device).unwrap();
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
    let context = real(&grid.context.row, grid.context.slots, &grid.context.count);
    // A learned lead stands behind the context tokens of each sample.
    let after = grid.tokens - grid.context.slots;
    let tokens: Vec<_> =
        context.iter().map(|&(slot, frame)| (slot + slot / grid.context.slots * after, frame)).collect();
    let targets = real(&grid.target.row, grid.target.slots, &grid.target.count);
    let frames: Vec<_> =
        (0..batch.frames.valid.len()).filter(|&row| batch.frames.valid[row]).map(|row| (row, row)).collect();
    golden.compare("out.z", &pass.encoded, &context);
    golden.compare("out.alpha", &pass.latents.control, &tokens);
    golden.compare("out.rates", &pass.latents.rates, &tokens);
    golden.compare("out.mean", &pass.moments.mean, &frames);
    golden.compare("out.var", &pass.moments.variance, &frames);
    golden.compare("out.latent", &pass.states[0], &targets);
    golden.compare("out.recon", &pass.predicted[0], &targets);
    if config.tau() > 0.0 {
        golden.compare("out.target", pass.target.as_ref().unwrap(), &targets);
    }
    for (name, term) in [
        ("out.loss_total", &pass.loss.total),
        ("out.loss_energy", &pass.loss.energy),
        ("out.loss_recon", &pass.loss.reconstruction),
        ("out.loss_latent", &pass.loss.latent),
    ] {
        golden.compare_number(name, term);
    }
    let total = golden.compare_feature_terms(&heads, &pass, &batch);

    let feature = model.controls(&batch.series, &batch.frames, &batch.region_valid).unwrap().mean();
    let expected: Vec<f64> = golden.arrays["out.feature"].values.iter().map(|&x| f64::from(x)).collect();
    let error = relative_l2(&values(&feature), &expected);
    assert!(error < 1e-5 * slack, "feature: relative error {error}");

    let mut tape = total.backward();
    let mut ours = flat_gradients(&model, &mut tape);
    ours.extend(flat_gradients(&heads, &mut tape));
    let twin = golden.under("grad.");
    assert_eq!(ours.keys().collect::<Vec<_>>(), twin.0.keys().collect::<Vec<_>>());
    for (name, gradient) in &ours {
        let gradient = values(gradient);
        let expected: Vec<f64> = twin.0[name].values.iter().map(|&x| f64::from(x)).collect();
        if expected.iter().all(|&x| x == 0.0) {
            assert!(gradient.iter().all(|&x| x == 0.0), "{name}: expected a gradient of zeros");
            continue;
        }
        let error = relative_l2(&gradient, &expected);
        assert!(error < 1e-4 * slack, "{name}: relative error of the gradient {error}");
    }
}
