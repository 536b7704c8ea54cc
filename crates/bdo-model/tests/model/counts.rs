//! Names, shapes and numbers of parameters.

use crate::toy;
use bdo_model::config::{ConfigError, Lead, ModelConfig};
use bdo_model::ema::EmaEncoder;
use bdo_model::model::Bdo;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{encoder_table, parameter_table, trainable_count};
use burn::tensor::{DType, Device};
use std::collections::BTreeSet;

#[test]
fn sizes_are_those_of_the_method() {
    for (config, encoder, dynamics, decoder) in [
        (ModelConfig::tiny(), 5_467_776, 112_612, 123_906),
        (ModelConfig::small(), 21_626_112, 372_580, 321_090),
        (ModelConfig::base(), 86_014_464, 1_334_884, 936_642),
    ] {
        config.check().unwrap();
        let table = parameter_table(&config);
        let part = |prefix: &str| {
            let rows: Vec<_> = table.iter().filter(|row| row.name.starts_with(prefix)).cloned().collect();
            trainable_count(&rows)
        };
        assert_eq!(trainable_count(&encoder_table(&config)), encoder);
        assert_eq!((part("encoder."), part("dynamics."), part("decoder.")), (encoder, dynamics, decoder));
        assert_eq!(trainable_count(&table), encoder + dynamics + decoder);
    }
}

#[test]
fn module_paths_and_shapes_equal_the_table() {
    let mut variants = vec![toy::config()];
    variants.push(ModelConfig { final_norm: false, attention_norm: false, qkv_bias: false, ..toy::config() });
    let mut lead = toy::config();
    lead.dynamics.lead = Lead::LearnedToken;
    variants.push(lead);
    for config in variants {
        let model = Bdo::init(&config, 1, Kernels::Composed, &Device::flex().autodiff()).unwrap();
        let found: BTreeSet<_> = model.parameters().0.into_iter().map(|(name, array)| (name, array.shape)).collect();
        let expected: BTreeSet<_> = parameter_table(&config).into_iter().map(|row| (row.name, row.shape)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn every_trained_parameter_has_a_nonzero_gradient_and_no_other_has_one() {
    let device = Device::flex().autodiff();
    for (learn_basis, lead) in [(true, Lead::FirstContext), (true, Lead::LearnedToken), (false, Lead::FirstContext)] {
        let mut config = toy::config();
        config.dynamics.learn_basis = learn_basis;
        config.dynamics.lead = lead;
        let model = Bdo::init(&config, 1, Kernels::Composed, &device).unwrap();
        let teacher = EmaEncoder::new(&model.encoder);
        let batch = toy::batch(&config, &[false, true, false, true, false, false], (&device, DType::F32));
        let pass = model.train_pass(&teacher, &batch, model.loss_weights()).unwrap();
        let gradients = toy::gradients(&model, &pass.loss.total);
        let expected: BTreeSet<_> =
            parameter_table(&config).into_iter().filter(|row| row.trainable).map(|row| row.name).collect();
        assert_eq!(gradients.keys().cloned().collect::<BTreeSet<_>>(), expected);
        for (name, gradient) in &gradients {
            assert!(gradient.iter().all(|x| x.is_finite()), "{name} has a gradient that is not finite");
            assert!(gradient.iter().any(|&x| x != 0.0), "{name} has a gradient of zeros");
        }
    }
}

#[test]
fn same_seed_same_bytes_and_another_seed_differs() {
    let device = Device::flex();
    let bytes = |seed| Bdo::init(&toy::config(), seed, Kernels::Composed, &device).unwrap().parameters();
    assert_eq!(bytes(5), bytes(5));
    assert_ne!(bytes(5), bytes(6));
}

#[test]
fn a_fresh_model_has_the_documented_spread() {
    let config = ModelConfig { blocks: 1, ..ModelConfig::tiny() };
    let parameters = bdo_model::init::initial_parameters(&config, 3);
    let spread = |name: &str| {
        let values = &parameters.0[name].values;
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64;
        (values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
    };
    // A uniform variable in plus or minus b has standard deviation b / sqrt(3); the relative error of its estimate
    // from n draws is below 1/sqrt(n), and three of those are allowed.
    for (name, bound, count) in [
        ("encoder.blocks.0.attn.qkv.weight", (6.0f64 / 384.0).sqrt(), 110_592.0f64),
        ("encoder.blocks.0.ffn.linear2.weight", (1.0f64 / 768.0).sqrt(), 147_456.0),
        ("encoder.embed.linear1.weight", (1.0f64 / 450.0).sqrt(), 86_400.0),
        ("dynamics.mixture.weight", (1.0f64 / 192.0).sqrt(), 19_200.0),
    ] {
        let expected = bound / 3f64.sqrt();
        assert!(
            (spread(name) / expected - 1.0).abs() < 3.0 / count.sqrt(),
            "{name}: {} against {expected}",
            spread(name)
        );
    }
    assert!((spread("dynamics.log_rates") - 1.0).abs() < 3.0 / 19_200f64.sqrt());
    assert_eq!(spread("encoder.blocks.0.attn.qkv.bias"), 0.0);
    let v0 = &parameters.0["dynamics.basis0"].values;
    let worst = (0..192 * 192)
        .map(|k| {
            let (i, j) = (k / 192, k % 192);
            let dot: f64 = (0..192).map(|r| f64::from(v0[r * 192 + i]) * f64::from(v0[r * 192 + j])).sum();
            (dot - f64::from(u8::from(i == j))).abs()
        })
        .fold(0.0, f64::max);
    assert!(worst < 1e-6, "V0 is off orthogonality by {worst}");
}

#[test]
fn a_wrong_configuration_is_named() {
    let refused = |change: fn(&mut ModelConfig)| {
        let mut config = toy::config();
        change(&mut config);
        config.check().unwrap_err()
    };
    let out_of_range = |change: fn(&mut ModelConfig), key: &str| match refused(change) {
        ConfigError::Range(error) => assert_eq!(error.key, key),
        other => panic!("{key}: {other}"),
    };
    assert_eq!(refused(|c| c.heads = 3), ConfigError::Heads { width: 8, heads: 3 });
    out_of_range(|c| c.blocks = 0, "model.blocks");
    out_of_range(|c| c.dropout = 1.0, "model.dropout");
    out_of_range(|c| c.dynamics.diffusion = f64::NAN, "dynamics.diffusion");
    out_of_range(|c| c.width = 1 << 20, "model.width");
    // tau follows from sigma_q, and a division by zero is no weight.
    out_of_range(|c| c.loss.sigma_q = 0.0, "loss.tau");
    let unknown = serde_json::from_str::<ModelConfig>(r#"{"widht": 8}"#).unwrap_err();
    assert!(unknown.to_string().contains("widht"));
    // What earlier versions stored is read.
    let old = serde_json::from_str::<ModelConfig>(r#"{"pooling": "mean", "loss": {"tau": 0.5}}"#).unwrap();
    assert_eq!(old.tau(), 0.5);
}

#[test]
fn tau_follows_from_lambda_unless_given() {
    let mut config = toy::config();
    assert_eq!(config.tau(), 0.03);
    config.loss.sigma_g = 0.2;
    assert_eq!(config.tau(), 0.12);
    config.loss.tau = Some(0.0);
    assert_eq!(config.tau(), 0.0);
}
