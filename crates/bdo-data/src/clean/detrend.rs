//! The straight line through a series.

/// Takes out the mean and the linear trend over the order of the frames.
pub(super) fn linear(column: &mut [f64]) {
    let n = column.len() as f64;
    let mean = column.iter().sum::<f64>() / n;
    let centre = (n - 1.0) / 2.0;
    let (mut slope, mut square) = (0.0, 0.0);
    for (t, x) in column.iter().enumerate() {
        let at = t as f64 - centre;
        slope += at * (x - mean);
        square += at * at;
    }
    let slope = if square > 0.0 { slope / square } else { 0.0 };
    for (t, x) in column.iter_mut().enumerate() {
        *x -= mean + slope * (t as f64 - centre);
    }
}
