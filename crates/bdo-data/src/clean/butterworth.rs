//! A Butterworth filter of fifth order, run forwards and backwards so that it shifts no phase.

use crate::problem::{Problem, ensure};
use serde::{Deserialize, Serialize};

const ORDER: usize = 5;

/// The frequencies that stay; at least one limit is given.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    pub high_pass_hz: Option<f64>,
    pub low_pass_hz: Option<f64>,
}

impl Band {
    /// Share of the frequencies up to half of the sampling rate that stay.
    pub(super) fn share(self, tr_seconds: f64) -> f64 {
        let nyquist_hz = 0.5 / tr_seconds;
        let (from, to) = (self.high_pass_hz.unwrap_or(0.0), self.low_pass_hz.unwrap_or(nyquist_hz).min(nyquist_hz));
        ((to - from) / nyquist_hz).clamp(0.0, 1.0)
    }
}

/// A cascade of second-order sections, `a0 = 1`.
#[derive(Debug)]
pub(super) struct Filter {
    sections: Vec<Section>,
    /// Frames by which the ends are extended.
    edge: usize,
}

#[derive(Debug, Clone, Copy)]
struct Section {
    b: [f64; 3],
    a: [f64; 3],
}

impl Filter {
    pub(super) fn design(band: Band, tr_seconds: f64) -> Result<Self, Problem> {
        let nyquist_hz = 0.5 / tr_seconds;
        // At or above the Nyquist frequency there is nothing to remove; nilearn moves such a limit just below it.
        let below = |hz: f64| if hz >= nyquist_hz { nyquist_hz * (1.0 - 10.0 * f64::from(f32::EPSILON)) } else { hz };
        let limits = [band.high_pass_hz, band.low_pass_hz];
        if let Some(hz) = limits.into_iter().flatten().find(|hz| !(hz.is_finite() && *hz > 0.0)) {
            return Err(Problem::new("band-pass", "limits above 0 Hz", hz));
        }
        // Analogue limits that the bilinear transform maps onto the wanted ones.
        let warped = |hz: f64| 4.0 * (std::f64::consts::PI * below(hz) / nyquist_hz / 2.0).tan();
        Ok(match limits {
            [None, None] => return Err(Problem::new("band-pass", "a limit", "none")),
            [Some(high), Some(low)] if below(high) >= below(low) => {
                let expected = format!("a lower limit below the upper one (and below {nyquist_hz} Hz)");
                return Err(Problem::new("band-pass", expected, format!("{high} to {low} Hz")));
            }
            [None, Some(low)] => lowpass(warped(low)),
            [Some(high), None] => highpass(warped(high)),
            [Some(high), Some(low)] => bandpass(warped(high), warped(low)),
        })
    }

    /// Filters both ways over an odd extension of the ends, starting in the steady state of the first value.
    pub(super) fn forwards_and_backwards(&self, x: &[f64]) -> Result<Vec<f64>, Problem> {
        let (n, edge) = (x.len(), self.edge);
        ensure(n > edge, "length for the band-pass", format_args!("more than {edge} frames"), n)?;
        let mut extended = Vec::with_capacity(n + 2 * edge);
        extended.extend((1..=edge).rev().map(|i| 2.0 * x[0] - x[i]));
        extended.extend_from_slice(x);
        extended.extend((1..=edge).map(|i| 2.0 * x[n - 1] - x[n - 1 - i]));
        for _ in 0..2 {
            self.run(&mut extended);
            extended.reverse();
        }
        Ok(extended[edge..edge + n].to_vec())
    }

    fn run(&self, x: &mut [f64]) {
        let mut steady = x[0];
        for Section { b, a } in &self.sections {
            let gain = (b[0] + b[1] + b[2]) / (a[0] + a[1] + a[2]);
            let mut z1 = (b[2] - a[2] * gain) * steady;
            let mut z0 = (b[1] - a[1] * gain) * steady + z1;
            steady *= gain;
            for x in x.iter_mut() {
                let y = b[0] * *x + z0;
                z0 = b[1] * *x - a[1] * y + z1;
                z1 = b[2] * *x - a[2] * y;
                *x = y;
            }
        }
    }
}

