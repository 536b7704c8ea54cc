//! The sinusoidal code of a time stamp.

use std::collections::HashMap;

/// `count` times -> row-major [count, width]: sines of s / 10000^(2k/width) at even, cosines at odd components.
/// Angles are computed in double precision; only the result is rounded. Scans of one repetition time share their frames' times,
/// so each time is worked out once.
pub fn time_code(times: &[f64], width: usize) -> Vec<f32> {
    let frequencies: Vec<f64> = (0..width / 2).map(|k| 10000f64.powf(-((2 * k) as f64) / width as f64)).collect();
    let mut code = vec![0f32; times.len() * width];
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for (row, &time) in times.iter().enumerate() {
        let first = *seen.entry(time.to_bits()).or_insert(row);
        if first < row {
            code.copy_within(first * width..(first + 1) * width, row * width);
            continue;
        }
        for (pair, &frequency) in code[row * width..(row + 1) * width].chunks_exact_mut(2).zip(&frequencies) {
            let (sin, cos) = (time * frequency).sin_cos();
            pair[0] = sin as f32;
            pair[1] = cos as f32;
        }
    }
    code
}

/// Shortest and longest time in which a gap's code falls to 1/e.
const GAP_SECONDS: [f64; 2] = [0.5, 32.0];

/// Writes how far the frames before and after are over the last quarter of a code [times, width]: `2 exp(-gap / s) - 1` for
/// several s, the gap before in the first half of it and the gap after in the second. Where there is no neighbour the
/// gap is endless. The times are one sample's, increasing.
pub fn write_gaps(code: &mut [f32], times_seconds: &[f64], width: usize) {
    let each = width / 8;
    let step = (GAP_SECONDS[1] / GAP_SECONDS[0]).powf(1.0 / (each.max(2) - 1) as f64);
    for (i, row) in code.chunks_exact_mut(width).enumerate().take(times_seconds.len()) {
        let before = if i > 0 { times_seconds[i] - times_seconds[i - 1] } else { f64::INFINITY };
        let after = times_seconds.get(i + 1).map_or(f64::INFINITY, |next| next - times_seconds[i]);
        let (first, second) = row[width - 2 * each..].split_at_mut(each);
        for (part, gap) in [(first, before), (second, after)] {
            let mut seconds = GAP_SECONDS[0];
            for x in part {
                *x = (2.0 * (-gap / seconds).exp() - 1.0) as f32;
                seconds *= step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_told_on_both_sides_and_nothing_else_changes() {
        let (width, times) = (32, [0.0, 2.0, 3.0]);
        let plain = time_code(&times, width);
        let mut code = plain.clone();
        write_gaps(&mut code, &times, width);
        for (row, (gap_before, gap_after)) in
            [(f64::INFINITY, 2.0), (2.0, 1.0), (1.0, f64::INFINITY)].iter().enumerate()
        {
            let at = row * width;
            assert_eq!(code[at..at + 24], plain[at..at + 24]);
            for (part, gap) in [(24, gap_before), (28, gap_after)] {
                let expected = [0.5, 2.0, 8.0, 32.0].map(|s: f64| (2.0 * (-gap / s).exp() - 1.0) as f32);
                for (found, expected) in code[at + part..at + part + 4].iter().zip(expected) {
                    assert!((found - expected).abs() < 1e-6, "{row} {part}: {found} {expected}");
                }
            }
        }
    }
}
