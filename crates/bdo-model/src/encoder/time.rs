//! The sinusoidal code of a time stamp.

use rayon::prelude::{IndexedParallelIterator, ParallelIterator, ParallelSlice, ParallelSliceMut};

/// `count` times -> row-major [count, width]: sines of s / 10000^(2k/width) at even, cosines at odd components.
/// Angles are computed in double precision; only the result is rounded.
pub fn time_code(times: &[f64], width: usize) -> Vec<f32> {
    const ROWS: usize = 64;
    let frequencies: Vec<f64> = (0..width / 2).map(|k| 10000f64.powf(-((2 * k) as f64) / width as f64)).collect();
    let mut code = vec![0f32; times.len() * width];
    code.par_chunks_mut(ROWS * width).zip(times.par_chunks(ROWS)).for_each(|(rows, times)| {
        for (row, &time) in rows.chunks_exact_mut(width).zip(times) {
            for (pair, &frequency) in row.chunks_exact_mut(2).zip(&frequencies) {
                let (sin, cos) = (time * frequency).sin_cos();
                pair[0] = sin as f32;
                pair[1] = cos as f32;
            }
        }
    });
    code
}
