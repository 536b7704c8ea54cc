//! From the spread of the state to bands one can believe. What the state does not explain is observation noise: a share of
//! a region's own variance in the scan that depends on how little the visible frames say about that time. Shares, a
//! temperature on the state's spread and the width of the bands are fitted on validation people.

use crate::error::EvalError;
use crate::interval::{LEVELS, normal_half_width};
use bdo_data::durable;
use bdo_model::autocorrelation::Autocorrelation;
use bdo_model::familiarity::Familiarity;
use bdo_model::intake::Masked;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::rows::{RowKind, Rows};
use bdo_model::posterior::spread::{Uncertainty, decoded_variance};
use bdo_train::evaluate::kriging_variance;
use serde::{Deserialize, Serialize};
use std::path::Path;

const FORMAT: &str = "bdo-calibration/1";
/// Points of the curve of shares.
const KNOTS: usize = 8;
/// A scan's own variance counts as many frames as it has, that of the population as this many.
const PRIOR_FRAMES: f64 = 10.0;
/// Temperatures tried; 0 leaves the state's spread out.
const TEMPERATURES: [f64; 12] = [0.0, 0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// No share below this: a band is never a line.
const LEAST_SHARE: f64 = 1e-3;

/// Rows whose ignorance is computed together, and visible frames to either side of them that count.
const BLOCK: usize = 64;
const AROUND: usize = 24;

/// How spreads become bands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    format: String,
    pub model_blake3: String,
    /// The cohort whose people it was fitted on.
    pub cohort_blake3: String,
    /// Scans it was fitted on.
    pub scans: usize,
    /// How the state's spread passes the decoder.
    pub uncertainty: Uncertainty,
    /// Multiplies the decoded variance of the state.
    pub temperature: f64,
    /// How little is known (0 to 1), increasing.
    pub unknown: Vec<f64>,
    /// Share of a region's variance that is noise there.
    pub share: Vec<f64>,
    /// Variance of each region over scans, in the units of the model.
    pub region_variance: Vec<f64>,
    /// Standard deviations the bands of 50, 80 and 95 % reach to either side.
    pub half_widths: [f64; 3],
    /// What scans the model knows.
    pub familiarity: Familiarity,
}

/// One prediction with what its spread may depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    pub row: usize,
    /// Prediction minus truth.
    pub error: f64,
    /// Decoded variance of the state.
    pub state_variance: f64,
    /// Variance of the region in the scan.
    pub region_variance: f64,
    /// How little the visible frames say.
    pub unknown: f64,
}

/// What the spread at each row and region depends on besides the state.
#[derive(Clone, Debug, PartialEq)]
pub struct Ignorance {
    /// For each row, 0 at a visible frame and 1 far from all.
    pub unknown: Vec<f64>,
    /// For each region, its variance in this scan, drawn towards that of the population.
    pub region_variance: Vec<f64>,
}

impl Ignorance {
    /// Of the rows of a scan. The nearest visible frames decide; farther ones are uncorrelated with any time they are
    /// asked about.
    pub fn of(rows: &Rows, population: &[f64], correlation: &Autocorrelation) -> Self {
        let visible: Vec<usize> = (0..rows.len()).filter(|&row| rows.is_visible(row)).collect();
        let times: Vec<f64> = visible.iter().map(|&row| rows.times_seconds[row]).collect();
        let mut unknown = vec![0.0; rows.len()];
        // Blocks of times with the visible frames around them, so that the cost grows with the length only.
        for start in (0..rows.len()).step_by(BLOCK) {
            let end = (start + BLOCK).min(rows.len());
            let from = times.partition_point(|t| *t < rows.times_seconds[start]).saturating_sub(AROUND);
            let to = (times.partition_point(|t| *t <= rows.times_seconds[end - 1]) + AROUND).min(times.len());
            let left = kriging_variance(&times[from..to], &rows.times_seconds[start..end], correlation);
            unknown[start..end].copy_from_slice(&left);
        }
        let regions = rows.regions();
        let n = visible.len() as f64;
        let variance = |region: usize| {
            if !rows.region_valid[region] {
                return population[region];
            }
            let value = |row: &usize| f64::from(rows.values[row * regions + region]);
            let mean = visible.iter().map(value).sum::<f64>() / n;
            let sum: f64 = visible.iter().map(|row| (value(row) - mean) * (value(row) - mean)).sum();
            (sum + PRIOR_FRAMES * population[region]) / (n + PRIOR_FRAMES)
        };
        Self { unknown, region_variance: (0..regions).map(variance).collect() }
    }
}

