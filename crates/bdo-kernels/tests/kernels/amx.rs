use crate::check::Values;
use bdo_kernels::amx::{gemm_emulated, gemm_native, is_available};
use bdo_kernels::gemm::{Matrix, Product, reference};
use bdo_kernels::{Isa, Precision};
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
        let want = reference::gemm(size, 1.0, a, b);
        // Products are multiples of 2^-12 and sums stay below 2^7: exact in f32 in any order.
        for isa in Isa::available() {
            prop_assert_eq!(&gemm_emulated(isa, size, a, b), &want);
        }
        if let Some(native) = gemm_native(Isa::current(), size, a, b) {
            prop_assert_eq!(&native, &want);
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
