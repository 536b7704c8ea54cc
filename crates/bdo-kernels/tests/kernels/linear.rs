use crate::activation::value_and_slope;
use crate::check::{Values, assert_close, dot, numeric_gradient, wide};
use bdo_kernels::activation::Activation;
use bdo_kernels::linear::{Epilogue, LinearShape, backward, forward};
use bdo_kernels::{Isa, Precision, reference};
use proptest::prelude::*;

/// Sums of up to 70 products of values below one: 70 roundings of half a unit in the last place, with room for GELU.
const TOLERANCE: f64 = 1e-5;

struct Case {
    shape: LinearShape,
    x: Vec<f32>,
    w: Vec<f32>,
    b: Vec<f32>,
    r: Vec<f32>,
}

fn case(rows: usize, inputs: usize, outputs: usize, seed: u64) -> Case {
    let mut values = Values::new(seed);
    Case {
        shape: LinearShape { rows, inputs, outputs },
        x: values.vec(rows * inputs),
        w: values.vec(outputs * inputs),
        b: values.vec(outputs),
        r: values.vec(rows * outputs),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn forward_agrees_with_its_twin(rows in 0usize..40, inputs in 0usize..70, outputs in 0usize..60, seed: u64) {
        let Case { shape, x, w, b, r } = case(rows, inputs, outputs, seed);
        let pre = reference::linear(shape, &wide(&x), &wide(&w), Some(&wide(&b)));
        let act = |a| pre.iter().map(|&v| value_and_slope(a, v).0).collect::<Vec<_>>();
        let with_residual: Vec<f64> = pre.iter().zip(&r).map(|(p, &r)| p + f64::from(r)).collect();
        let bare = reference::linear(shape, &wide(&x), &wide(&w), None);
        for isa in Isa::available() {
            let run = |bias, epilogue| forward(isa, Precision::F32, shape, &x, &w, bias, epilogue);
            assert_close("bias", &run(Some(&b), Epilogue::None).y, &pre, TOLERANCE);
            assert_close("bare", &run(None, Epilogue::None).y, &bare, TOLERANCE);
            assert_close("residual", &run(Some(&b), Epilogue::Residual(&r)).y, &with_residual, TOLERANCE);
            assert_close("relu", &run(Some(&b), Epilogue::Relu).y, &act(Activation::Relu), TOLERANCE);
            let kept = run(Some(&b), Epilogue::Gelu { keep: true });
            assert_close("gelu", &kept.y, &act(Activation::Gelu), TOLERANCE);
            let slopes: Vec<_> = pre.iter().map(|&v| value_and_slope(Activation::Gelu, v).1).collect();
            assert_close("slope", &kept.slope.unwrap(), &slopes, TOLERANCE);
            assert_eq!(run(Some(&b), Epilogue::Gelu { keep: false }).y, kept.y);
        }
    }

    #[test]
    fn backward_agrees_with_its_twin(rows in 0usize..40, inputs in 0usize..50, outputs in 0usize..50, seed: u64) {
        let Case { shape, x, w, r: dy, .. } = case(rows, inputs, outputs, seed);
        let (dx, dw, db) = reference::linear_backward(shape, &wide(&x), &wide(&w), &wide(&dy));
        for isa in Isa::available() {
            let got = backward(isa, Precision::F32, shape, &x, &w, &dy, None, true);
            assert_close("dx", &got.dx.unwrap(), &dx, TOLERANCE);
            assert_close("dw", &got.dw, &dw, TOLERANCE);
            assert_close("db", &got.db, &db, TOLERANCE);
        }
    }
}

#[test]
fn gradients_match_finite_differences_through_the_activations() {
    let Case { shape, x, w, b, r } = case(5, 7, 6, 11);
    for activation in [Activation::Gelu, Activation::Relu] {
        let loss = |x: &[f64], w: &[f64], b: &[f64]| -> f64 {
            let pre = reference::linear(shape, x, w, Some(b));
            dot(&pre.iter().map(|&v| value_and_slope(activation, v).0).collect::<Vec<_>>(), &wide(&r))
        };
        let (wx, ww, wb) = (wide(&x), wide(&w), wide(&b));
        let dx = numeric_gradient(&wx, |x| loss(x, &ww, &wb));
        let dw = numeric_gradient(&ww, |w| loss(&wx, w, &wb));
        let db = numeric_gradient(&wb, |b| loss(&wx, &ww, b));
        for isa in Isa::available() {
            let keep = Epilogue::Gelu { keep: true };
            let epilogue = if activation == Activation::Gelu { keep } else { Epilogue::Relu };
            let out = forward(isa, Precision::F32, shape, &x, &w, Some(&b), epilogue);
            let activated = match &out.slope {
                Some(slope) => Some((Activation::Gelu, &slope[..])),
                None => Some((Activation::Relu, &out.y[..])),
            };
            let got = backward(isa, Precision::F32, shape, &x, &w, &r, activated, true);
            assert_close("dx", &got.dx.unwrap(), &dx, TOLERANCE);
            assert_close("dw", &got.dw, &dw, TOLERANCE);
            assert_close("db", &got.db, &db, TOLERANCE);
        }
    }
}

/// The nearest bfloat16, worked out with division instead of bit tricks.
fn low(x: &[f32]) -> Vec<f64> {
    let round = |x: f32| -> f64 {
        if x == 0.0 {
            return 0.0;
        }
        let unit = 2f64.powi(x.abs().log2().floor() as i32 - 7);
        (f64::from(x) / unit).round_ties_even() * unit
    };
    x.iter().map(|&v| round(v)).collect()
}

/// On AMX tiles where the machine has them (`amx::native_tiles_run_or_are_named` says so), in plain code elsewhere.
#[test]
fn bf16_rounds_the_operands_and_nothing_else() {
    for (rows, inputs, outputs) in [(33, 45, 37), (1, 1, 1), (16, 32, 16), (67, 31, 65)] {
        let Case { shape, x, w, b, r } = case(rows, inputs, outputs, 5);
        let y = reference::linear(shape, &low(&x), &low(&w), Some(&wide(&b)));
        let bare = reference::linear(shape, &low(&x), &low(&w), None);
        let with_residual: Vec<f64> = y.iter().zip(&r).map(|(y, &r)| y + f64::from(r)).collect();
        let (dx, dw, _) = reference::linear_backward(shape, &low(&x), &low(&w), &low(&r));
        // The bias gradient is a plain sum in f32, of the unrounded dy.
        let db = reference::linear_backward(shape, &wide(&x), &wide(&w), &wide(&r)).2;
        for isa in Isa::available() {
            let run = |bias, epilogue| forward(isa, Precision::Bf16, shape, &x, &w, bias, epilogue).y;
            assert_close("y", &run(Some(&b), Epilogue::None), &y, TOLERANCE);
            assert_close("bare", &run(None, Epilogue::None), &bare, TOLERANCE);
            assert_close("residual", &run(Some(&b), Epilogue::Residual(&r)), &with_residual, TOLERANCE);
            let got = backward(isa, Precision::Bf16, shape, &x, &w, &r, None, true);
            assert_close("dx", &got.dx.unwrap(), &dx, TOLERANCE);
            assert_close("dw", &got.dw, &dw, TOLERANCE);
            assert_close("db", &got.db, &db, TOLERANCE);
        }
    }
}

#[test]
fn bf16_activations_follow_the_rounded_product() {
    let Case { shape, x, w, b, r } = case(67, 45, 37, 6);
    let pre = reference::linear(shape, &low(&x), &low(&w), Some(&wide(&b)));
    for activation in [Activation::Gelu, Activation::Relu] {
        let (y, slope): (Vec<_>, Vec<_>) = pre.iter().map(|&v| value_and_slope(activation, v)).unzip();
        let keep = Epilogue::Gelu { keep: true };
        let epilogue = if activation == Activation::Gelu { keep } else { Epilogue::Relu };
        for isa in Isa::available() {
            let out = forward(isa, Precision::Bf16, shape, &x, &w, Some(&b), epilogue);
            assert_close("y", &out.y, &y, TOLERANCE);
            let activated = match &out.slope {
                Some(kept) => {
                    assert_close("slope", kept, &slope, TOLERANCE);
                    Some((Activation::Gelu, &kept[..]))
                }
                None => Some((Activation::Relu, &out.y[..])),
            };
            // What is rounded is the product of dy and the derivative, which is worked out in f32.
            let kept: Vec<f32> = out.slope.clone().unwrap_or(slope.iter().map(|&s| s as f32).collect());
            let d: Vec<f32> = kept.iter().zip(&r).map(|(s, d)| s * d).collect();
            let (dx, dw, _) = reference::linear_backward(shape, &low(&x), &low(&w), &low(&d));
            let db = reference::linear_backward(shape, &wide(&x), &wide(&w), &wide(&d)).2;
            let got = backward(isa, Precision::Bf16, shape, &x, &w, &r, activated, true);
            assert_close("dx", &got.dx.unwrap(), &dx, TOLERANCE);
            assert_close("dw", &got.dw, &dw, TOLERANCE);
            assert_close("db", &got.db, &db, TOLERANCE);
        }
    }
}

#[test]
#[should_panic(expected = "bias: expected 2 values, found 3")]
fn bias_of_the_wrong_length_is_refused() {
    let shape = LinearShape { rows: 1, inputs: 1, outputs: 2 };
    forward(Isa::Portable, Precision::F32, shape, &[0.0], &[0.0; 2], Some(&[0.0; 3]), Epilogue::None);
}