/// Mean variance of every region over the hidden and visible rows of visits; at least a little of the overall mean.
pub fn region_variances(visits: &[Masked]) -> Vec<f64> {
    let regions = visits.first().map_or(0, |v| v.region_valid.len());
    let (mut sums, mut counts) = (vec![0.0; regions], vec![0.0; regions]);
    for visit in visits {
        for row in visit.values.chunks_exact(regions) {
            for (region, x) in row.iter().enumerate().filter(|(r, _)| visit.region_valid[*r]) {
                sums[region] += f64::from(*x) * f64::from(*x);
                counts[region] += 1.0;
            }
        }
    }
    let overall = sums.iter().sum::<f64>() / counts.iter().sum::<f64>().max(1.0);
    let own = |(sum, count): (&f64, &f64)| if *count > 0.0 { (sum / count).max(1e-3 * overall) } else { overall };
    sums.iter().zip(&counts).map(own).collect()
}

/// Residuals at the hidden rows of a visit.
pub fn residuals(
    engine: &Engine<'_>,
    visit: &Masked,
    population: &[f64],
    correlation: &Autocorrelation,
    how: Uncertainty,
    seed: &[u64],
) -> Result<Vec<Residual>, EvalError> {
    let rows = Rows::of_masked(visit);
    let regions = rows.regions();
    let ignorance = Ignorance::of(&rows, population, correlation);
    let mut found = Vec::new();
    engine.infer(&rows, |piece| -> Result<(), EvalError> {
        let variance = decoded_variance(engine, &piece, how, seed);
        for (place, row) in piece.rows.clone().enumerate().filter(|(_, row)| rows.kinds[*row] == RowKind::Hidden) {
            for region in (0..regions).filter(|&r| rows.region_valid[r]) {
                let at = place * regions + region;
                found.push(Residual {
                    row,
                    error: f64::from(piece.decoded[at]) - f64::from(visit.values[row * regions + region]),
                    state_variance: f64::from(variance[at]),
                    region_variance: ignorance.region_variance[region],
                    unknown: ignorance.unknown[row],
                });
            }
        }
        Ok(())
    })?;
    Ok(found)
}

impl Calibration {
    /// Fits shares, temperature and bands; the temperature is the one under which the residuals are most likely.
    pub fn fit(
        model_blake3: String,
        cohort_blake3: String,
        scans: usize,
        uncertainty: Uncertainty,
        region_variance: Vec<f64>,
        residuals: &[Residual],
        familiarity: Familiarity,
    ) -> Self {
        let unknown = knots(residuals);
        let candidate = |temperature: f64| Self {
            format: FORMAT.to_owned(),
            model_blake3: model_blake3.clone(),
            cohort_blake3: cohort_blake3.clone(),
            scans,
            uncertainty,
            temperature,
            share: shares(residuals, &unknown, temperature),
            unknown: unknown.clone(),
            region_variance: region_variance.clone(),
            half_widths: LEVELS.map(normal_half_width),
            familiarity: familiarity.clone(),
        };
        let surprise = |fit: &Self| {
            let of = |r: &Residual| (r.error, fit.variance_of(r));
            residuals.iter().map(of).map(|(error, variance)| variance.ln() + error * error / variance).sum::<f64>()
        };
        let best = TEMPERATURES.map(candidate).into_iter().min_by(|a, b| surprise(a).total_cmp(&surprise(b)));
        let mut best = best.expect("several temperatures are tried");
        // Errors are not normal: the width of a band is where that share of the validation errors ends.
        let mut scaled: Vec<f64> = residuals.iter().map(|r| r.error.abs() / best.variance_of(r).sqrt()).collect();
        scaled.sort_by(f64::total_cmp);
        if !scaled.is_empty() {
            best.half_widths =
                LEVELS.map(|level| scaled[((scaled.len() as f64 * level) as usize).min(scaled.len() - 1)]);
        }
        best
    }

    /// Variance of what would be measured.
    pub fn variance(&self, state_variance: f64, region_variance: f64, unknown: f64) -> f64 {
        let [before, after] = around(&self.unknown, unknown);
        let share = if before == after {
            self.share[before]
        } else {
            let part = (unknown - self.unknown[before]) / (self.unknown[after] - self.unknown[before]);
            self.share[before] * (1.0 - part) + self.share[after] * part
        };
        (self.temperature * state_variance + share * region_variance).max(f64::MIN_POSITIVE)
    }

    /// That of a prediction.
    pub(super) fn variance_of(&self, r: &Residual) -> f64 {
        self.variance(r.state_variance, r.region_variance, r.unknown)
    }

