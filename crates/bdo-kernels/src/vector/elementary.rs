//! exp, expm1, the normal distribution, and phi1(x) = (1 - e^-x) / x with its derivative, accurate through zero, on vectors.

use super::Vector;
use crate::isa::{Isa, vectorised};

const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;

/// Vectors to work on at once where there are several: the steps of one fill the waiting times of the others, and three leave registers
/// for constants.
pub(crate) const TOGETHER: usize = 3;

/// The integers n nearest to x / ln 2 and expm1 of the remainders.
#[inline(always)]
fn reduced<V: Vector, const K: usize>(x: [V; K]) -> ([V; K], [V; K]) {
    let (mut n, mut r, mut p) = (x, x, x);
    for k in 0..K {
        n[k] = x[k].mul(V::splat(std::f32::consts::LOG2_E)).round();
        // ln 2 in two parts, the first with enough trailing zeros for n * LN2_HIGH to be exact.
        r[k] = n[k].fma(V::splat(-LN2_LOW), n[k].fma(V::splat(-LN2_HIGH), x[k]));
        p[k] = V::splat(1.0 / 5040.0);
    }
    // Taylor to degree 7: on |r| <= ln 2 / 2 the next term is below 6e-9.
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5] {
        for k in 0..K {
            p[k] = p[k].fma(r[k], V::splat(c));
        }
    }
    for k in 0..K {
        p[k] = r[k].mul(r[k]).fma(p[k], r[k]);
    }
    (n, p)
}

/// e^x within 2 units in the last place for normal results; underflows to zero through the subnormals, overflows to
/// infinity, NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<V: Vector, const K: usize>(mut x: [V; K]) -> [V; K] {
    for x in &mut x {
        // The order of the operands of max and min lets a NaN through.
        *x = V::splat(-110.0).max(V::splat(90.0).min(*x));
    }
    let (n, mut p) = reduced(x);
    for k in 0..K {
        // Two factors, because 2^n alone leaves the range of normal numbers at both ends.
        let half = n[k].mul(V::splat(0.5)).round();
        p[k] = p[k].add(V::splat(1.0)).mul(half.pow2()).mul(n[k].sub(half).pow2());
    }
    p
}

/// (e^x, e^x - 1) for x <= 88, both within a few units in the last place.
#[inline(always)]
pub(crate) fn exp_and_expm1<V: Vector>(x: V) -> (V, V) {
    let x = V::splat(-87.0).max(V::splat(88.3).min(x));
    let ([n], [p]) = reduced([x]);
    let scale = n.pow2();
    (scale.fma(p, scale), scale.fma(p, scale.sub(V::splat(1.0))))
}

/// The tail of the standard normal distribution beyond |x|, and e^(-x^2 / 2), of some vectors.
///
/// The tail is the bell times t P(t) with t = 1 / (1 + 0.3 |x|), the bell two to the power of a multiple of x^2. P and the
/// polynomial behind the power are fits of least relative error (1.3e-7 and 2e-9 before rounding), so that small probabilities
/// keep their relative accuracy too.
#[inline(always)]
pub(crate) fn normal_tail<V: Vector, const K: usize>(x: [V; K]) -> ([V; K], [V; K]) {
    const TAIL: [f32; 8] = [
        0.035_985_973,
        -0.158_503_13,
        0.208_600_2,
        -0.055_758_458,
        0.129_663_53,
        0.099_578_1,
        0.120_807_97,
        0.119_625_755,
    ];
    const POWER: [f32; 7] =
        [0.000_153_532_57, 0.001_339_885_4, 0.009_618_438, 0.055_503_324, 0.240_226_48, std::f32::consts::LN_2, 1.0];
    let one = V::splat(1.0);
    let (mut t, mut tail, mut f, mut n, mut bell) = (x, x, x, x, x);
    for k in 0..K {
        t[k] = one.div(x[k].abs().fma(V::splat(0.3), one));
        // Below -126 the bell is no normal number any more, and whatever it multiplies is nothing beside x.
        let exponent = V::splat(-126.0).max(x[k].mul(x[k]).mul(V::splat(-0.5 * std::f32::consts::LOG2_E)));
        n[k] = exponent.round();
        f[k] = exponent.sub(n[k]);
        bell[k] = V::splat(POWER[0]);
        tail[k] = V::splat(TAIL[0]);
    }
    for c in &POWER[1..] {
        for k in 0..K {
            bell[k] = bell[k].fma(f[k], V::splat(*c));
        }
    }
    for c in &TAIL[1..] {
        for k in 0..K {
            tail[k] = tail[k].fma(t[k], V::splat(*c));
        }
    }
    for k in 0..K {
        bell[k] = bell[k].mul(n[k].pow2());
        tail[k] = tail[k].mul(t[k]).mul(bell[k]);
    }
    (tail, bell)
}

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
        for i in (0..x.len()).step_by(V::LANES) {
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
        }
    }
}
