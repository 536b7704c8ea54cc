//! Functional connectivity: correlations of region series over time.

/// Pearson correlation of every pair of columns of a row-major `[frames, regions]` series; 0 where a column is constant.
pub fn pearson(series: &[f32], regions: usize) -> Vec<f32> {
    let frames = series.len().checked_div(regions).unwrap_or(0);
    // Columns become contiguous unit vectors, so that every correlation is one dot product.
    let mut columns = vec![0.0f64; regions * frames];
    for r in 0..regions {
        let column = &mut columns[r * frames..][..frames];
        for (t, x) in column.iter_mut().enumerate() {
            *x = f64::from(series[t * regions + r]);
        }
        let mean = column.iter().sum::<f64>() / frames.max(1) as f64;
        column.iter_mut().for_each(|x| *x -= mean);
        let norm = column.iter().map(|x| x * x).sum::<f64>().sqrt();
        let scale = if norm > 0.0 && norm.is_finite() { 1.0 / norm } else { 0.0 };
        column.iter_mut().for_each(|x| *x = if scale == 0.0 { 0.0 } else { *x * scale });
    }
    let mut out = vec![0.0f32; regions * regions];
    for i in 0..regions {
        for j in 0..=i {
            let (a, b) = (&columns[i * frames..][..frames], &columns[j * frames..][..frames]);
            let r = a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>() as f32;
            out[i * regions + j] = r;
            out[j * regions + i] = r;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_of_known_series() {
        // Columns: a ramp, its negative, a series uncorrelated with both, a constant.
        let series: Vec<f32> = [[1.0, -1.0, 1.0, 5.0], [2.0, -2.0, -2.0, 5.0], [3.0, -3.0, 1.0, 5.0]].concat();
        let r = pearson(&series, 4);
        let expected = [1.0, -1.0, 0.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for (i, (a, b)) in r.iter().zip(expected).enumerate() {
            assert!((a - b).abs() < 1e-6, "{i}: {a} against {b}");
        }
    }
}
