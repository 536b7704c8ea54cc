//! phi1(x) = (1 - e^-x) / x and its derivative, accurate through zero.

use crate::isa::{Isa, vectorised};
use crate::vector::Vector;
use crate::vector::elementary::{exp, exp_and_expm1};

/// Below this, phi1 is its series: the quotient would divide zero by zero.
const PHI_SERIES: f32 = 1e-2;
/// Below this, the derivative is its series: (e^-x - phi1) / x loses as many digits as x is small, so the series
/// reaches further and has more terms than phi1's.
const SLOPE_SERIES: f32 = 0.5;

/// (e^-x, phi1(x)).
#[inline(always)]
pub(crate) fn decay_and_phi1<V: Vector>(x: V) -> (V, V) {
    let (decay, minus_one) = exp_and_expm1(V::zero().sub(x));
    let mut series = V::splat(1.0 / 120.0);
    for c in [-1.0 / 24.0, 1.0 / 6.0, -0.5, 1.0] {
        series = series.fma(x, V::splat(c));
    }
    let small = V::splat(PHI_SERIES);
    let safe = x.abs().select_less(small, V::splat(1.0), x);
    (decay, x.abs().select_less(small, series, V::zero().sub(minus_one).div(safe)))
}

/// phi1'(x) from e^-x and phi1(x).
#[inline(always)]
pub(crate) fn phi1_slope<V: Vector>(x: V, decay: V, phi1: V) -> V {
    // Coefficients (-1)^n n / (n + 1)!, the last omitted term below 3e-10 at the boundary.
    let mut series = V::splat(10.0 / 39_916_800.0);
    for c in [
        -9.0 / 3_628_800.0,
        8.0 / 362_880.0,
        -7.0 / 40_320.0,
        6.0 / 5_040.0,
        -5.0 / 720.0,
        4.0 / 120.0,
        -3.0 / 24.0,
        2.0 / 6.0,
        -0.5,
    ] {
        series = series.fma(x, V::splat(c));
    }
    let small = V::splat(SLOPE_SERIES);
    let safe = x.abs().select_less(small, V::splat(1.0), x);
    x.abs().select_less(small, series, decay.sub(phi1).div(safe))
}

/// A function of every element, for tests of its accuracy.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    /// e^x.
    Exp,
    /// e^x - 1, for x up to 88.
    Expm1,
    /// phi1.
    Phi1,
    /// phi1'.
    Phi1Slope,
}

/// The function of every element.
pub fn apply_all(isa: Isa, function: Function, x: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    apply(isa, x, &mut y, function);
    y
}

vectorised! {
    fn apply<V>(x: &[f32], y: &mut [f32], function: Function) {
        let mut i = 0;
        while i < x.len() {
            let v = V::read(x, i);
            let value = match function {
                Function::Exp => exp([v])[0],
                Function::Expm1 => exp_and_expm1(v).1,
                Function::Phi1 => decay_and_phi1(v).1,
                Function::Phi1Slope => {
                    let (decay, phi1) = decay_and_phi1(v);
                    phi1_slope(v, decay, phi1)
                }
            };
            value.write(y, i);
            i += V::LANES;
        }
    }
}
