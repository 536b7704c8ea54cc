use crate::check::{Values, assert_close, dot, numeric_gradient, wide};
use bdo_kernels::softmax::{backward, forward};
use bdo_kernels::{Isa, reference};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn forward_agrees_with_its_twin(rows in 0usize..30, width in 1usize..120, seed: u64) {
        let x = Values::new(seed).vec_between(rows * width, -8.0, 8.0);
        let want: Vec<f64> = wide(&x).chunks_exact(width).flat_map(reference::softmax_row).collect();
        for isa in Isa::available() {
            // The exponent is below 16, so its rounding moves the result by at most 16 half-units.
            assert_close("y", &forward(isa, &x, width), &want, 4e-6);
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    for width in [1, 2, 7, 8, 17, 40] {
        let mut values = Values::new(9);
        let (x, r) = (values.vec(2 * width), values.vec(2 * width));
        let want = numeric_gradient(&wide(&x), |x| {
            dot(&x.chunks_exact(width).flat_map(reference::softmax_row).collect::<Vec<_>>(), &wide(&r))
        });
        for isa in Isa::available() {
            let y = forward(isa, &x, width);
            let got = backward(isa, &y, &r, width);
            for (g, w) in got.iter().zip(&want) {
                assert!((f64::from(*g) - w).abs() < 1e-6, "{isa} {width}: {g} for {w}");
            }
        }
    }
}

#[test]
fn extreme_rows_stay_finite() {
    for isa in Isa::available() {
        let y = forward(isa, &[3e38, -3e38, f32::NEG_INFINITY, 0.0], 4);
        assert_eq!(y, [1.0, 0.0, 0.0, 0.0]);
    }
}
