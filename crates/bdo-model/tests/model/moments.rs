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

/// Slope of log error over log step, by least squares.
fn order(errors: &[(f64, f64)]) -> f64 {
    let points: Vec<(f64, f64)> = errors.iter().map(|(h, e)| (h.ln(), e.ln())).collect();
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let (xy, xx) = points.iter().fold((0.0, 0.0), |(a, b), p| (a + (p.0 - mx) * (p.1 - my), b + (p.0 - mx).powi(2)));
    xy / xx
}

/// The state is linear in the draws, so a path without noise and one path for each draw give exact expectations: no number
/// here is estimated. Noise is additive, so the scheme is of order one in the strong sense as in the weak one.
#[test]
fn euler_maruyama_converges_with_order_one() {
    let steps = [HeldStep { rate: 1.3, control: 0.7, delta: 0.8 }, HeldStep { rate: 0.4, control: -1.1, delta: 0.6 }];
    let (start, diffusion) = (0.9, 0.5);
    let last = |substeps: usize, draws: &[f64]| {
        let mut draws = draws.iter().copied();
        *euler_maruyama(&steps, start, diffusion, substeps, || draws.next().unwrap()).last().unwrap()
    };
    let unit =
        |count: usize, at: Option<usize>| (0..count).map(|i| f64::from(u8::from(Some(i) == at))).collect::<Vec<_>>();

    // Weak: mean and variance of the last state against the closed form.
    let (mean, variance) = exact_moments(&steps, start, 0.0, diffusion)[1];
    let (mut of_mean, mut of_variance) = (Vec::new(), Vec::new());
    for substeps in [16, 32, 64, 128] {
        let count = 2 * substeps;
        let quiet = last(substeps, &unit(count, None));
        let spread: f64 = (0..count).map(|i| (last(substeps, &unit(count, Some(i))) - quiet).powi(2)).sum();
        of_mean.push((1.0 / substeps as f64, (quiet - mean).abs()));
        of_variance.push((1.0 / substeps as f64, (spread - variance).abs()));
    }
    for (what, errors) in [("mean", of_mean), ("variance", of_variance)] {
        let found = order(&errors);
        assert!((found - 1.0).abs() < 0.05, "weak order of the {what}: {found}, {errors:?}");
    }

    // Strong: against a path of 2,048 steps over the same Brownian motion, whose increments are summed for longer steps.
    let finest = 1024;
    let coarse = |substeps: usize, draws: &[f64]| {
        let ratio = finest / substeps;
        let summed = draws.chunks_exact(ratio).map(|some| some.iter().sum::<f64>() / (ratio as f64).sqrt());
        last(substeps, &summed.collect::<Vec<_>>())
    };
    let error = |substeps: usize| {
        let off = |at: Option<usize>| {
            let draws = unit(2 * finest, at);
            coarse(substeps, &draws) - last(finest, &draws)
        };
        let quiet = off(None);
        let random: f64 = (0..2 * finest).map(|i| (off(Some(i)) - quiet).powi(2)).sum();
        (1.0 / substeps as f64, (quiet * quiet + random).sqrt(), random.sqrt())
    };
    let errors = [8, 16, 32, 64].map(error);
    for (what, pick) in [("whole", 1), ("noise", 2)] {
        let found = order(&errors.map(|(h, all, noise)| (h, if pick == 1 { all } else { noise })));
        assert!((found - 1.0).abs() < 0.06, "strong order, {what}: {found}, {errors:?}");
    }
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
