//! Results do not depend on the number of threads, to the last bit.

use crate::check::Values;
use bdo_kernels::activation::Activation;
use bdo_kernels::adam::{Adam, WeightDecay, squared_norm};
use bdo_kernels::attention::{self, AttentionShape, Products};
use bdo_kernels::gemm::{Matrix, Product, gemm};
use bdo_kernels::linear::{self, Epilogue, LinearShape};
use bdo_kernels::loss::{ErrorShape, MaskedError};
use bdo_kernels::scan::{self, ScanInput, ScanShape};
use bdo_kernels::{Isa, Precision, amx, ema, norm, softmax};

/// Everything the kernels return on one pool.
fn all(isa: Isa) -> Vec<Vec<f32>> {
    let mut values = Values::new(42);
    let mut out = Vec::new();

    let size = Product { rows: 301, depth: 400, columns: 150 };
    let (a, b) = (values.vec(301 * 400), values.vec(400 * 150));
    let mut c = vec![0.0; 301 * 150];
    gemm(isa, size, Matrix::transposed(&a, 301), Matrix::row_major(&b, 150), &mut c);
    out.push(c);
    out.push(amx::gemm_emulated(isa, size, Matrix::row_major(&a, 400), Matrix::row_major(&b, 150)));

    let shape = LinearShape { rows: 301, inputs: 100, outputs: 150 };
    let (x, w, bias, dy) = (values.vec(30_100), values.vec(15_000), values.vec(150), values.vec(301 * 150));
    for precision in [Precision::F32, Precision::Bf16] {
        let epilogue = Epilogue::Gelu { keep: true };
        let y = linear::forward(isa, precision, shape, &x, &w, Some(&bias), epilogue);
        let slope = y.slope.unwrap();
        let g = linear::backward(isa, precision, shape, &x, &w, &dy, Some((Activation::Gelu, &slope)), true);
        out.extend([y.y, slope, g.dx.unwrap(), g.dw, g.db]);
    }

    let (gamma, beta) = (values.vec(100), values.vec(100));
    let n = norm::forward(isa, &x, &gamma, &beta, 1e-6);
    let g = norm::backward(isa, &x, &gamma, &n.mean, &n.rstd, &values.vec(30_100));
    out.extend([n.y, n.mean, n.rstd, g.dx, g.dgamma, g.dbeta]);

    for length in [30, 260] {
        let shape = AttentionShape { batch: 2, length, heads: 3, head_width: 16 };
        let qkv = values.vec(2 * length * 144);
        for precision in [Precision::F32, Precision::Bf16] {
            let products = Products::new(isa, precision);
            let (y, saved) = attention::forward(products, shape, &qkv, &[length, 17], None);
            let d = attention::backward(products, shape, &qkv, &[length, 17], None, &saved, &y);
            out.extend([y, d, attention::infer(products, shape, &qkv, &[length; 2], None)]);
        }
    }

    let y = softmax::forward(isa, &x, 100);
    out.push(softmax::backward(isa, &y, &x, 100));

    let shape = ScanShape { batch: 3, contexts: 5, steps: 40, width: 150 };
    let (alphahat, lambda) = (values.vec(3 * 5 * 150), values.vec_between(3 * 5 * 150, 0.1, 3.0));
    let driver: Vec<u32> = (0..120).map(|i| i % 5).collect();
    let delta = values.vec_between(120, 0.0, 0.5);
    let (mean0, variance0) = (values.vec(150), values.vec_between(150, 0.1, 1.0));
    let input = ScanInput {
        alphahat: &alphahat,
        lambda: &lambda,
        driver: &driver,
        delta: &delta,
        mean0: &mean0,
        variance0: &variance0,
        diffusion: 1.0,
    };
    let m = scan::forward(isa, shape, input);
    let g = scan::backward(isa, shape, input, &m, &m.variance, &m.mean);
    out.extend([m.mean, m.variance, g.dalphahat, g.dlambda, g.dmean0, g.dvariance0]);

    let shape = ErrorShape { batch: 7, rows: 43, columns: 100 };
    let error = MaskedError { prediction: &x, target: &y, row_weights: &vec![0.7; 301], valid: None };
    out.push(error.backward(isa, shape, 1.0));
    out.push(vec![error.forward(isa, shape) as f32, squared_norm(isa, &x) as f32]);

    let adam = Adam {
        learning_rate: 1e-3,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: WeightDecay::None,
        gradient_scale: 1.0,
    };
    let (mut p, mut m, mut v) = (x.clone(), vec![0.0; x.len()], vec![0.0; x.len()]);
    adam.step(isa, 1, &mut p, &y, &mut m, &mut v);
    ema::update(isa, 0.9, &mut m, &p);
    out.extend([p, m, v]);
    out
}

#[test]
fn one_two_and_three_threads_give_the_same_bits() {
    for isa in Isa::available() {
        let runs: Vec<_> = [1, 2, 3]
            .map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| all(isa)))
            .into();
        for (i, first) in runs[0].iter().enumerate() {
            for run in &runs[1..] {
                let same = first.iter().map(|v| v.to_bits()).eq(run[i].iter().map(|v| v.to_bits()));
                assert!(same, "{isa}: result {i} depends on the number of threads");
            }
        }
    }
}
