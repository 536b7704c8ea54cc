use crate::check::Values;
use bdo_kernels::Isa;
use bdo_kernels::gemm::{Matrix, Product, gemm, reference};
use proptest::prelude::*;

/// The standard bound of a sum of `depth` rounded products, against the sum of their magnitudes.
fn check(isa: Isa, size: Product, transposed: (bool, bool), alpha: f32, accumulate: bool, seed: u64) {
    let mut values = Values::new(seed);
    let (a, b) = (values.vec(size.rows * size.depth), values.vec(size.depth * size.columns));
    let before = values.vec(size.rows * size.columns);
    let abs = |x: &[f32]| x.iter().map(|v| v.abs()).collect::<Vec<f32>>();
    let (abs_a, abs_b) = (abs(&a), abs(&b));
    let left = |a| if transposed.0 { Matrix::transposed(a, size.rows) } else { Matrix::row_major(a, size.depth) };
    let right = |b| if transposed.1 { Matrix::transposed(b, size.depth) } else { Matrix::row_major(b, size.columns) };
    let want = reference::gemm(size, alpha, left(&a), right(&b));
    let magnitude = reference::gemm(size, alpha.abs(), left(&abs_a), right(&abs_b));
    let mut c = before.clone();
    gemm(isa, size, alpha, left(&a), right(&b), &mut c, accumulate);
    for i in 0..c.len() {
        let want = f64::from(want[i]) + if accumulate { f64::from(before[i]) } else { 0.0 };
        let sum = f64::from(magnitude[i]) + f64::from(before[i].abs());
        let bound = (size.depth as f64 + 4.0) * f64::from(f32::EPSILON) * sum;
        assert!((f64::from(c[i]) - want).abs() <= bound, "{isa} {size:?} {transposed:?} [{i}]: {} for {want}", c[i]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn agrees_with_three_loops(
        rows in 0usize..70, depth in 0usize..70, columns in 0usize..110,
        ta: bool, tb: bool, accumulate: bool, alpha in prop::sample::select(vec![1.0f32, -0.5]), seed: u64,
    ) {
        for isa in Isa::available() {
            check(isa, Product { rows, depth, columns }, (ta, tb), alpha, accumulate, seed);
        }
    }
}

#[test]
fn agrees_over_several_passes_and_tasks() {
    for isa in Isa::available() {
        for (rows, depth, columns) in [(200, 700, 130), (97, 321, 49), (1, 1000, 1), (385, 3, 97), (13, 641, 300)] {
            for transposed in [(false, false), (true, false), (false, true), (true, true)] {
                check(isa, Product { rows, depth, columns }, transposed, 1.0, false, 7);
            }
        }
    }
}

#[test]
fn strides_beyond_the_rows_are_honoured() {
    for isa in Isa::available() {
        let data = Values::new(3).vec(400);
        let size = Product { rows: 7, depth: 5, columns: 9 };
        let (a, b) = (Matrix::strided(&data, 23, 2), Matrix::strided(&data, 31, 3));
        let mut c = vec![0.0; 63];
        gemm(isa, size, 1.0, a, b, &mut c, false);
        for (got, want) in c.iter().zip(reference::gemm(size, 1.0, a, b)) {
            assert!((got - want).abs() < 1e-5);
        }
    }
}

#[test]
#[should_panic(expected = "A: 3 x 4 with these strides needs 12 values, found 11")]
fn short_operand_is_refused() {
    let size = Product { rows: 3, depth: 4, columns: 1 };
    gemm(
        Isa::Portable,
        size,
        1.0,
        Matrix::row_major(&[0.0; 11], 4),
        Matrix::row_major(&[0.0; 4], 1),
        &mut [0.0; 3],
        false,
    );
}

#[test]
#[should_panic(expected = "C: expected 3 x 1 values, found 2")]
fn short_result_is_refused() {
    let size = Product { rows: 3, depth: 4, columns: 1 };
    gemm(
        Isa::Portable,
        size,
        1.0,
        Matrix::row_major(&[0.0; 12], 4),
        Matrix::row_major(&[0.0; 4], 1),
        &mut [0.0; 2],
        false,
    );
}
