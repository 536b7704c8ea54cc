//! The slow twin: three loops in double precision.

use super::{Matrix, Product};

/// `alpha A B`, row-major, accumulated in `f64`.
pub fn gemm(size: Product, alpha: f32, a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    let mut c = Vec::with_capacity(size.rows * size.columns);
    for i in 0..size.rows {
        for j in 0..size.columns {
            let mut sum = 0.0f64;
            for p in 0..size.depth {
                let left = a.data[i * a.row_stride + p * a.column_stride];
                let right = b.data[p * b.row_stride + j * b.column_stride];
                sum += f64::from(left) * f64::from(right);
            }
            c.push((f64::from(alpha) * sum) as f32);
        }
    }
    c
}