/// A complex number; the design needs no more than this.
#[derive(Debug, Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn times(self, s: f64) -> Self {
        Self { re: self.re * s, im: self.im * s }
    }

    fn plus(self, o: Self) -> Self {
        Self { re: self.re + o.re, im: self.im + o.im }
    }

    fn product(self, o: Self) -> Self {
        Self { re: self.re * o.re - self.im * o.im, im: self.re * o.im + self.im * o.re }
    }

    fn over(self, o: Self) -> Self {
        let d = o.re * o.re + o.im * o.im;
        Self { re: (self.re * o.re + self.im * o.im) / d, im: (self.im * o.re - self.re * o.im) / d }
    }

    fn sqrt(self) -> Self {
        let r = self.re.hypot(self.im);
        let re = f64::midpoint(r, self.re).max(0.0).sqrt();
        let im = f64::midpoint(r, -self.re).max(0.0).sqrt();
        Self { re, im: if self.im < 0.0 { -im } else { im } }
    }
}

/// Poles of the analogue prototype with unit cutoff: the real one, and those of positive imaginary part.
fn prototype() -> (f64, Vec<Complex>) {
    let angle = |k: usize| std::f64::consts::PI * (2 * k) as f64 / (2 * ORDER) as f64;
    (-1.0, (1..=ORDER / 2).map(|k| Complex { re: -angle(k).cos(), im: angle(k).sin() }).collect())
}

/// From the analogue plane to the digital one, at twice per unit of time.
fn bilinear(p: Complex) -> Complex {
    let four = Complex { re: 4.0, im: 0.0 };
    four.plus(p).over(four.plus(p.times(-1.0)))
}

/// The polynomial of a pair of conjugate poles.
fn pair(pole: Complex) -> [f64; 3] {
    [1.0, -2.0 * pole.re, pole.re * pole.re + pole.im * pole.im]
}

/// A section with these polynomials of zeros and poles, scaled to gain 1 at `z = at`.
fn section(b: [f64; 3], a: [f64; 3], at: Complex) -> Section {
    let magnitude = |c: [f64; 3]| {
        let v = at.product(at).times(c[0]).plus(at.times(c[1])).plus(Complex { re: c[2], im: 0.0 });
        v.re.hypot(v.im)
    };
    let scale = magnitude(a) / magnitude(b);
    Section { b: b.map(|x| x * scale), a }
}

/// Sections of a filter whose zeros all lie at `-side`, where it lets nothing through; at `z = side` the gain is one.
fn one_sided(real: f64, complex: impl IntoIterator<Item = Complex>, side: f64) -> Filter {
    let at = Complex { re: side, im: 0.0 };
    let real = bilinear(Complex { re: real, im: 0.0 }).re;
    let mut sections = vec![section([1.0, side, 0.0], [1.0, -real, 0.0], at)];
    sections.extend(complex.into_iter().map(|p| section([1.0, 2.0 * side, 1.0], pair(bilinear(p)), at)));
    // Three coefficients for every order, less the empty ones of the first-order section.
    Filter { edge: 3 * (2 * sections.len()), sections }
}

fn lowpass(cutoff: f64) -> Filter {
    let (real, complex) = prototype();
    one_sided(real * cutoff, complex.into_iter().map(|p| p.times(cutoff)), 1.0)
}

fn highpass(cutoff: f64) -> Filter {
    let (real, complex) = prototype();
    let inverse = |p: Complex| Complex { re: cutoff, im: 0.0 }.over(p);
    one_sided(cutoff / real, complex.into_iter().map(inverse), -1.0)
}

fn bandpass(from: f64, to: f64) -> Filter {
    let (width, centre_squared) = (to - from, from * to);
    let (real, complex) = prototype();
    let split = |p: Complex| {
        let half = p.times(width / 2.0);
        let root = half.product(half).plus(Complex { re: -centre_squared, im: 0.0 }).sqrt();
        [half.plus(root), half.plus(root.times(-1.0))]
    };
    let [p, q] = split(Complex { re: real, im: 0.0 });
    let mut denominators = vec![if p.im == 0.0 {
        let (p, q) = (bilinear(p).re, bilinear(q).re);
        [1.0, -(p + q), p * q]
    } else {
        pair(bilinear(p))
    }];
    // Each pole of the prototype splits in two; their conjugates come from the prototype's conjugate.
    denominators.extend(complex.into_iter().flat_map(split).map(|p| pair(bilinear(p))));
    // At the digital centre of the band the analogue gain is one; each section is scaled to it.
    let at = bilinear(Complex { re: 0.0, im: centre_squared.sqrt() });
    let sections: Vec<Section> = denominators.into_iter().map(|a| section([1.0, 0.0, -1.0], a, at)).collect();
    Filter { edge: 3 * (2 * sections.len() + 1), sections }
}
