use crate::check::{Values, assert_close, dot, numeric_gradient, wide};
use bdo_kernels::norm::{backward, forward};
use bdo_kernels::{Isa, reference};
use proptest::prelude::*;

/// A dozen roundings on values of order one.
const TOLERANCE: f64 = 4e-6;
const EPS: f32 = 1e-6;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn forward_agrees_with_its_twin(rows in 0usize..140, width in 2usize..70, shift in -3.0f32..3.0, seed: u64) {
        let mut values = Values::new(seed);
        let x: Vec<f32> = values.vec(rows * width).iter().map(|v| v + shift).collect();
        let (gamma, beta) = (values.vec(width), values.vec(width));
        let mut want = Vec::new();
        let mut rstds = Vec::new();
        for row in wide(&x).chunks_exact(width) {
            let (y, _, rstd) = reference::norm_row(row, &wide(&gamma), &wide(&beta), f64::from(EPS));
            want.extend(y);
            rstds.push(rstd);
        }
        // Rounding of x - mean is relative to x, and rstd magnifies it.
        let worst = rstds.iter().fold(1.0f64, |a, &b| a.max(b));
        for isa in Isa::available() {
            let got = forward(isa, &x, &gamma, &beta, EPS);
            assert_close("y", &got.y, &want, TOLERANCE * worst * 4.0);
            assert_close("rstd", &got.rstd, &rstds, TOLERANCE * worst * 4.0);
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    for width in [1, 3, 8, 19, 33] {
        let mut values = Values::new(width as u64);
        let (rows, r) = (3, values.vec(3 * width));
        let x = values.vec(rows * width);
        let (gamma, beta) = (values.vec(width), values.vec(width));
        let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| -> f64 {
            let y: Vec<f64> =
                x.chunks_exact(width).flat_map(|row| reference::norm_row(row, gamma, beta, 1e-2).0).collect();
            dot(&y, &wide(&r))
        };
        let (wx, wg, wb) = (wide(&x), wide(&gamma), wide(&beta));
        let dx = numeric_gradient(&wx, |x| loss(x, &wg, &wb));
        let dgamma = numeric_gradient(&wg, |g| loss(&wx, g, &wb));
        let dbeta = numeric_gradient(&wb, |b| loss(&wx, &wg, b));
        for isa in Isa::available() {
            let out = forward(isa, &x, &gamma, &beta, 1e-2);
            let got = backward(isa, &x, &gamma, &out.mean, &out.rstd, &r);
            if width > 1 {
                assert_close("dx", &got.dx, &dx, 1e-5);
                assert_close("dgamma", &got.dgamma, &dgamma, 1e-5);
            }
            assert_close("dbeta", &got.dbeta, &dbeta, 1e-5);
        }
    }
}

#[test]
fn a_constant_row_gives_the_shift_alone() {
    for isa in Isa::available() {
        let out = forward(isa, &[2.5; 20], &[3.0; 20], &[0.5; 20], EPS);
        assert!(out.y.iter().all(|&y| y == 0.5));
    }
}

#[test]
#[should_panic(expected = "x: expected rows of 4 values, found 7 values")]
fn ragged_rows_are_refused() {
    forward(Isa::Portable, &[0.0; 7], &[1.0; 4], &[0.0; 4], EPS);
}
