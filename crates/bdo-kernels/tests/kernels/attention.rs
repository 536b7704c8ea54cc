use crate::check::{Values, assert_close, dot, numeric_gradient, wide};
use bdo_kernels::attention::{AttentionSaved, AttentionShape, Products, backward, forward, infer, reference};
use bdo_kernels::{Isa, Precision};
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
        batch in 0usize..3, length in 0usize..50, heads in 1usize..3, head_width in 1usize..20, ragged: bool, seed: u64,
    ) {
        let shape = AttentionShape { batch, length, heads, head_width };
        let mut values = Values::new(seed);
        let qkv = values.vec_between(batch * length * 3 * shape.width(), -2.0, 2.0);
        let lens: Vec<usize> = (0..batch).map(|_| values.bits() as usize % (length + 1)).collect();
        let lens = ragged.then_some(&lens[..]);
        let want = reference::forward(shape, &wide(&qkv), lens);
        for isa in Isa::available() {
            let (y, _) = forward(full(isa), shape, &qkv, lens);
            assert_close("y", &y, &want, TOLERANCE);
            assert_eq!(infer(full(isa), shape, &qkv, lens), y);
        }
    }
}

#[test]
fn gradients_match_finite_differences_kept_and_recomputed() {
    // Lengths up to twice the head width keep the probabilities, longer ones recompute them.
    for (length, head_width, lens) in [(5, 4, None), (7, 4, Some([7, 3])), (11, 5, None), (13, 3, Some([0, 9]))] {
        let shape = AttentionShape { batch: 2, length, heads: 2, head_width };
        let mut values = Values::new(length as u64);
        let qkv = values.vec(2 * length * 3 * shape.width());
        let r = values.vec(2 * length * shape.width());
        let lens = lens.as_ref().map(|lens| &lens[..]);
        let want = numeric_gradient(&wide(&qkv), |qkv| dot(&reference::forward(shape, qkv, lens), &wide(&r)));
        for isa in Isa::available() {
            let (_, saved) = forward(full(isa), shape, &qkv, lens);
            assert_eq!(matches!(saved, AttentionSaved::Probabilities(_)), length <= 2 * head_width);
            assert_close("dqkv", &backward(full(isa), shape, &qkv, lens, &saved, &r), &want, TOLERANCE);
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
        let row = bdo_kernels::softmax::reference::row(&(0..300).map(score).collect::<Vec<_>>());
        p.extend(row.iter().map(|&v| v as f32));
    }
    for isa in Isa::available() {
        let (y, saved) = forward(full(isa), shape, &qkv, None);
        assert_close("y", &y, &reference::forward(shape, &wide(&qkv), None), TOLERANCE);
        let recomputed = backward(full(isa), shape, &qkv, None, &saved, &r);
        let kept = backward(full(isa), shape, &qkv, None, &AttentionSaved::Probabilities(p.clone()), &r);
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
        let (a, saved_a) = forward(full(isa), shape, &clean, Some(&lens));
        let (b, saved_b) = forward(full(isa), shape, &dirty, Some(&lens));
        assert_eq!(a, b);
        assert!(a[11 * 16..].iter().all(|&v| v == 0.0));
        let (da, db) = (
            backward(full(isa), shape, &clean, Some(&lens), &saved_a, &r),
            backward(full(isa), shape, &dirty, Some(&lens), &saved_b, &r),
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
        let lens = [length, 1 + length / 2];
        let lens = ragged.then_some(&lens[..]);
        for isa in Isa::available() {
            let run = |products: Products| {
                let (y, saved) = forward(products, shape, &qkv, lens);
                let d = backward(products, shape, &qkv, lens, &saved, &dy);
                assert_eq!(infer(products, shape, &qkv, lens), y);
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
    let y = infer(full(Isa::current()), shape, &qkv, None);
    for row in y.chunks_exact(16) {
        for (got, want) in row.iter().zip(&mean) {
            // A sum of 5000 terms of size 1/5000.
            assert!((f64::from(*got) - want).abs() < 1e-5);
        }
    }
}