    pub fn write(&self, path: &Path) -> Result<(), EvalError> {
        Ok(durable::write_json(path, self)?)
    }

    /// Reads a calibration, which must be of this model.
    pub fn read(path: &Path, model_blake3: &str, regions: usize) -> Result<Self, EvalError> {
        let refused = |expected: &str, found: String| EvalError::refused(path, expected, found);
        let found: Self = serde_json::from_slice(&durable::read(path)?)
            .map_err(|error| refused("a calibration (bdo infer calibrate)", error.to_string()))?;
        if found.format != FORMAT {
            return Err(refused(FORMAT, found.format));
        }
        if found.model_blake3 != model_blake3 {
            return Err(refused(
                &format!("a calibration of the model {model_blake3}"),
                format!("one of {}", found.model_blake3),
            ));
        }
        if found.region_variance.len() != regions {
            return Err(refused(&format!("{regions} regions"), found.region_variance.len().to_string()));
        }
        let finite = found.unknown.iter().chain(&found.share).chain(&found.region_variance).chain(&found.half_widths);
        if found.unknown.len() != found.share.len() || found.share.is_empty() || !finite.clone().all(|x| x.is_finite())
        {
            return Err(refused("finite numbers, one share for each knot", "others".to_owned()));
        }
        Ok(found)
    }
}

/// Quantiles of how little is known, each once.
fn knots(residuals: &[Residual]) -> Vec<f64> {
    let mut all: Vec<f64> = residuals.iter().map(|r| r.unknown).collect();
    all.sort_by(f64::total_cmp);
    if all.is_empty() {
        return vec![0.5];
    }
    let quantile = |i: usize| all[((all.len() - 1) as f64 * (i as f64 + 0.5) / KNOTS as f64) as usize];
    let mut knots: Vec<f64> = (0..KNOTS).map(quantile).collect();
    knots.dedup_by(|b, a| (*b - *a).abs() < 1e-6);
    knots
}

/// The knots to either side of a value; twice the same one beyond the ends.
fn around(knots: &[f64], value: f64) -> [usize; 2] {
    let after = knots.partition_point(|knot| *knot <= value);
    [after.saturating_sub(1), after.min(knots.len() - 1)]
}

/// What is left of the squared errors at each knot, as a share of the regions' variances.
fn shares(residuals: &[Residual], knots: &[f64], temperature: f64) -> Vec<f64> {
    let (mut left, mut whole) = (vec![0.0; knots.len()], vec![0.0; knots.len()]);
    for r in residuals {
        // To the nearer knot.
        let [before, after] = around(knots, r.unknown);
        let knot = if r.unknown - knots[before] < knots[after] - r.unknown { before } else { after };
        left[knot] += r.error * r.error - temperature * r.state_variance;
        whole[knot] += r.region_variance;
    }
    left.iter().zip(&whole).map(|(l, w)| if *w > 0.0 { (l / w).max(LEAST_SHARE) } else { 1.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_data::random::stream;
    use bdo_model::noise::fill_normal;

    #[test]
    fn known_noise_is_found_again() {
        // Errors of variance 0.5 v_state + (0.2 + 0.6 u) v_region, v_state varying.
        let mut normal = vec![0.0f32; 200_000];
        fill_normal(&mut stream("calibration test", &[1]), &mut normal);
        let residual = |(i, e): (usize, &f32)| {
            let unknown = (i % 100) as f64 / 100.0;
            let (state_variance, region_variance) = (0.2 + (i % 7) as f64 / 2.0, 1.0 + (i % 3) as f64);
            let variance = 0.6 * state_variance + (0.2 + 0.6 * unknown) * region_variance;
            Residual { row: 0, error: f64::from(*e) * variance.sqrt(), state_variance, region_variance, unknown }
        };
        let residuals: Vec<Residual> = normal.iter().enumerate().map(residual).collect();
        let how = Uncertainty::Linearised;
        let fit = Calibration::fit(String::new(), String::new(), 1, how, vec![1.0], &residuals, Familiarity::default());
        assert_eq!(fit.temperature, 0.6);
        for (unknown, share) in fit.unknown.iter().zip(&fit.share) {
            // 25,000 errors a knot: a relative standard error of the variance of 1 %.
            assert!((share - (0.2 + 0.6 * unknown)).abs() < 0.05, "{unknown} {share}");
        }
        assert!((fit.half_widths[2] - 1.96).abs() < 0.03, "{:?}", fit.half_widths);
    }
}
