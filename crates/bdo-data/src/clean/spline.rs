//! Bridges over censored frames, for the band-pass only.

/// Every frame from the first kept one to the last, the censored ones in between taken from a cubic spline through the kept
/// ones, with the not-a-knot condition at both ends.
pub(super) fn bridged(column: &[f64], kept: &[usize]) -> Vec<f64> {
    let (first, last) = (kept[0], kept[kept.len() - 1]);
    if last - first + 1 == kept.len() {
        return column[first..=last].to_vec();
    }
    let knots: Vec<f64> = kept.iter().map(|t| *t as f64).collect();
    let values: Vec<f64> = kept.iter().map(|t| column[*t]).collect();
    let slopes = slopes(&knots, &values);
    let mut out = Vec::with_capacity(last - first + 1);
    for k in 0..kept.len() - 1 {
        out.push(values[k]);
        let step = knots[k + 1] - knots[k];
        for t in kept[k] + 1..kept[k + 1] {
            let u = (t as f64 - knots[k]) / step;
            let (v, w) = (1.0 - u, u * (1.0 - u));
            out.push(
                values[k] * v * v * (1.0 + 2.0 * u)
                    + values[k + 1] * u * u * (3.0 - 2.0 * u)
                    + step * w * (slopes[k] * v - slopes[k + 1] * u),
            );
        }
    }
    out.push(values[values.len() - 1]);
    out
}

/// Slopes at the knots: continuous second derivatives inside, a continuous third one at the second and last but one knot.
fn slopes(x: &[f64], y: &[f64]) -> Vec<f64> {
    let n = x.len();
    let step: Vec<f64> = x.windows(2).map(|w| w[1] - w[0]).collect();
    let rise: Vec<f64> = y.windows(2).zip(&step).map(|(w, h)| (w[1] - w[0]) / h).collect();
    match n {
        2 => return vec![rise[0]; 2],
        3 => {
            // Both conditions fall together; what is left is the parabola through three points.
            let bend = (rise[1] - rise[0]) / (step[0] + step[1]);
            return vec![rise[0] - bend * step[0], rise[0] + bend * step[0], rise[1] + bend * step[1]];
        }
        _ => {}
    }
    let (mut lower, mut diagonal, mut upper, mut right) = (vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let end = |near: usize, far: usize| {
        let both = step[near] + step[far];
        let r = ((step[near] + 2.0 * both) * step[far] * rise[near] + step[near].powi(2) * rise[far]) / both;
        (step[far], both, r)
    };
    (diagonal[0], upper[0], right[0]) = end(0, 1);
    (diagonal[n - 1], lower[n - 1], right[n - 1]) = end(n - 2, n - 3);
    for i in 1..n - 1 {
        lower[i] = step[i];
        diagonal[i] = 2.0 * (step[i - 1] + step[i]);
        upper[i] = step[i - 1];
        right[i] = 3.0 * (step[i] * rise[i - 1] + step[i - 1] * rise[i]);
    }
    for i in 1..n {
        let factor = lower[i] / diagonal[i - 1];
        diagonal[i] -= factor * upper[i - 1];
        right[i] -= factor * right[i - 1];
    }
    right[n - 1] /= diagonal[n - 1];
    for i in (0..n - 1).rev() {
        right[i] = (right[i] - upper[i] * right[i + 1]) / diagonal[i];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubic_is_bridged_exactly() {
        let cubic = |t: usize| (t as f64).powi(3) - 7.0 * (t as f64).powi(2) + 3.0;
        let truth: Vec<f64> = (0..12).map(cubic).collect();
        let mut broken = truth.clone();
        for t in [0, 4, 5, 8] {
            broken[t] = 1e6;
        }
        let found = bridged(&broken, &[1, 2, 3, 6, 7, 9, 10, 11]);
        for (a, b) in found.iter().zip(&truth[1..]) {
            assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{a} {b}");
        }
    }
}
