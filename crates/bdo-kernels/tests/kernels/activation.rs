use crate::check::{Values, assert_close, wide};
use bdo_kernels::activation::Activation;
use bdo_kernels::linear::{Epilogue, LinearShape, backward, forward};
use bdo_kernels::{Isa, Precision};

/// The activation and its derivative in double precision, with the error function of libm.
pub(crate) fn value_and_slope(activation: Activation, x: f64) -> (f64, f64) {
    match activation {
        Activation::Gelu => {
            let cdf = 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
            let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            (x * cdf, cdf + x * density)
        }
        Activation::Relu => (x.max(0.0), f64::from(u8::from(x > 0.0))),
    }
}

/// The activation at every x and its derivative, by a layer that multiplies by 1.
fn applied(isa: Isa, activation: Activation, x: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let shape = LinearShape { rows: x.len(), inputs: 1, outputs: 1 };
    let epilogue = if activation == Activation::Gelu { Epilogue::Gelu { keep: true } } else { Epilogue::Relu };
    let out = forward(isa, Precision::F32, shape, x, &[1.0], None, epilogue);
    let saved = Some((activation, out.slope.as_ref().unwrap_or(&out.y).as_slice()));
    let dx = backward(isa, Precision::F32, shape, x, &[1.0], &vec![1.0; x.len()], saved, true).dx;
    (out.y, dx.unwrap())
}

#[test]
fn values_and_slopes_agree_with_double_precision() {
    let x: Vec<f32> = (-4000i16..=4000).map(|i| f32::from(i) * 0.0025).chain([0.0, -0.0, 30.0, -30.0]).collect();
    for isa in Isa::available() {
        for activation in [Activation::Gelu, Activation::Relu] {
            let (y, dx) = applied(isa, activation, &x);
            for i in 0..x.len() {
                let (value, slope) = value_and_slope(activation, f64::from(x[i]));
                // Half a dozen units in the last place of the value, and in the tails of the argument's square.
                let allowed = 1e-6 * value.abs() * (1.0 + f64::from(x[i] * x[i])) + 1e-38;
                assert!(
                    (f64::from(y[i]) - value).abs() <= allowed,
                    "{isa} {activation:?}({}): {} for {value}",
                    x[i],
                    y[i]
                );
                assert!(
                    (f64::from(dx[i]) - slope).abs() <= 1e-6,
                    "{isa} {activation:?}'({}): {} for {slope}",
                    x[i],
                    dx[i]
                );
            }
        }
    }
}

#[test]
fn odd_lengths_and_nan() {
    for isa in Isa::available() {
        for len in [0, 1, 7, 8, 9, 16, 17, 40_000] {
            let x = Values::new(1).vec(len);
            let want: Vec<f64> = wide(&x).iter().map(|&v| value_and_slope(Activation::Gelu, v).0).collect();
            assert_close("gelu", &applied(isa, Activation::Gelu, &x).0, &want, 1e-6);
        }
        // A broken input must be seen, not hidden.
        assert!(applied(isa, Activation::Gelu, &[f32::NAN]).0[0].is_nan());
        assert!(applied(isa, Activation::Relu, &[f32::NAN]).0[0].is_nan());
    }
}
