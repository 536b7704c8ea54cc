//! The slow twin in double precision.

use super::Activation;

/// erf by its power series for small arguments and by a continued fraction of erfc for large ones.
pub fn erf(x: f64) -> f64 {
    let z = x.abs();
    let magnitude = if z < 2.5 {
        let (mut term, mut sum) = (z, z);
        for n in 1..200 {
            term *= -z * z / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        1.0 - erfc_tail(z)
    };
    magnitude.copysign(x)
}

/// erfc for z >= 2.5, where 1 - erf would cancel.
pub fn erfc_tail(z: f64) -> f64 {
    let mut fraction = z;
    for n in (1..200).rev() {
        fraction = z + f64::from(n) / 2.0 / fraction;
    }
    (-z * z).exp() / fraction * std::f64::consts::FRAC_2_SQRT_PI / 2.0
}

/// The activation and its derivative.
pub fn value_and_slope(activation: Activation, x: f64) -> (f64, f64) {
    match activation {
        Activation::Gelu => {
            let z = x * std::f64::consts::FRAC_1_SQRT_2;
            let cdf = if z < -2.5 { 0.5 * erfc_tail(-z) } else { 0.5 * (1.0 + erf(z)) };
            let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            (x * cdf, cdf + x * density)
        }
        Activation::Relu if x > 0.0 => (x, 1.0),
        Activation::Relu => (0.0, 0.0),
    }
}
