//! Every fast path against its slow twin: the fused model against the composed one, in value and in the gradient of
//! every parameter.

use crate::toy;
use bdo_model::batch::MaskedBatch;
use bdo_model::config::{LatentTerm, ModelConfig};
use bdo_model::ema::EmaEncoder;
use bdo_model::model::Bdo;
use bdo_model::ops::{Adam, AdamState, Kernels, Precision, WeightDecay, adam_step};
use burn::tensor::{DType, Device, Tensor};

fn config() -> ModelConfig {
    ModelConfig { regions: 45, width: 96, blocks: 3, heads: 3, basis_count: 10, ..ModelConfig::default() }
}

/// Two ragged samples of 37 frames, a third of them visible, some regions missing.
fn batch(config: &ModelConfig, device: &Device) -> MaskedBatch {
    let roles: Vec<bool> = (0..37).map(|j| j % 3 == 1).collect();
    let mut batch = toy::batch(config, &roles, (device, DType::F32));
    for frame in 30..37 {
        batch.frames.valid[frame] = false;
    }
    batch.region_valid[3] = false;
    batch.region_valid[config.regions + 7] = false;
    batch
}

fn compare(config: &ModelConfig, precision: Precision, value_bound: f64, gradient_bound: f64) {
    let device = Device::flex().autodiff();
    let batch = batch(config, &device);
    let run = |kernels: Kernels| {
        let model = Bdo::init(config, 1, kernels, &device).unwrap();
        let teacher = EmaEncoder::new(&Bdo::init(config, 2, kernels, &device).unwrap().encoder);
        let pass = model.train_pass(&teacher, &batch, model.loss_weights()).unwrap();
        let feature = model.controls(&batch.series, &batch.frames, &batch.region_valid).unwrap().mean();
        let seen = [
            ("moments", toy::values(&pass.moments.variance)),
            ("states", toy::values(&pass.states[0])),
            ("predicted", toy::values(&pass.predicted[0])),
            ("loss", toy::values(&pass.loss.total)),
            ("latent", toy::values(&pass.loss.latent)),
            ("feature", toy::values(&feature)),
        ];
        (seen, toy::gradients(&model, &pass.loss.total))
    };
    let (fused, composed) = (run(Kernels::Fused(precision)), run(Kernels::Composed));
    for ((name, fused), (_, composed)) in fused.0.iter().zip(&composed.0) {
        // Rows of padding are unspecified in both; they are equal here because they are masked before or repeat.
        let error = toy::relative_l2(fused, composed);
        assert!(error < value_bound, "{name}: relative error {error}");
    }
    assert_eq!(fused.1.keys().collect::<Vec<_>>(), composed.1.keys().collect::<Vec<_>>());
    let mut worst = (0.0, "");
    for (name, gradient) in &fused.1 {
        let error = toy::relative_l2(gradient, &composed.1[name]);
        if error > worst.0 {
            worst = (error, name);
        }
    }
    println!("{precision:?}: worst of {} parameter gradients {:.1e} ({})", fused.1.len(), worst.0, worst.1);
    assert!(worst.0 < gradient_bound, "{}: relative error of the gradient {}", worst.1, worst.0);
}

#[test]
fn single_precision_differs_by_rounding_only() {
    compare(&config(), Precision::F32, 3e-6, 1e-5);
}

#[test]
fn the_analytic_latent_term_and_a_frozen_basis_too() {
    let mut config = config();
    config.loss.latent_term = LatentTerm::Analytic;
    config.loss.tau = Some(0.5);
    config.loss.monte_carlo_samples = 2;
    config.dynamics.learn_basis = false;
    compare(&config, Precision::F32, 3e-6, 1e-5);
}

#[test]
fn dropout_drops_the_same_values_in_both() {
    let mut config = ModelConfig { dropout: 0.3, ..config() };
    compare(&config, Precision::F32, 3e-6, 1e-5);
    // The same loss without it is another one, so the masks are not all ones.
    let device = Device::flex().autodiff();
    let batch = batch(&config, &device);
    let mut loss = || {
        let model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
        let teacher = EmaEncoder::new(&model.encoder);
        let found = toy::values(&model.train_pass(&teacher, &batch, model.loss_weights()).unwrap().loss.total)[0];
        config.dropout = 0.0;
        found
    };
    assert!((loss() - loss()).abs() > 1e-3);
}

#[test]
fn bfloat16_operands_stay_within_their_precision() {
    // A bfloat16 carries 8 bits, so each value is off by up to 2^-9 = 2e-3, and some ten layers multiply that by a
    // small number. Gradients also pass three ReLU layers, where about one unit in 300 lies that close to its kink
    // and switches: sqrt(3 / 300) is 10 % of their norm.
    compare(&config(), Precision::Bf16, 2e-2, 0.1);
}

#[test]
fn the_same_step_gives_the_same_bytes() {
    let device = Device::flex().autodiff();
    let config = config();
    let batch = batch(&config, &device);
    let run = || {
        let model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
        let teacher = EmaEncoder::new(&model.encoder);
        let pass = model.train_pass(&teacher, &batch, model.loss_weights()).unwrap();
        toy::gradients(&model, &pass.loss.total)
    };
    assert_eq!(run(), run());
}

#[test]
fn the_optimiser_step_equals_its_composed_twin() {
    let device = Device::flex();
    let place = (&device, DType::F32);
    let shape = [3, 5, 7];
    for weight_decay in [WeightDecay::None, WeightDecay::Decoupled(0.1), WeightDecay::Coupled(0.1)] {
        let adam = Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay, gradient_scale: 0.5 };
        let run = |kernels: Kernels| {
            let zeros = || Tensor::<3>::zeros(shape, &device);
            let mut state = AdamState { value: toy::normal("p", shape, place), mean: zeros(), square: zeros() };
            for step in 1..=20 {
                let gradient = toy::normal(&format!("g {step}"), shape, place);
                state = adam_step(kernels, &adam, step, state, gradient);
            }
            [state.value, state.mean, state.square].map(|tensor| toy::values(&tensor))
        };
        for (fused, composed) in run(Kernels::default()).into_iter().zip(run(Kernels::Composed)) {
            let error = toy::relative_l2(&fused, &composed);
            // Twenty steps of a few roundings each.
            assert!(error < 20.0 * 5.0 * 6e-8, "{weight_decay:?}: {error}");
        }
    }
}
