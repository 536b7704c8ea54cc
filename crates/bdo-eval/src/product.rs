//! Sums of products in an order that depends on nothing but the length.

/// Eight sums side by side, so that the compiler can use vectors, then their sum.
pub fn dot<T: Copy + Into<f64>>(a: &[f64], b: &[T]) -> f64 {
    let mut sums = [0.0; 8];
    let (x, y) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = x.remainder().iter().zip(y.remainder()).map(|(a, b)| a * (*b).into()).sum();
    for (x, y) in x.zip(y) {
        for k in 0..8 {
            sums[k] += x[k] * y[k].into();
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Adds a multiple of `x`.
pub fn add_scaled<T: Copy + Into<f64>>(out: &mut [f64], by: f64, x: &[T]) {
    out.iter_mut().zip(x).for_each(|(o, x)| *o += by * (*x).into());
}
