//! exp, expm1 and the normal distribution on vectors.

use super::Vector;

const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;

/// The integer n nearest to x / ln 2 and expm1 of the remainder.
#[inline(always)]
fn reduced<V: Vector>(x: V) -> (V, V) {
    let n = x.mul(V::splat(std::f32::consts::LOG2_E)).round();
    // ln 2 in two parts, the first with enough trailing zeros for n * LN2_HIGH to be exact.
    let r = n.fma(V::splat(-LN2_LOW), n.fma(V::splat(-LN2_HIGH), x));
    // Taylor to degree 7: on |r| <= ln 2 / 2 the next term is below 6e-9.
    let mut p = V::splat(1.0 / 5040.0);
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5] {
        p = p.fma(r, V::splat(c));
    }
    (n, r.mul(r).fma(p, r))
}

/// e^x within 2 units in the last place for normal results; underflows to zero through the subnormals, overflows to
/// infinity, NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<V: Vector>(x: V) -> V {
    // The order of the operands of max and min lets a NaN through.
    let x = V::splat(-110.0).max(V::splat(90.0).min(x));
    let (n, p) = reduced(x);
    // Two factors, because 2^n alone leaves the range of normal numbers at both ends.
    let half = n.mul(V::splat(0.5)).round();
    p.add(V::splat(1.0)).mul(half.pow2()).mul(n.sub(half).pow2())
}

/// (e^x, e^x - 1) for x <= 88, both within a few units in the last place.
#[inline(always)]
pub(crate) fn exp_and_expm1<V: Vector>(x: V) -> (V, V) {
    let x = V::splat(-87.0).max(V::splat(88.3).min(x));
    let (n, p) = reduced(x);
    let scale = n.pow2();
    (scale.fma(p, scale), scale.fma(p, scale.sub(V::splat(1.0))))
}

/// The standard normal (distribution function, e^(-x^2 / 2)).
///
/// For z = |x| / sqrt 2, erfc z = e^(-z^2) t P(t) with t = 1 / (1 + 0.45 z): P is a least-squares fit in relative error
/// (8e-9 before rounding), so that small tail probabilities keep their relative accuracy too.
#[inline(always)]
pub(crate) fn normal<V: Vector>(x: V) -> (V, V) {
    let one = V::splat(1.0);
    let z = x.abs().mul(V::splat(std::f32::consts::FRAC_1_SQRT_2));
    let t = one.div(z.fma(V::splat(0.45), one));
    let mut p = V::splat(-0.033_691_246);
    for c in [
        0.149_660_97,
        -0.206_585_35,
        0.021_268_785,
        0.074_050_3,
        0.070_995_46,
        0.191_050_99,
        0.225_157_99,
        0.254_222_3,
        0.253_869_77,
    ] {
        p = p.fma(t, V::splat(c));
    }
    // Below -87 the bell is no normal number any more, and whatever it multiplies is nothing beside x.
    let (n, r) = reduced(V::splat(-87.0).max(x.mul(x).mul(V::splat(-0.5))));
    let scale = n.pow2();
    let e = scale.fma(r, scale);
    let tail = p.mul(t).mul(e).mul(V::splat(0.5));
    (x.select_less(V::zero(), tail, one.sub(tail)), e)
}
