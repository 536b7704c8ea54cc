use crate::check::{Values, assert_close, dot, numeric_gradient, wide};
use bdo_kernels::scan::{self, Function, Moments, ScanInput, ScanShape};
use bdo_kernels::{Isa, reference};

struct Case {
    shape: ScanShape,
    alphahat: Vec<f32>,
    lambda: Vec<f32>,
    driver: Vec<u32>,
    delta: Vec<f32>,
    mean0: Vec<f32>,
    variance0: Vec<f32>,
}

impl Case {
    fn new(batch: usize, contexts: usize, steps: usize, width: usize, ragged: bool) -> Self {
        let mut values = Values::new((batch + 10 * contexts + 100 * steps + 1000 * width) as u64);
        let mut case = Self {
            shape: ScanShape { batch, contexts, steps, width },
            alphahat: values.vec(batch * contexts * width),
            lambda: values.vec_between(batch * contexts * width, 1e-6, 4.0),
            driver: (0..batch * steps).map(|_| (values.bits() % contexts as u64) as u32).collect(),
            delta: (0..batch * steps).map(|i| if i % 7 == 3 { 0.0 } else { values.between(0.001, 0.6) }).collect(),
            mean0: values.vec(width),
            variance0: values.vec_between(width, 0.1, 2.0),
        };
        if ragged {
            // Padding takes no time.
            for delta in case.delta.chunks_exact_mut(steps) {
                delta[values.bits() as usize % (steps + 1)..].fill(0.0);
            }
        }
        case
    }

    fn input(&self) -> ScanInput<'_> {
        ScanInput {
            alphahat: &self.alphahat,
            lambda: &self.lambda,
            driver: &self.driver,
            delta: &self.delta,
            mean0: &self.mean0,
            variance0: &self.variance0,
            diffusion: 0.7,
        }
    }

    fn reference(&self) -> (Vec<f64>, Vec<f64>) {
        let tokens = (wide(&self.alphahat), wide(&self.lambda));
        let starts = (wide(&self.mean0), wide(&self.variance0));
        reference::moments(self.shape, &self.input(), (&tokens.0, &tokens.1), (&starts.0, &starts.1))
    }
}

fn one(lambda: f32, alphahat: f32, delta: f32, m0: f32, p0: f32, isa: Isa) -> (f32, f32) {
    let shape = ScanShape { batch: 1, contexts: 1, steps: 1, width: 1 };
    let input = ScanInput {
        alphahat: &[alphahat],
        lambda: &[lambda],
        driver: &[0],
        delta: &[delta],
        mean0: &[m0],
        variance0: &[p0],
        diffusion: 1.0,
    };
    let Moments { mean, variance } = scan::forward(isa, shape, input);
    (mean[0], variance[0])
}

#[test]
fn the_specified_test_vector_and_its_limits() {
    for isa in Isa::available() {
        let (m, p) = one(1.7, 0.9, 0.45, 0.3, 0.8, isa);
        assert!((m - 0.422_658_69).abs() < 1e-7 && (p - 0.403_659_22).abs() < 1e-7, "{isa}: {m} {p}");
        // No time passes: identity.
        assert_eq!(one(1.7, 0.9, 0.0, 0.3, 0.8, isa), (0.3, 0.8));
        // No decay: Brownian motion with drift.
        let (m, p) = one(1e-8, 0.9, 0.45, 0.3, 0.8, isa);
        assert!((m - 0.705).abs() < 1e-6 && (p - 1.25).abs() < 1e-6, "{isa}: {m} {p}");
        // Fast decay: the stationary values.
        let (m, p) = one(1e3, 0.9, 0.45, 0.3, 0.8, isa);
        assert!((m - 0.9e-3).abs() < 1e-9 && (p - 0.5e-3).abs() < 1e-9, "{isa}: {m} {p}");
    }
}

