//! Kernels for graphics cards against their composed twins on the same device and against the CPU, in value and gradient. On a machine
//! without a card a driver in software will do; Debian calls it mesa-vulkan-drivers. `BDO_TEST_DEVICE` names another device than wgpu.

use crate::toy::{normal, relative_l2, values};
use bdo_model::device::{DeviceChoice, DeviceError, guarded};
use bdo_model::dynamics::cayley_basis;
use bdo_model::ops::{
    Adam, AdamState, Drive, Kernels, Moments, WeightDecay, adam_step, blend, moment_scan, rows, squared_norms,
};
use burn::tensor::{DType, Device, Tensor};

/// The device, and how much wider tolerances are there: tensor cores round operands of f32 products to ten bits.
pub(crate) fn graphics_device() -> (Device, f64) {
    let name = std::env::var("BDO_TEST_DEVICE").unwrap_or_else(|_| "wgpu".to_owned());
    let device = name.parse::<DeviceChoice>().unwrap().open().unwrap();
    println!("{name} is {}", bdo_model::device::name_of(&device));
    (device, if name.starts_with("cuda") || name.starts_with("rocm") { 100.0 } else { 1.0 })
}

/// Where, by what, and how far off.
fn places() -> (Vec<(Device, Kernels)>, f64) {
    let (device, slack) = graphics_device();
    let on_card = [Kernels::default(), Kernels::Composed].map(|kernels| (device.clone(), kernels));
    (std::iter::once((Device::flex(), Kernels::default())).chain(on_card).collect(), slack)
}

/// All results are those of the first, each within its tolerance.
fn agree(found: &[Vec<Vec<f64>>], tolerance: f64) {
    for other in &found[1..] {
        for (which, (a, b)) in found[0].iter().zip(other).enumerate() {
            let error = relative_l2(b, a);
            assert!(error < tolerance, "result {which}: relative error {error}");
        }
    }
}

#[test]
fn moments_walk_the_same_way_forward_and_back() {
    let (places, slack) = places();
    // Slow and fast rates: both branches of phi1, and steps of no length.
    for (tokens, steps, rate) in [(3, 7, 0.02), (5, 40, 1.5)] {
        let one = |(device, kernels): &(Device, Kernels)| {
            let device = device.clone().autodiff();
            let place = (&device, DType::F32);
            let control = normal("control", [2, tokens, 6], place).require_grad();
            let rates = (normal("rates", [2, tokens, 6], place).abs() * rate + 1e-3).detach().require_grad();
            let start = |name: &str| normal(name, [1, 1, 6], place).abs().reshape([6]).detach().require_grad();
            let (mean0, variance0) = (start("mean0"), start("variance0"));
            let driver = (0..2 * steps).map(|k| k / steps * tokens + (k % steps) * tokens / steps).collect();
            let delta = (0..2 * steps).map(|k| if k % 5 == 4 { 0.0 } else { 0.3 + 0.1 * (k % 7) as f32 }).collect();
            let drive = Drive { control: control.clone(), rates: rates.clone(), driver, delta };
            let Moments { mean, variance } = moment_scan(*kernels, drive, mean0.clone(), variance0.clone(), 0.7);
            let weights = normal("weight", [2, steps, 6], place);
            let loss = (mean.clone() * weights.clone() + variance.clone() * weights.square()).sum();
            let tape = loss.backward();
            let of = |x: &Tensor<3>| values(&x.grad(&tape).unwrap());
            let of_start = |x: &Tensor<1>| values(&x.grad(&tape).unwrap());
            vec![values(&mean), values(&variance), of(&control), of(&rates), of_start(&mean0), of_start(&variance0)]
        };
        let found: Vec<_> = places.iter().map(one).collect();
        // Our kernels agree; the composed twin differentiates a quotient that loses digits where rates are small.
        agree(&found[..2], 1e-5 * slack);
        agree(&[found[0].clone(), found[2].clone()], 1e-4 * slack);
    }
}

