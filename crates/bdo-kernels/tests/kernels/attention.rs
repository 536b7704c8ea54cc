use crate::check::{Values, assert_close, dot, numeric_gradient, wide};
use bdo_kernels::attention::{AttentionSaved, AttentionShape, Dropout, Products, backward, forward, infer};
use bdo_kernels::{Isa, Precision, reference};
use proptest::prelude::*;

/// Two chained sums and a softmax, each good to a few units in the last place.
const TOLERANCE: f64 = 1e-5;

fn full(isa: Isa) -> Products {
    Products::new(isa, Precision::F32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn forward_agrees_with_its_twin(
        batch in 0usize..3, length in 0usize..50, heads in 1usize..3, head_width in 1usize..20, ragged: bool, drop: bool, seed: u64,
    ) {
        let shape = AttentionShape { batch, length, heads, head_width };
        let dropout = drop.then(|| Dropout::new([seed as u8; 32], 0.3));
        let mut values = Values::new(seed);
        let qkv = values.vec_between(batch * length * 3 * shape.width(), -2.0, 2.0);
        let lens = |_| if ragged { values.bits() as usize % (length + 1) } else { length };
        let lens: Vec<usize> = (0..batch).map(lens).collect();
        let want = reference::attention(shape, &wide(&qkv), &lens, dropout.as_ref());
        for isa in Isa::available() {
            let (y, _) = forward(full(isa), shape, &qkv, &lens, dropout);
            assert_close("y", &y, &want, TOLERANCE);
            assert_eq!(infer(full(isa), shape, &qkv, &lens, dropout), y);
        }
    }
}

#[test]
fn gradients_match_finite_differences_kept_and_recomputed() {
    // Lengths up to twice the head width keep the probabilities, longer ones recompute them.
    for (length, head_width, lens) in [(5, 4, [5, 5]), (7, 4, [7, 3]), (11, 5, [11, 11]), (13, 3, [0, 9])] {
        let shape = AttentionShape { batch: 2, length, heads: 2, head_width };
        let mut values = Values::new(length as u64);
        let qkv = values.vec(2 * length * 3 * shape.width());
        let r = values.vec(2 * length * shape.width());
        let lens = &lens[..];
        for dropout in [None, Some(Dropout::new([7; 32], 0.4))] {
            let value = |qkv: &[f64]| dot(&reference::attention(shape, qkv, lens, dropout.as_ref()), &wide(&r));
            let want = numeric_gradient(&wide(&qkv), value);
            for isa in Isa::available() {
                let (_, saved) = forward(full(isa), shape, &qkv, lens, dropout);
                assert_eq!(matches!(saved, AttentionSaved::Probabilities(_)), length <= 2 * head_width);
                assert_close("dqkv", &backward(full(isa), shape, &qkv, lens, dropout, &saved, &r), &want, TOLERANCE);
            }
        }
    }
}

#[test]
fn several_tiles_of_queries_give_the_same_gradient_as_kept_probabilities() {
    // 300 tokens take several tiles; the probabilities are handed over as if they had been kept.
    let shape = AttentionShape { batch: 1, length: 300, heads: 1, head_width: 9 };
    let mut values = Values::new(4);
    let qkv = values.vec(300 * 27);
    let r = values.vec(300 * 9);
    let mut p = Vec::new();
    for t in 0..300 {
        let score = |s: usize| {
            let sum: f64 = (0..9).map(|i| f64::from(qkv[t * 27 + i]) * f64::from(qkv[s * 27 + 9 + i])).sum();
            sum / 3.0
        };
        let row = reference::softmax_row(&(0..300).map(score).collect::<Vec<_>>());
        p.extend(row.iter().map(|&v| v as f32));
    }
    for (isa, dropout) in
        Isa::available().into_iter().flat_map(|isa| [(isa, None), (isa, Some(Dropout::new([1; 32], 0.1)))])
    {
        let (y, saved) = forward(full(isa), shape, &qkv, &[300], dropout);
        assert_close("y", &y, &reference::attention(shape, &wide(&qkv), &[300], dropout.as_ref()), TOLERANCE);
        let recomputed = backward(full(isa), shape, &qkv, &[300], dropout, &saved, &r);
        let kept = backward(full(isa), shape, &qkv, &[300], dropout, &AttentionSaved::Probabilities(p.clone()), &r);
        assert_close("dqkv", &recomputed, &wide(&kept), TOLERANCE);
    }
}

#[test]
fn padding_never_leaks() {
    let shape = AttentionShape { batch: 1, length: 20, heads: 2, head_width: 8 };
    let lens = [11];
    let mut values = Values::new(8);
    let clean = values.vec(20 * 48);
    let mut dirty = clean.clone();
    dirty[11 * 48..].fill(f32::NAN);
    let r = values.vec(20 * 16);
    for isa in Isa::available() {
        let (a, saved_a) = forward(full(isa), shape, &clean, &lens, None);
        let (b, saved_b) = forward(full(isa), shape, &dirty, &lens, None);
        assert_eq!(a, b);
        assert!(a[11 * 16..].iter().all(|&v| v == 0.0));
        let (da, db) = (
            backward(full(isa), shape, &clean, &lens, None, &saved_a, &r),
            backward(full(isa), shape, &dirty, &lens, None, &saved_b, &r),
        );
        assert_eq!(da, db);
        assert!(da[11 * 48..].iter().all(|&v| v == 0.0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn bfloat16_products_round_what_tiles_round(
        length in 1usize..75, head_width in 1usize..70, ragged: bool, seed: u64,
    ) {
        let shape = AttentionShape { batch: 2, length, heads: 2, head_width };
        let mut values = Values::new(seed);
        // Multiples of 1/64 are exact in bfloat16 and so are their sums in f32: scores, and what is rounded from them, are the
        // same in any order of additions. Only the last sums are not.
        let mut exact = |count: usize| -> Vec<f32> {
            values.vec(count).iter().map(|v| (v * 64.0).round() / 64.0).collect()
        };
        let (qkv, dy) = (exact(2 * length * 3 * shape.width()), exact(2 * length * shape.width()));
        let lens = &[length, if ragged { 1 + length / 2 } else { length }];
        for isa in Isa::available() {
            let run = |products: Products| {
                let (y, saved) = forward(products, shape, &qkv, lens, None);
                let d = backward(products, shape, &qkv, lens, None, &saved, &dy);
                assert_eq!(infer(products, shape, &qkv, lens, None), y);
                (wide(&y), wide(&d))
            };
            let (machine, emulated) = (run(Products::new(isa, Precision::Bf16)), run(Products::emulated(isa)));
            let single = |x: &[f64]| -> Vec<f32> { x.iter().map(|&v| v as f32).collect() };
            assert_close("y", &single(&machine.0), &emulated.0, TOLERANCE);
            assert_close("dqkv", &single(&machine.1), &emulated.1, TOLERANCE);
            // Rounding changes something, by parts in 256.
            let exact = run(full(isa));
            assert_close("y in full", &single(&machine.0), &exact.0, 1e-2);
            assert_close("dqkv in full", &single(&machine.1), &exact.1, 1e-2);
        }
    }
}

#[test]
fn long_sequences_run_without_a_square_of_memory() {
    // 5000 tokens squared would be 100 MB a head; a tile of rows is a few hundred KiB.
    let shape = AttentionShape { batch: 1, length: 5000, heads: 1, head_width: 16 };
    let mut qkv = Values::new(2).vec(5000 * 48);
    // With equal keys every query sees the mean of the values.
    for row in qkv.chunks_exact_mut(48) {
        row[16..32].fill(0.25);
    }
    let mean: Vec<f64> =
        (0..16).map(|i| qkv.chunks_exact(48).map(|row| f64::from(row[32 + i])).sum::<f64>() / 5000.0).collect();
    let y = infer(full(Isa::current()), shape, &qkv, &[5000], None);
    for row in y.chunks_exact(16) {
        for (got, want) in row.iter().zip(&mean) {
            // A sum of 5000 terms of size 1/5000.
            assert!((f64::from(*got) - want).abs() < 1e-5);
        }
    }
}

/// Every factor, read off with equal keys: a probability is then 1 / length, and the values are the columns of the identity.
fn factors(isa: Isa, length: usize, dropout: Dropout) -> Vec<f32> {
    let shape = AttentionShape { batch: 3, length, heads: 1, head_width: length };
    let mut qkv = vec![0.0; 3 * length * 3 * length];
    for (t, row) in qkv.chunks_exact_mut(3 * length).enumerate() {
        row[2 * length + t % length] = length as f32;
    }
    infer(full(isa), shape, &qkv, &[length; 3], Some(dropout))
}

#[test]
fn every_mask_is_that_of_the_stream_and_as_many_are_kept_as_the_rate_says() {
    for rate in [0.1, 0.5, 0.99] {
        let dropout = Dropout::new(std::array::from_fn(|i| 3 * i as u8), rate);
        let want: Vec<f64> = (0..3 * 150 * 150).map(|at| reference::dropout_factor(&dropout, at)).collect();
        for isa in Isa::available() {
            assert_close("factors", &factors(isa, 150, dropout), &want, TOLERANCE);
        }
        let kept = want.iter().filter(|&&factor| factor > 0.0).count() as f64 / want.len() as f64;
        // Five standard errors of a share.
        let bound = 5.0 * (rate * (1.0 - rate) / want.len() as f64).sqrt();
        assert!((kept - (1.0 - rate)).abs() < bound, "rate {rate}: kept {kept}");
        // Neighbours in a row, in a column and in the next sample are independent.
        for lag in [1, 150, 150 * 150] {
            let both = want.iter().zip(&want[lag..]).filter(|(a, b)| **a > 0.0 && **b > 0.0).count() as f64;
            let share = both / (want.len() - lag) as f64;
            assert!((share - (1.0 - rate).powi(2)).abs() < 0.015, "rate {rate}, {lag} apart: both kept {share}");
        }
    }
}

#[test]
fn a_rate_of_zero_changes_no_bit() {
    let shape = AttentionShape { batch: 2, length: 40, heads: 2, head_width: 8 };
    let mut values = Values::new(12);
    let (qkv, dy) = (values.vec(2 * 40 * 48), values.vec(2 * 40 * 16));
    for isa in Isa::available() {
        let run = |dropout| {
            let (y, saved) = forward(full(isa), shape, &qkv, &[40; 2], dropout);
            let d = backward(full(isa), shape, &qkv, &[40; 2], dropout, &saved, &dy);
            (y, d)
        };
        assert_eq!(run(None), run(Some(Dropout::new([5; 32], 0.0))));
    }
}
