//! The pair sum: fast form against the form that builds every edge, and against finite differences.

use crate::reference::{numbers, relative};
use bdo_baselines::pairwise::kernel::{PairShape, backward, forward};
use bdo_baselines::pairwise::pair_sum;
use bdo_model::init::Stream;
use bdo_model::ops::Kernels;
use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;

const SLOPE: f64 = 0.33;

fn draws(name: &str, count: usize) -> Vec<f32> {
    let mut stream = Stream::named(5, name);
    (0..count).map(|_| stream.normal() as f32).collect()
}

fn direct(shape: PairShape, row: &[f64], column: &[f64], weight: &[f64]) -> Vec<f64> {
    let PairShape { batch, channels, rows, columns, outputs } = shape;
    let mut y = vec![0.0; batch * rows * outputs];
    for b in 0..batch {
        for c in 0..channels {
            for i in 0..rows {
                for j in 0..columns {
                    let z = row[(b * channels + c) * rows + i] + column[(b * channels + c) * columns + j];
                    let z = if z > 0.0 { z } else { SLOPE * z };
                    for o in 0..outputs {
                        y[(b * rows + i) * outputs + o] += z * weight[(o * channels + c) * columns + j];
                    }
                }
            }
        }
    }
    y
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|x| f64::from(*x)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn equals_the_direct_sum(batch in 1usize..3, channels in 1usize..4, rows in 1usize..9, columns in 1usize..9, outputs in 1usize..4, seed in 0u64..1000) {
        let shape = PairShape { batch, channels, rows, columns, outputs };
        let name = |what: &str| format!("{what} {seed}");
        // Rounded to quarters, so that sums of exactly zero and equal values happen.
        let coarse = |v: Vec<f32>| v.into_iter().map(|x| (x * 4.0).round() / 4.0).collect::<Vec<f32>>();
        let row = coarse(draws(&name("row"), batch * channels * rows));
        let column = coarse(draws(&name("column"), batch * channels * columns));
        let weight = draws(&name("weight"), outputs * channels * columns);
        let found = forward(shape, &row, &column, &weight, SLOPE as f32);
        let expected = direct(shape, &wide(&row), &wide(&column), &wide(&weight));
        for (a, b) in found.iter().zip(&expected) {
            // The slope is rounded to f32 (relative 3e-9); the rest is one rounding of a sum of at most 27 terms.
            prop_assert!((f64::from(*a) - b).abs() < 1e-6 * (1.0 + b.abs()), "{a} against {b}");
        }
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    let shape = PairShape { batch: 2, channels: 3, rows: 5, columns: 4, outputs: 2 };
    let inputs = [
        draws("row", shape.batch * shape.channels * shape.rows),
        draws("column", shape.batch * shape.channels * shape.columns),
        draws("weight", shape.outputs * shape.channels * shape.columns),
    ];
    let upstream = draws("upstream", shape.batch * shape.rows * shape.outputs);
    let found = backward(shape, &inputs[0], &inputs[1], &inputs[2], SLOPE as f32, &upstream);
    let loss = |inputs: &[Vec<f64>; 3]| -> f64 {
        direct(shape, &inputs[0], &inputs[1], &inputs[2]).iter().zip(&upstream).map(|(y, u)| y * f64::from(*u)).sum()
    };
    // The function is piecewise linear in each input: a central difference has no error but rounding, unless a kink lies
    // within the step. 1e-7 is far below the gaps between 40 numbers of size one.
    let step = 1e-7;
    for (which, gradient) in found.iter().enumerate() {
        for k in 0..gradient.len() {
            let at = |offset: f64| {
                let mut moved = [wide(&inputs[0]), wide(&inputs[1]), wide(&inputs[2])];
                moved[which][k] += offset;
                loss(&moved)
            };
            let expected = (at(step) - at(-step)) / (2.0 * step);
            assert!((f64::from(gradient[k]) - expected).abs() < 1e-5 * (1.0 + expected.abs()), "{which} {k}");
        }
    }
}

#[test]
fn both_paths_have_the_same_values_and_gradients() {
    let device = Device::flex().autodiff();
    let run = |kernels: Kernels| {
        let tensor = |name: &str, shape: [usize; 3]| {
            let values = draws(name, shape.iter().product());
            Tensor::<3>::from_data(TensorData::new(values, shape), &device).require_grad()
        };
        let inputs = [tensor("row", [2, 3, 6]), tensor("column", [2, 3, 7]), tensor("weight", [4, 3, 7])];
        let [row, column, weight] = inputs.clone();
        let y = pair_sum(kernels, row, column, weight, SLOPE);
        let grads = (y.clone() * y.clone()).sum().backward();
        let mut all = vec![numbers(&y)];
        all.extend(inputs.iter().map(|input| numbers(&input.grad(&grads).unwrap())));
        all
    };
    for (fused, composed) in run(Kernels::default()).iter().zip(run(Kernels::Composed)) {
        assert!(relative(fused, &composed) < 1e-5);
    }
}
