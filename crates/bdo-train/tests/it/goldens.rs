//! The optimiser against `PyTorch`, from `tools/reference/make_data_goldens.py`.

use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_train::gradient::{NamedGradients, clip_scale};
use bdo_train::optimiser::AdamState;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::Value;
use std::collections::BTreeMap;

fn goldens() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/data_goldens.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap()],
    }
}

fn tensor(values: &[f64]) -> Tensor<1> {
    let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), &Device::flex())
}

#[derive(Module, Debug)]
struct Lone {
    weight: Param<Tensor<1>>,
}

/// A step of five is a handful of roundings in single precision.
fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((f64::from(*a) - b).abs() <= 1e-6 * (1.0 + b.abs()), "{what}: {a} against {b}");
    }
}

#[test]
fn adam_takes_pytorchs_steps() {
    for name in ["adam", "adamw"] {
        let case = &goldens()["optimiser"][name];
        let decay = case["weight_decay"].as_f64().unwrap();
        let mut module = Lone { weight: Param::from_tensor(tensor(&numbers(&case["start"]))) };
        let mut state = AdamState::default();
        for (i, rate) in numbers(&case["learning_rates"]).into_iter().enumerate() {
            let adam = Adam {
                learning_rate: rate,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: if decay > 0.0 { WeightDecay::Decoupled(decay) } else { WeightDecay::None },
                gradient_scale: 1.0,
            };
            let gradients =
                NamedGradients(BTreeMap::from([("weight".into(), tensor(&numbers(&case["gradients"][i])))]));
            module = state.apply(module, &gradients, &adam, 1.0);
            let found = module.weight.val().into_data().try_to_vec::<f32>().unwrap();
            assert_close(&found, &numbers(&case["after_each_step"][i]), name);
        }
        assert_close(&state.moments["weight"].first, &numbers(&case["first_moment"]), "first moment");
        assert_close(&state.moments["weight"].second, &numbers(&case["second_moment"]), "second moment");
    }
}

#[test]
fn clipping_is_pytorchs() {
    for name in ["above", "below"] {
        let case = &goldens()["clip"][name];
        let parts = case["gradients"].as_array().unwrap();
        let gradients =
            NamedGradients(parts.iter().enumerate().map(|(i, g)| (format!("g{i}"), tensor(&numbers(g)))).collect());
        let norm = gradients.norm();
        assert!((norm - case["norm_before"].as_f64().unwrap()).abs() < 1e-6 * norm);
        let scale = clip_scale(norm, case["max_norm"].as_f64().unwrap());
        for (gradient, clipped) in parts.iter().zip(case["clipped"].as_array().unwrap()) {
            let found: Vec<f32> = numbers(gradient).iter().map(|g| (g * scale) as f32).collect();
            assert_close(&found, &numbers(clipped), name);
        }
    }
}
