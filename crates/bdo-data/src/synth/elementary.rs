//! `exp` and `ln` from additions and multiplications only.
//!
//! The system's mathematical library differs between machines in the last bit; one such bit, fed through a
//! dynamical system, would make the same seed give different cohorts. These two functions use only
//! operations that IEEE 754 rounds in one way, so a seed means the same bytes everywhere.

use std::f64::consts::LN_2;

/// Natural exponential, to about one unit in the last place, for arguments within ±700 (clamped beyond).
pub(super) fn exp(x: f64) -> f64 {
    // ln 2 in two parts, so that k * ln 2 is subtracted without losing the low bits of the remainder.
    const LN_2_HIGH: f64 = 0.693_145_751_953_125;
    const LN_2_LOW: f64 = 1.428_606_820_309_417_3e-6;
    let x = x.clamp(-700.0, 700.0);
    let k = (x / LN_2).round();
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    // |r| <= ln(2)/2, where the Taylor series has a remainder below 1e-17 after 14 terms.
    let mut sum = 1.0;
    for n in (1..=14_u32).rev() {
        sum = 1.0 + r * sum / f64::from(n);
    }
    sum * f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

/// Natural logarithm of a positive normal number.
pub(super) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) as i64) - 1023;
    let mut mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 atanh(s) with |s| <= 0.1716: s^22 is below 1e-17.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for n in INVERSE_ODD.iter().rev() {
        sum = n + square * sum;
    }
    exponent as f64 * LN_2 + 2.0 * s * sum
}

/// 1/1, 1/3, 1/5, ... as the series of the inverse hyperbolic tangent needs them.
const INVERSE_ODD: [f64; 11] = [
    1.0,
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
];

#[cfg(test)]
mod tests {
    use super::{exp, ln};

    #[test]
    fn agrees_with_the_system_library() {
        // A few units in the last place: both sides round, and the argument reduction adds one more.
        for i in -3000..=3000 {
            let x = f64::from(i) * 0.0137;
            assert!((exp(x) / x.exp() - 1.0).abs() < 2e-15, "exp({x})");
            let positive = x.exp();
            assert!((ln(positive) - positive.ln()).abs() <= 4e-16 * positive.ln().abs().max(1.0), "ln({positive})");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(ln(1.0), 0.0);
    }
}
