//! The haemodynamic response.

use super::constants::CONSTANTS;
use super::elementary::exp;

/// Weights of the state at lags 0, h, 2h, ...: a double gamma whose time axis is stretched by `scale`, of unit sum.
///
/// The canonical shape: t⁵e⁻ᵗ/5! minus a share of t¹⁵e⁻ᵗ/15!.
pub(super) fn response(scale: f64, step_seconds: f64) -> Vec<f64> {
    let taps = (CONSTANTS.hrf_length * scale / step_seconds).ceil() as usize + 1;
    let mut weights: Vec<f64> = (0..taps)
        .map(|tap| {
            let t = tap as f64 * step_seconds / scale;
            gamma_density(t, 5) - CONSTANTS.hrf_undershoot * gamma_density(t, 15)
        })
        .collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    weights
}

/// tᵏ e⁻ᵗ / k!, multiplied up one factor at a time so that nothing overflows.
fn gamma_density(t: f64, k: u32) -> f64 {
    (1..=k).fold(exp(-t), |product, i| product * t / f64::from(i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_at_five_scaled_seconds_and_undershoots_later() {
        let step = 0.05;
        let weights = response(1.0, step);
        let peak = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
        assert!((peak as f64 * step - 5.0).abs() < 0.1, "peak at {}", peak as f64 * step);
        let trough = (0..weights.len()).min_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
        assert!((12.0..18.0).contains(&(trough as f64 * step)) && weights[trough] < 0.0);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
