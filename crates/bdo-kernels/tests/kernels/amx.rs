use crate::check::{Values, assert_close, wide};
use bdo_kernels::amx::{gemm_emulated, gemm_native, is_available};
use bdo_kernels::gemm::{Matrix, Product};
use bdo_kernels::{Isa, Precision, reference};
use proptest::prelude::*;

fn low(x: &[f32]) -> Vec<f32> {
    // Multiples of 1/64 up to 1 need six bits: bfloat16 holds them exactly, so rounding cannot blur the comparison.
    x.iter().map(|v| (v * 64.0).round() / 64.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn tiles_agree_with_three_loops(
        rows in 0usize..100, depth in 0usize..100, columns in 0usize..80, ta: bool, tb: bool, seed: u64,
    ) {
        let size = Product { rows, depth, columns };
        let mut values = Values::new(seed);
        let (a, b) = (low(&values.vec(rows * depth)), low(&values.vec(depth * columns)));
        let a = if ta { Matrix::transposed(&a, rows) } else { Matrix::row_major(&a, depth) };
        let b = if tb { Matrix::transposed(&b, depth) } else { Matrix::row_major(&b, columns) };
        let want = reference::gemm(size, a, b);
        // Products are multiples of 2^-12 and sums stay below 2^7: exact in f32 in any order.
        for isa in Isa::available() {
            prop_assert_eq!(&gemm_emulated(isa, size, a, b), &want);
        }
        if let Some(native) = gemm_native(Isa::current(), size, a, b) {
            prop_assert_eq!(&native, &want);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn operands_are_rounded_to_the_nearest_ties_to_even(
        bits in proptest::collection::vec(any::<u32>(), 48 * 64), ta: bool, left: bool,
    ) {
        // A product with the identity gives the rounded operand itself.
        let values: Vec<f32> =
            bits.iter().map(|&b| f32::from_bits(b)).map(|v| if v.abs() < 3.3e38 { v } else { 1.0 }).collect();
        let want: Vec<f32> = values.iter().map(|&v| rounded(v)).collect();
        let mut identity = vec![0.0; 64 * 64];
        (0..64).for_each(|i| identity[i * 64 + i] = 1.0);
        let turned: Vec<f32> = (0..48 * 64).map(|at| values[at % 48 * 64 + at / 48]).collect();
        let (a, size) = (Matrix::row_major(&values, 64), Product { rows: 48, depth: 64, columns: 64 });
        let a = if ta { Matrix::transposed(&turned, 48) } else { a };
        for isa in Isa::available() {
            let (got, want) = if left {
                (gemm_emulated(isa, size, a, Matrix::row_major(&identity, 64)), want.clone())
            } else {
                // The same values as the right operand, by their transpose: (A I)^T = I A^T.
                let b = if ta { Matrix::row_major(&turned, 48) } else { Matrix::transposed(&values, 64) };
                let size = Product { rows: 64, depth: 64, columns: 48 };
                let turned: Vec<f32> = (0..48 * 64).map(|at| want[at % 48 * 64 + at / 48]).collect();
                (gemm_emulated(isa, size, Matrix::row_major(&identity, 64), b), turned)
            };
            prop_assert_eq!(got, want);
        }
    }
}

/// The nearest bfloat16 by comparison with its two neighbours.
fn rounded(x: f32) -> f32 {
    let down = f32::from_bits(x.to_bits() & 0xffff_0000);
    let up = f32::from_bits((x.to_bits() & 0xffff_0000).wrapping_add(0x1_0000));
    let (below, above) = ((f64::from(x) - f64::from(down)).abs(), (f64::from(up) - f64::from(x)).abs());
    let down_is_even = down.to_bits() & 0x1_0000 == 0;
    if below < above || (below == above && down_is_even) { down } else { up }
}

/// Threads configure tiles of their own, and the system keeps the tiles of each apart.
#[test]
fn native_tiles_agree_with_emulated_ones_on_several_threads() {
    if !is_available() {
        println!("SKIPPED on AMX tiles: this machine does not have them");
        return;
    }
    let size = Product { rows: 301, depth: 45, columns: 37 };
    let mut values = Values::new(17);
    let (a, b) = (values.vec(301 * 45), values.vec(45 * 37));
    let (a, b) = (Matrix::row_major(&a, 45), Matrix::row_major(&b, 37));
    for isa in Isa::available() {
        // Operands are rounded the same way, sums only ordered differently: 45 roundings of half a unit in the last place.
        let want = wide(&gemm_emulated(isa, size, a, b));
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let native = pool.install(|| gemm_native(isa, size, a, b)).unwrap();
            assert_close("native", &native, &want, 3e-6);
        }
    }
}

#[test]
fn native_tiles_run_or_are_named() {
    if is_available() {
        println!("tested on AMX tiles");
    } else {
        println!("SKIPPED on AMX tiles: this machine does not have them");
    }
    assert_eq!(Precision::fastest() == Precision::Bf16, is_available());
}
