//! The closed-form moments: known values, limits, and a simulation that knows nothing of the closed form.

use crate::toy::values;
use bdo_model::dynamics::{HeldStep, euler_maruyama, exact_moments};
use bdo_model::init::Stream;
use bdo_model::ops::{Drive, Kernels, moment_scan};
use burn::tensor::{DType, Device, Tensor};

/// One coordinate through the model's own op.
fn through_op(steps: &[HeldStep], mean0: f64, variance0: f64, diffusion: f64, dtype: DType) -> Vec<(f64, f64)> {
    let device = Device::flex();
    let place = (&device, dtype);
    let column = |of: fn(&HeldStep) -> f64| {
        let data: Vec<f64> = steps.iter().map(of).collect();
        Tensor::<1>::from_data(data.as_slice(), place).reshape([1, steps.len(), 1])
    };
    let drive = Drive {
        control: column(|step| step.control),
        rates: column(|step| step.rate),
        driver: (0..steps.len()).collect(),
        delta: steps.iter().map(|step| step.delta as f32).collect(),
    };
    let start = |x: f64| Tensor::<1>::from_data([x], place);
    let moments = moment_scan(Kernels::default(), drive, start(mean0), start(variance0), diffusion);
    values(&moments.mean).into_iter().zip(values(&moments.variance)).collect()
}

#[test]
fn the_test_vector_of_the_method() {
    let step = HeldStep { rate: 1.7, control: 0.9, delta: 0.45 };
    let (mean, variance) = exact_moments(&[step], 0.3, 0.8, 1.0)[0];
    assert!((mean - 0.422_658_69).abs() < 5e-9 && (variance - 0.403_659_22).abs() < 5e-9);
    let (mean, variance) = through_op(&[step], 0.3, 0.8, 1.0, DType::F32)[0];
    assert!((mean - 0.422_658_69).abs() < 1e-7 && (variance - 0.403_659_22).abs() < 1e-7);
}

#[test]
fn limits_hold_in_single_precision() {
    let at = |rate: f64, delta: f64| HeldStep { rate, control: 0.9, delta };
    // No time passes: nothing changes, exactly.
    let start = (f64::from(0.3f32), f64::from(0.8f32));
    assert_eq!(through_op(&[at(1.7, 0.0)], 0.3, 0.8, 1.0, DType::F32), [start]);
    // No decay: drift and Brownian motion.
    let (mean, variance) = through_op(&[at(1e-8, 0.45)], 0.3, 0.8, 1.0, DType::F32)[0];
    assert!((mean - (0.3 + 0.45 * 0.9)).abs() < 2e-7 && (variance - 1.25).abs() < 2e-7);
    // Fast decay: the stationary law.
    let (mean, variance) = through_op(&[at(1e3, 0.45)], 0.3, 0.8, 1.0, DType::F32)[0];
    assert!((mean / (0.9 / 1e3) - 1.0).abs() < 3e-7 && (variance / (0.5 / 1e3) - 1.0).abs() < 3e-7);
}

#[test]
fn single_precision_follows_double_over_a_whole_scan() {
    let mut stream = Stream::named(1, "steps");
    // Rates over eight decades, so that both branches of phi1 and their border are crossed.
    let steps: Vec<HeldStep> = (0..480)
        .map(|_| HeldStep {
            rate: 10f64.powf(8.0 * stream.uniform() - 5.0),
            control: stream.normal(),
            delta: f64::from((0.3 * stream.uniform()) as f32),
        })
        .collect();
    let exact = exact_moments(&steps, 0.3, 0.8, 0.5);
    for dtype in [DType::F32, DType::F64] {
        // The twin and the op truncate phi1 at different places: 1e-2^5 / 720 is 1.4e-13, far below either bound.
        let bound = if dtype == DType::F32 { 3e-6 } else { 1e-11 };
        for (found, expected) in through_op(&steps, 0.3, 0.8, 0.5, dtype).iter().zip(&exact) {
            assert!((found.0 - expected.0).abs() < bound * (1.0 + expected.0.abs()), "mean {found:?} {expected:?}");
            assert!((found.1 - expected.1).abs() < bound * (1.0 + expected.1.abs()), "variance {found:?} {expected:?}");
        }
    }
}

#[test]
fn splitting_an_interval_changes_nothing() {
    let whole = HeldStep { rate: 0.8, control: -1.3, delta: 0.7 };
    let part = |delta| HeldStep { delta, ..whole };
    let one = exact_moments(&[whole], 0.2, 0.4, 0.9)[0];
    let two = exact_moments(&[part(0.25), part(0.45)], 0.2, 0.4, 0.9)[1];
    assert!((one.0 - two.0).abs() < 1e-15 && (one.1 - two.1).abs() < 1e-15);
    let one = through_op(&[whole], 0.2, 0.4, 0.9, DType::F32)[0];
    let two = through_op(&[part(0.25), part(0.45)], 0.2, 0.4, 0.9, DType::F32)[1];
    assert!((one.0 - two.0).abs() < 3e-7 && (one.1 - two.1).abs() < 3e-7);
}

#[test]
fn a_simulation_finds_the_same_moments() {
    let steps = [(0.7, 0.5, 0.4), (2.0, -1.0, 0.3), (0.1, 0.8, 0.6)].map(|(rate, control, delta)| HeldStep {
        rate,
        control,
        delta,
    });
    let (paths, substeps, diffusion) = (20_000, 60, 0.6);
    let mut stream = Stream::named(2, "paths");
    let mut sums = [(0.0, 0.0); 3];
    for _ in 0..paths {
        let start = 0.3 + 0.5f64.sqrt() * stream.normal();
        let path = euler_maruyama(&steps, start, diffusion, substeps, || stream.normal());
        for (sum, state) in sums.iter_mut().zip(path) {
            *sum = (sum.0 + state, sum.1 + state * state);
        }
    }
    for (sum, (mean, variance)) in sums.iter().zip(exact_moments(&steps, 0.3, 0.5, diffusion)) {
        let found = sum.0 / f64::from(paths);
        let spread = sum.1 / f64::from(paths) - found * found;
        // Four standard errors of each estimate, plus the simulation's own bias, which is first order in its step:
        // at most rate^2 dt times the elapsed time, about 0.6 %.
        let n = f64::from(paths);
        assert!((found - mean).abs() < 4.0 * (variance / n).sqrt() + 6e-3 * (1.0 + mean.abs()), "mean {found} {mean}");
        assert!((spread / variance - 1.0).abs() < 4.0 * (2.0 / n).sqrt() + 1.2e-2, "variance {spread} {variance}");
    }
}