#[test]
fn forward_agrees_with_its_twin() {
    for isa in Isa::available() {
        for (batch, contexts, steps, width) in
            [(3, 4, 9, 70), (1, 1, 1, 1), (2, 3, 160, 9), (2, 40, 160, 130), (0, 1, 3, 4)]
        {
            for ragged in [false, true] {
                let case = Case::new(batch, contexts, steps, width, ragged);
                let got = scan::forward(isa, case.shape, case.input());
                let (mean, variance) = case.reference();
                // The chain contracts, so errors of a few steps add up, not of all.
                assert_close("mean", &got.mean, &mean, 2e-6);
                assert_close("variance", &got.variance, &variance, 2e-6);
            }
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    for (ragged, width) in [(false, 3), (true, 11)] {
        let mut case = Case::new(2, 3, 8, width, ragged);
        // Rates near zero and beyond the series' range too.
        case.lambda[0] = 1e-6;
        case.lambda[1] = 30.0;
        let shape = case.shape;
        let mut values = Values::new(77);
        let len = shape.batch * shape.steps * shape.width;
        let (rm, rp) = (values.vec(len), values.vec(len));
        let (alphahat, lambda) = (wide(&case.alphahat), wide(&case.lambda));
        let (mean0, variance0) = (wide(&case.mean0), wide(&case.variance0));
        let loss = |alphahat: &[f64], lambda: &[f64], mean0: &[f64], variance0: &[f64]| {
            let (m, p) = reference::moments(shape, &case.input(), (alphahat, lambda), (mean0, variance0));
            dot(&m, &wide(&rm)) + dot(&p, &wide(&rp))
        };
        let dalphahat = numeric_gradient(&alphahat, |a| loss(a, &lambda, &mean0, &variance0));
        let dlambda = numeric_gradient(&lambda, |l| loss(&alphahat, l, &mean0, &variance0));
        let dmean0 = numeric_gradient(&mean0, |m| loss(&alphahat, &lambda, m, &variance0));
        let dvariance0 = numeric_gradient(&variance0, |p| loss(&alphahat, &lambda, &mean0, p));
        for isa in Isa::available() {
            let moments = scan::forward(isa, shape, case.input());
            let got = scan::backward(isa, shape, case.input(), &moments, &rm, &rp);
            assert_close("dalphahat", &got.dalphahat, &dalphahat, 1e-5);
            assert_close("dlambda", &got.dlambda, &dlambda, 1e-5);
            assert_close("dmean0", &got.dmean0, &dmean0, 1e-5);
            assert_close("dvariance0", &got.dvariance0, &dvariance0, 1e-5);
        }
    }
}

#[test]
fn splitting_a_step_changes_nothing() {
    for isa in Isa::available() {
        let shape = ScanShape { batch: 1, contexts: 1, steps: 2, width: 1 };
        let input = ScanInput {
            alphahat: &[0.9],
            lambda: &[1.7],
            driver: &[0, 0],
            delta: &[0.2, 0.25],
            mean0: &[0.3],
            variance0: &[0.8],
            diffusion: 1.0,
        };
        let got = scan::forward(isa, shape, input);
        let (m, p) = one(1.7, 0.9, 0.45, 0.3, 0.8, isa);
        assert!((got.mean[1] - m).abs() < 2e-7 && (got.variance[1] - p).abs() < 2e-7);
    }
}

#[test]
fn elementary_functions_are_accurate_to_a_few_units() {
    let ulps = |got: f32, want: f64| {
        let unit = f64::from((want as f32).abs().max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
        (f64::from(got) - want).abs() / unit
    };
    let x: Vec<f32> =
        (-87_000..=88_000).map(|i| i as f32 * 0.001).chain((-1000..1000).map(|i| i as f32 * 1e-6)).collect();
    let worst = |name: &str, got: Vec<f32>, at: &[f32], f: fn(f64) -> f64, allowed: f64| {
        for (&x, got) in at.iter().zip(got) {
            let want = f(f64::from(x));
            assert!(ulps(got, want) <= allowed, "{name}({x}) = {got}, want {want}: {} units", ulps(got, want));
        }
    };
    let positive: Vec<f32> = x.iter().map(|v| v.abs()).collect();
    for isa in Isa::available() {
        // The portable path rounds products and sums separately, so its argument reduction is a little coarser.
        let (exp, slope) = if isa == Isa::Portable { (4.0, 16.0) } else { (2.0, 12.0) };
        worst("exp", scan::apply_all(isa, Function::Exp, &x), &x, f64::exp, exp);
        worst("expm1", scan::apply_all(isa, Function::Expm1, &x), &x, f64::exp_m1, exp);
        worst("phi1", scan::apply_all(isa, Function::Phi1, &positive), &positive, reference::phi1, exp + 1.0);
        worst("phi1'", scan::apply_all(isa, Function::Phi1Slope, &positive), &positive, reference::phi1_slope, slope);
        assert_eq!(
            scan::apply_all(isa, Function::Exp, &[f32::NEG_INFINITY, -200.0, 200.0, f32::INFINITY])[..],
            [0.0, 0.0, f32::INFINITY, f32::INFINITY]
        );
        assert!(scan::apply_all(isa, Function::Exp, &[f32::NAN])[0].is_nan());
    }
}

#[test]
#[should_panic(expected = "driver: expected a token below 1, found 1")]
fn a_driver_beyond_the_tokens_is_refused() {
    let mut case = Case::new(1, 1, 2, 1, false);
    case.driver[1] = 1;
    scan::forward(Isa::Portable, case.shape, case.input());
}