#[test]
fn gathered_rows_give_their_gradient_back() {
    let (places, _) = places();
    let one = |(device, kernels): &(Device, Kernels)| {
        let device = device.clone().autodiff();
        let place = (&device, DType::F32);
        let x = normal("x", [2, 5, 3], place).require_grad();
        // The last slot of the second sample is padding: its weight is zero.
        let y = rows(*kernels, &x, &[0, 3, 4, 6, 9, 6], 3);
        let weights = Tensor::<3>::from_data([[[1.0], [2.0], [3.0]], [[4.0], [5.0], [0.0]]], &device);
        let tape = (y.clone() * weights).sum().backward();
        vec![values(&y), values(&x.grad(&tape).unwrap())]
    };
    agree(&places.iter().map(one).collect::<Vec<_>>(), 1e-7);
}

#[test]
fn the_optimiser_takes_the_same_steps() {
    let (places, _) = places();
    for weight_decay in [WeightDecay::None, WeightDecay::Decoupled(0.1), WeightDecay::Coupled(0.1)] {
        let one = |(device, kernels): &(Device, Kernels)| {
            let place = (device, DType::F32);
            let zeros = || Tensor::<3>::zeros([7, 11, 13], device);
            let mut state = AdamState { value: normal("p", [7, 11, 13], place), mean: zeros(), square: zeros() };
            let kept = state.value.clone();
            let adam =
                Adam { learning_rate: 1e-2, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay, gradient_scale: 0.5 };
            for step in 1..=5 {
                let gradient = normal(&format!("g{step}"), [7, 11, 13], place);
                state = adam_step(*kernels, &adam, step, state, gradient);
            }
            let slow = blend(*kernels, normal("slow", [7, 11, 13], place), state.value.clone(), 0.99);
            // What somebody else held while a parameter was changed in place is as it was.
            vec![values(&state.value), values(&state.mean), values(&state.square), values(&slow), values(&kept)]
        };
        agree(&places.iter().map(one).collect::<Vec<_>>(), 1e-6);
    }
}

#[test]
fn norms_add_up_over_tensors_of_any_size() {
    let (places, _) = places();
    for (device, kernels) in &places[1..] {
        let tensors: Vec<Tensor<1>> =
            [1, 100, 5000, 70_001].map(|n| normal("n", [1, 1, n], (device, DType::F32)).reshape([n])).to_vec();
        let expected: f64 = tensors.iter().flat_map(values).map(|x| x * x).sum();
        let found = values(&squared_norms(*kernels, tensors.iter()).unwrap())[0];
        assert!((found - expected).abs() < 1e-5 * expected, "{found}, expected {expected}");
    }
}

#[test]
fn the_basis_is_found_without_leaving_the_device() {
    let (device, slack) = graphics_device();
    for size in [0.0, 0.01, 1.0] {
        let one = |device: &Device| {
            let device = device.clone().autodiff();
            let place = (&device, DType::F32);
            let square = |name: &str| normal(name, [1, 24, 24], place).reshape([24, 24]);
            let free = (square("free") * size).detach().require_grad();
            let basis = cayley_basis(free.clone(), square("start"));
            let tape = (basis.clone() * square("weight")).sum().backward();
            vec![values(&basis), values(&free.grad(&tape).unwrap())]
        };
        agree(&[one(&Device::flex()), one(&device)], 2e-5 * slack);
    }
}

#[test]
fn what_a_device_cannot_do_is_an_error_and_not_a_panic() {
    let (device, _) = graphics_device();
    // A quarter of a petabyte. Drivers refuse it in different words.
    let asked = guarded(&device, || values(&Tensor::<3>::ones([1 << 14, 1 << 16, 1 << 16], &device).sum()));
    let said = asked.unwrap_err();
    assert!(matches!(said, DeviceError::OutOfMemory { .. } | DeviceError::Failed { .. }), "{said}");
    let after = guarded(&device, || values(&Tensor::<1>::ones([3], &device).sum()));
    assert_eq!(after, Ok(vec![3.0]), "the device is as good as before");
}
