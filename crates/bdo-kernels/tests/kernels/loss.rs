use crate::check::{Values, assert_close, numeric_gradient, wide};
use bdo_kernels::loss::{ErrorShape, MaskedError};
use bdo_kernels::{Isa, reference};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn masked_error_agrees_with_its_twin(batch in 0usize..4, rows in 1usize..40, columns in 0usize..50, masked: bool, seed: u64) {
        let shape = ErrorShape { batch, rows, columns };
        let mut values = Values::new(seed);
        let len = batch * rows * columns;
        let (prediction, target) = (values.vec(len), values.vec(len));
        let weights: Vec<f32> = (0..batch * rows).map(|i| if i % 3 == 1 { 0.0 } else { 0.5 + (i % 2) as f32 }).collect();
        let valid: Vec<f32> = (0..batch * columns).map(|i| f32::from(u8::from(i % 5 != 2))).collect();
        let error = MaskedError {
            prediction: &prediction, target: &target, row_weights: &weights, valid: masked.then_some(&valid[..]),
        };
        let want = reference::masked_error(shape, &error);
        for isa in Isa::available() {
            let got = error.forward(isa, shape);
            prop_assert!((got - want).abs() <= 4e-6 * want, "{} for {}", got, want);
        }
    }
}

#[test]
fn masked_values_may_be_nan_and_have_no_gradient() {
    let shape = ErrorShape { batch: 1, rows: 2, columns: 3 };
    let prediction = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let target = [0.5, f32::NAN, 2.0, f32::NAN, f32::NAN, f32::NAN];
    let error = MaskedError {
        prediction: &prediction,
        target: &target,
        row_weights: &[2.0, 0.0],
        valid: Some(&[1.0, 0.0, 1.0]),
    };
    for isa in Isa::available() {
        assert_eq!(error.forward(isa, shape), 2.0 * (0.25 + 1.0));
        assert_eq!(error.backward(isa, shape, 0.5), [1.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
    }
}

#[test]
fn gradients_match_finite_differences() {
    let mut values = Values::new(1);
    let shape = ErrorShape { batch: 2, rows: 3, columns: 11 };
    let (prediction, target) = (values.vec(66), values.vec(66));
    let weights = [1.0, 0.5, 0.0, 2.0, 1.0, 1.0];
    let want = numeric_gradient(&wide(&prediction), |prediction| {
        (0..66).map(|i| 0.3 * f64::from(weights[i / 11]) * (prediction[i] - f64::from(target[i])).powi(2)).sum()
    });
    let error = MaskedError { prediction: &prediction, target: &target, row_weights: &weights, valid: None };
    for isa in Isa::available() {
        assert_close("error", &error.backward(isa, shape, 0.3), &want, 1e-6);
    }
}
