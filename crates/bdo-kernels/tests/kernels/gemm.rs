use crate::check::Values;
use bdo_kernels::Isa;
use bdo_kernels::gemm::{Matrix, Product, gemm};
use bdo_kernels::reference;
use proptest::prelude::*;

/// The standard bound of a sum of `depth` rounded products, against the sum of their magnitudes.
fn check(isa: Isa, size: Product, transposed: (bool, bool), seed: u64) {
    let mut values = Values::new(seed);
    let (a, b) = (values.vec(size.rows * size.depth), values.vec(size.depth * size.columns));
    let abs = |x: &[f32]| x.iter().map(|v| v.abs()).collect::<Vec<f32>>();
    let (abs_a, abs_b) = (abs(&a), abs(&b));
    let left = |a| if transposed.0 { Matrix::transposed(a, size.rows) } else { Matrix::row_major(a, size.depth) };
    let right = |b| if transposed.1 { Matrix::transposed(b, size.depth) } else { Matrix::row_major(b, size.columns) };
    let want = reference::gemm(size, left(&a), right(&b));
    let magnitude = reference::gemm(size, left(&abs_a), right(&abs_b));
    // Whatever stood there is gone.
    let mut c = vec![f32::NAN; size.rows * size.columns];
    gemm(isa, size, left(&a), right(&b), &mut c);
    for i in 0..c.len() {
        let want = f64::from(want[i]);
        let bound = (size.depth as f64 + 4.0) * f64::from(f32::EPSILON) * f64::from(magnitude[i]);
        assert!((f64::from(c[i]) - want).abs() <= bound, "{isa} {size:?} {transposed:?} [{i}]: {} for {want}", c[i]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn agrees_with_three_loops(
        rows in 0usize..70, depth in 0usize..70, columns in 0usize..110, ta: bool, tb: bool, seed: u64,
    ) {
        for isa in Isa::available() {
            check(isa, Product { rows, depth, columns }, (ta, tb), seed);
        }
    }
}

#[test]
fn agrees_over_several_passes_and_tasks() {
    for isa in Isa::available() {
        for (rows, depth, columns) in [(200, 700, 130), (97, 321, 49), (1, 1000, 1), (385, 3, 97), (13, 641, 300)] {
            for transposed in [(false, false), (true, false), (false, true), (true, true)] {
                check(isa, Product { rows, depth, columns }, transposed, 7);
            }
        }
    }
}

/// A product of 3 x 4 with 4 x 1 from and into slices of these lengths.
fn of_lengths(a: usize, c: usize) {
    let size = Product { rows: 3, depth: 4, columns: 1 };
    let (a, b) = (vec![0.0; a], [0.0; 4]);
    gemm(Isa::Portable, size, Matrix::row_major(&a, 4), Matrix::row_major(&b, 1), &mut vec![0.0; c]);
}

#[test]
#[should_panic(expected = "A: 3 x 4 with these strides needs 12 values, found 11")]
fn short_operand_is_refused() {
    of_lengths(11, 3);
}

#[test]
#[should_panic(expected = "C: expected 3 values, found 2")]
fn short_result_is_refused() {
    of_lengths(12, 2);
}
