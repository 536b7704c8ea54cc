//! Cleaning of region series, as `signal.clean` of nilearn 0.14 does it (the reference in the tests), in this order:
//!
//! 1. censored frames are taken out of series and confounds; with a band-pass, which needs even spacing, they are bridged by a
//!    cubic spline for the filter only, and frames before the first or after the last kept one are cut off;
//! 2. a straight line is taken out of series and confounds, if asked for;
//! 3. the Butterworth band-pass, forwards and backwards, over series and confounds, and the bridges are taken out again;
//! 4. confounds are scaled to unit variance and their span is projected out.
//!
//! The output is neither centred (beyond what the steps do) nor scaled, and it holds no interpolated frame: a censored frame is
//! absent and the true times of the others say so. The line of step 2 is fitted over the kept frames' order, as in nilearn.
//! A region without signal (NaN) passes through.

mod butterworth;
mod spline;

pub use butterworth::Band;

use butterworth::Filter;
use spline::bridged;

use crate::confound::Confounds;
use crate::problem::{Problem, ensure};

#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cleaning {
    pub detrend: bool,
    /// The frequencies that stay; off in the paper.
    pub band_pass: Option<Band>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CleanSeries {
    /// Row-major `[kept frames, regions]`.
    pub series: Vec<f32>,
    /// The frames that were kept, as numbers of the given series' rows.
    pub kept: Vec<usize>,
    /// Degrees of freedom that are left, where confounds or a filter have taken some.
    pub degrees_of_freedom: Option<usize>,
}

/// Cleans a row-major `[frames, regions]` series sampled every `tr_seconds`.
pub fn clean(
    series: &[f32],
    regions: usize,
    tr_seconds: f64,
    confounds: Option<&Confounds>,
    cleaning: &Cleaning,
) -> Result<CleanSeries, Problem> {
    let frames = series.len().checked_div(regions).unwrap_or(0);
    if let Some(c) = confounds.filter(|c| c.frames != frames) {
        return Err(Problem::new("confounds", format!("{frames} frames as in the series"), c.frames));
    }
    let kept: Vec<usize> = confounds.and_then(|c| c.kept.clone()).unwrap_or_else(|| (0..frames).collect());
    ensure(kept.len() >= 2, "frames left after censoring", "at least 2", format_args!("{} of {frames}", kept.len()))?;
    let mut columns = columns_of(series, regions, frames);
    let mut nuisance = confounds.map(|c| c.columns.clone()).unwrap_or_default();
    let everything = columns.iter_mut().flatten().chain(nuisance.iter_mut());
    let filter = cleaning.band_pass.map(|band| Filter::design(band, tr_seconds)).transpose()?;
    for column in everything {
        *column = match filter {
            Some(_) => bridged(column, &kept),
            None => kept.iter().map(|t| column[*t]).collect(),
        };
        if cleaning.detrend {
            linear(column);
        }
        if let Some(filter) = &filter {
            let filtered = filter.forwards_and_backwards(column)?;
            *column = kept.iter().map(|t| filtered[t - kept[0]]).collect();
        }
    }
    let regressed = nuisance.len();
    let mut taken = usize::from(cleaning.detrend);
    if regressed > 0 {
        taken += project_out(&mut columns, nuisance, kept.len())?;
    }
    // A filter leaves the share of the spectrum that it lets through; otherwise the mean takes one.
    let passed = match cleaning.band_pass {
        Some(band) => (kept.len() as f64 * band.share(tr_seconds)) as usize,
        None => kept.len() - 1,
    };
    let is_less = regressed > 0 || cleaning.band_pass.is_some();
    let degrees_of_freedom = is_less.then(|| passed.saturating_sub(taken));
    let mut cleaned = vec![f32::NAN; kept.len() * regions];
    for (r, column) in columns.iter().enumerate() {
        for (t, x) in column.iter().flatten().enumerate() {
            cleaned[t * regions + r] = *x as f32;
        }
    }
    Ok(CleanSeries { series: cleaned, kept, degrees_of_freedom })
}

/// One vector a region; `None` where any frame is missing.
fn columns_of(series: &[f32], regions: usize, frames: usize) -> Vec<Option<Vec<f64>>> {
    let column = |r: usize| {
        let values: Vec<f64> = (0..frames).map(|t| f64::from(series[t * regions + r])).collect();
        values.iter().all(|x| x.is_finite()).then_some(values)
    };
    (0..regions).map(column).collect()
}

/// Takes out the mean and the linear trend over the order of the frames.
fn linear(column: &mut [f64]) {
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

/// Below this a direction is rounding, not a confound (nilearn: 100 times the machine precision).
const SMALLEST_DIRECTION: f64 = f64::EPSILON * 100.0;

/// Subtracts from every column its projection on the span of the confounds; returns the dimension of that span.
fn project_out(columns: &mut [Option<Vec<f64>>], confounds: Vec<Vec<f64>>, frames: usize) -> Result<usize, Problem> {
    let basis = orthonormal(standardised(confounds));
    let expected = format_args!("more kept frames than the {} independent confounds, and a mean", basis.len());
    ensure(basis.len() + 2 <= frames, "degrees of freedom", expected, frames)?;
    for column in columns.iter_mut().flatten() {
        // All inner products first, then one subtraction: the same as the product with Q Q'.
        let shares: Vec<f64> = basis.iter().map(|q| dot(q, column)).collect();
        for (q, share) in basis.iter().zip(&shares) {
            for (x, q) in column.iter_mut().zip(q) {
                *x -= share * q;
            }
        }
    }
    Ok(basis.len())
}

/// Zero mean and unit sample variance; a constant confound becomes zero.
fn standardised(mut confounds: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for column in &mut confounds {
        let n = column.len() as f64;
        let mean = column.iter().sum::<f64>() / n;
        let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let deviation = if variance.sqrt() < f64::EPSILON { 1.0 } else { variance.sqrt() };
        for x in column {
            *x = (*x - mean) / deviation;
        }
    }
    confounds
}

/// An orthonormal basis of the span, largest remaining direction first; each is orthogonalised twice against those before.
fn orthonormal(mut columns: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = vec![];
    let largest = columns.iter().map(|c| norm(c)).fold(0.0, f64::max);
    let size = columns.len().max(columns.first().map_or(0, Vec::len)) as f64;
    let smallest = SMALLEST_DIRECTION.max(largest * size * f64::EPSILON);
    while let Some((i, length)) = columns.iter().map(|c| norm(c)).enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) {
        if length <= smallest {
            break;
        }
        let mut next = columns.swap_remove(i);
        for q in &basis {
            take_out(&mut next, q);
        }
        let length = norm(&next);
        if length <= smallest {
            continue;
        }
        for x in &mut next {
            *x /= length;
        }
        for column in &mut columns {
            take_out(column, &next);
        }
        basis.push(next);
    }
    basis
}

fn take_out(column: &mut [f64], direction: &[f64]) {
    let share = dot(column, direction);
    column.iter_mut().zip(direction).for_each(|(x, q)| *x -= share * q);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}
