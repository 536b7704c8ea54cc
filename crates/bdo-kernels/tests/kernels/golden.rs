//! Against `PyTorch`, by way of `testdata/golden/kernels.txt` (made by `tools/reference/kernels.py`).

use crate::check::{assert_close, wide};
use bdo_kernels::activation::Activation;
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_kernels::attention::{self, AttentionShape, Products};
use bdo_kernels::linear::{self, Epilogue, LinearShape};
use bdo_kernels::{Isa, Precision, norm, softmax};
use std::collections::BTreeMap;

/// Both sides compute in single precision with sums of at most a dozen terms.
const TOLERANCE: f64 = 4e-6;

fn golden() -> BTreeMap<String, Vec<f32>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/kernels.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let array = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap().to_owned();
        (name, words.map(|word| word.parse().unwrap()).collect())
    };
    text.lines().map(array).collect()
}

#[test]
fn linear_with_gelu() {
    let golden = golden();
    let get = |name: &str| &golden[&format!("linear.{name}")][..];
    let shape = LinearShape { rows: 5, inputs: 7, outputs: 6 };
    for isa in Isa::available() {
        let weight = get("w");
        let out = linear::forward(
            isa,
            Precision::F32,
            shape,
            get("x"),
            weight,
            Some(get("b")),
            Epilogue::Gelu { keep: true },
        );
        let slope = out.slope.unwrap();
        let d = linear::backward(
            isa,
            Precision::F32,
            shape,
            get("x"),
            get("w"),
            get("dy"),
            Some((Activation::Gelu, &slope)),
            true,
        );
        assert_close("y", &out.y, &wide(get("y")), TOLERANCE);
        assert_close("dx", &d.dx.unwrap(), &wide(get("dx")), TOLERANCE);
        assert_close("dw", &d.dw, &wide(get("dw")), TOLERANCE);
        assert_close("db", &d.db, &wide(get("db")), TOLERANCE);
    }
}

#[test]
fn layer_norm() {
    let golden = golden();
    let get = |name: &str| &golden[&format!("norm.{name}")][..];
    for isa in Isa::available() {
        let out = norm::forward(isa, get("x"), get("g"), get("b"), 1e-6);
        let d = norm::backward(isa, get("x"), get("g"), &out.mean, &out.rstd, get("dy"));
        assert_close("y", &out.y, &wide(get("y")), TOLERANCE);
        assert_close("dx", &d.dx, &wide(get("dx")), TOLERANCE);
        assert_close("dgamma", &d.dgamma, &wide(get("dg")), TOLERANCE);
        assert_close("dbeta", &d.dbeta, &wide(get("db")), TOLERANCE);
    }
}

#[test]
fn ragged_attention() {
    let golden = golden();
    let get = |name: &str| &golden[&format!("attention.{name}")][..];
    let shape = AttentionShape { batch: 2, length: 6, heads: 2, head_width: 3 };
    for isa in Isa::available() {
        let products = Products::new(isa, Precision::F32);
        let (y, saved) = attention::forward(products, shape, get("qkv"), &[6, 4], None);
        let d = attention::backward(products, shape, get("qkv"), &[6, 4], None, &saved, get("dy"));
        assert_close("y", &y, &wide(get("y")), TOLERANCE);
        assert_close("dqkv", &d, &wide(get("dqkv")), TOLERANCE);
    }
}

#[test]
fn softmax_rows() {
    let golden = golden();
    let get = |name: &str| &golden[&format!("softmax.{name}")][..];
    for isa in Isa::available() {
        let y = softmax::forward(isa, get("x"), 9);
        assert_close("y", &y, &wide(get("y")), TOLERANCE);
        assert_close("dx", &softmax::backward(isa, &y, get("dy"), 9), &wide(get("dx")), TOLERANCE);
    }
}

#[test]
fn adam_steps() {
    let golden = golden();
    for (name, weight_decay) in
        [("adam", WeightDecay::None), ("l2", WeightDecay::Coupled(0.1)), ("adamw", WeightDecay::Decoupled(0.1))]
    {
        let adam = Adam { learning_rate: 1e-2, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay, gradient_scale: 1.0 };
        for isa in Isa::available() {
            let mut p = golden[&format!("{name}.before")].clone();
            let (mut m, mut v) = (vec![0.0; 10], vec![0.0; 10]);
            for step in 0..3 {
                adam.step(isa, step + 1, &mut p, &golden[&format!("{name}.gradient{step}")], &mut m, &mut v);
            }
            assert_close(name, &p, &wide(&golden[&format!("{name}.after")]), TOLERANCE);
        }
    }
}
