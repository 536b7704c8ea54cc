//! Adam, clipping and the moving average against PyTorch.

use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_train::gradient::{NamedGradients, clip_scale};
use bdo_train::optimiser::AdamState;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::Value;

#[derive(Module, Debug)]
struct Vector {
    values: Param<Tensor<1>>,
}

fn goldens() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/data_goldens.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn tensor(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), device)
}

#[test]
fn adam_follows_pytorch_for_five_steps() {
    let all = goldens();
    let golden = &all["optimiser"]["adam"];
    let device = Device::flex().autodiff();
    let mut module = Vector { values: Param::from_tensor(tensor(floats(&golden["start"]), &device)) };
    let mut state = AdamState::default();
    for step in 0..5 {
        let gradient = tensor(floats(&golden["gradients"][step]), &Device::flex());
        let gradients = NamedGradients([("values".to_owned(), gradient)].into());
        let adam = Adam {
            learning_rate: golden["learning_rates"][step].as_f64().unwrap(),
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: WeightDecay::None,
            gradient_scale: 1.0,
        };
        state.steps += 1;
        module = state.apply(module, &gradients, &|_, _| adam);
        let found = module.values.val().into_data().try_to_vec::<f32>().unwrap();
        for (found, expected) in found.iter().zip(floats(&golden["after_each_step"][step])) {
            // Five roundings of a value below 2 and a step of at most 0.01.
            assert!((found - expected).abs() < 1e-6, "step {step}: {found}, expected {expected}");
        }
    }
    let moments = &state.moments["values"];
    for (found, expected) in moments.first.iter().zip(floats(&golden["first_moment"])) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1e-3), "{found}, expected {expected}");
    }
    for (found, expected) in moments.second.iter().zip(floats(&golden["second_moment"])) {
        assert!((found - expected).abs() <= 2e-6 * expected.abs(), "{found}, expected {expected}");
    }
}

#[test]
fn clipping_follows_pytorch() {
    for case in ["above", "below"] {
        let all = goldens();
        let golden = &all["clip"][case];
        let list = golden["gradients"].as_array().unwrap();
        let gradients = NamedGradients(
            list.iter().enumerate().map(|(i, g)| (i.to_string(), tensor(floats(g), &Device::flex()))).collect(),
        );
        let norm = gradients.norm();
        let expected = golden["norm_before"].as_f64().unwrap();
        assert!((norm - expected).abs() < 1e-6 * expected, "{norm}, expected {expected}");
        let scale = clip_scale(norm, golden["max_norm"].as_f64().unwrap());
        for (gradient, clipped) in list.iter().zip(golden["clipped"].as_array().unwrap()) {
            for (g, c) in floats(gradient).iter().zip(floats(clipped)) {
                assert!((f64::from(*g) * scale - f64::from(c)).abs() < 1e-6 * f64::from(c.abs()).max(1e-3));
            }
        }
    }
}
