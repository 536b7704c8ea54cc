//! `ComBat`: the mean and spread of each site brought to those of all, with empirical-Bayes shrinkage over features.
//!
//! Fitted on training people and applied to anybody: nobody who is harmonised later changes what others become. Johnson, Li and
//! Rabinovic (2007) with the parametric priors, without covariates.

use std::collections::BTreeMap;

use crate::features::Features;
use crate::product::add_scaled;

/// Relative change at which the alternating estimates of a site have settled.
const SETTLED: f64 = 1e-10;
/// Rounds of them at most; a handful is usual.
const MOST_ROUNDS: usize = 1000;

/// Location and scale of a site, per feature, against the standardised grand statistics.
#[derive(Debug, Clone, PartialEq)]
struct SiteEffect {
    shift: Vec<f64>,
    scale: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FittedCombat {
    sites: BTreeMap<String, SiteEffect>,
    grand_mean: Vec<f64>,
    /// Residual spread; 0 marks a feature without any, which is left as it is.
    spread: Vec<f64>,
}

impl FittedCombat {
    /// Fits on some rows; `sites` go with `rows`. A missing value counts as its column's mean.
    pub fn fit(features: &Features, rows: &[usize], sites: &[&str]) -> Self {
        let (n, width) = (rows.len(), features.width());
        let means: Vec<f64> = (0..width).map(|j| known_mean(rows.iter().map(|i| features.row(*i)[j]))).collect();
        let filled = |row: &usize| -> Vec<f64> {
            features.row(*row).iter().zip(&means).map(|(x, mean)| if x.is_nan() { *mean } else { *x }).collect()
        };
        let values: Vec<Vec<f64>> = rows.iter().map(filled).collect();
        let mut members: BTreeMap<&str, Vec<&Vec<f64>>> = BTreeMap::new();
        sites.iter().zip(&values).for_each(|(site, row)| members.entry(site).or_default().push(row));
        let mut grand_mean = vec![0.0; width];
        let mut site_means: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (site, of_site) in &members {
            let mut sums = vec![0.0; width];
            of_site.iter().for_each(|row| add_scaled(&mut sums, 1.0, row));
            sums.iter_mut().for_each(|sum| *sum *= 1.0 / of_site.len() as f64);
            add_scaled(&mut grand_mean, of_site.len() as f64 / n as f64, &sums);
            site_means.insert(site, sums);
        }
        let mut squares = vec![0.0; width];
        for (site, row) in sites.iter().zip(&values) {
            for ((square, x), mean) in squares.iter_mut().zip(row).zip(&site_means[site]) {
                *square += (x - mean).powi(2);
            }
        }
        let tiny = |j: usize| 1e-12 * means[j].abs().max(grand_mean[j].abs());
        let spread = |j: usize| (squares[j] / n.max(1) as f64).sqrt();
        let spread: Vec<f64> = (0..width).map(|j| if spread(j) > tiny(j) { spread(j) } else { 0.0 }).collect();
        let usable: Vec<usize> = (0..width).filter(|j| spread[*j] > 0.0).collect();
        let mut fitted = Self { sites: BTreeMap::new(), grand_mean, spread };
        for (site, of_site) in members {
            let standardised = |row: &&Vec<f64>| (0..width).map(|j| fitted.standardised(row[j], j)).collect();
            let rows: Vec<Vec<f64>> = of_site.iter().map(standardised).collect();
            fitted.sites.insert(site.to_owned(), shrunk(&rows, &usable, width));
        }
        fitted
    }

    /// Harmonises some rows, in their order; a missing value stays missing. A site that nothing is known about is taken as an
    /// average one: it keeps the location and scale it has against the grand statistics.
    pub fn apply(&self, features: &Features, rows: &[usize], sites: &[&str]) -> Vec<f64> {
        let mut out = Vec::with_capacity(rows.len() * features.width());
        for (&i, site) in rows.iter().zip(sites) {
            let effect = self.sites.get(*site);
            out.extend(features.row(i).iter().enumerate().map(|(j, &x)| match effect {
                Some(effect) if self.spread[j] > 0.0 => {
                    let z = (self.standardised(x, j) - effect.shift[j]) / effect.scale[j].sqrt();
                    z * self.spread[j] + self.grand_mean[j]
                }
                _ => x,
            }));
        }
        out
    }

    fn standardised(&self, x: f64, j: usize) -> f64 {
        if self.spread[j] > 0.0 { (x - self.grand_mean[j]) / self.spread[j] } else { 0.0 }
    }
}

/// A site's shift and squared scale of every feature, drawn towards their usual values over features.
fn shrunk(rows: &[Vec<f64>], usable: &[usize], width: usize) -> SiteEffect {
    let n = rows.len() as f64;
    let mut effect = SiteEffect { shift: vec![0.0; width], scale: vec![1.0; width] };
    if usable.is_empty() {
        return effect;
    }
    let mean = |j: usize| rows.iter().map(|r| r[j]).sum::<f64>() / n;
    let raw_shift: Vec<f64> = usable.iter().map(|&j| mean(j)).collect();
    let around = |j: usize, centre: f64| rows.iter().map(|r| (r[j] - centre).powi(2)).sum::<f64>();
    let raw_scale: Vec<f64> = usable.iter().zip(&raw_shift).map(|(&j, m)| around(j, *m) / (n - 1.0).max(1.0)).collect();
    let (shift_mean, shift_variance) = moments(&raw_shift);
    let (scale_mean, scale_variance) = moments(&raw_scale);
    // One person has no spread of its own, and equal spreads have no prior to shrink to.
    let scaled = rows.len() >= 2 && scale_variance > 0.0;
    let a = (2.0 * scale_variance + scale_mean.powi(2)) / scale_variance;
    let b = (scale_mean * scale_variance + scale_mean.powi(3)) / scale_variance;
    for ((&j, raw), spread) in usable.iter().zip(&raw_shift).zip(&raw_scale) {
        let start = if rows.len() >= 2 { *spread } else { 1.0 };
        let (mut shift, mut scale) = (*raw, start);
        for _ in 0..MOST_ROUNDS {
            let next = (shift_variance * n * raw + scale * shift_mean) / (shift_variance * n + scale);
            let next_scale = if scaled { (0.5 * around(j, next) + b) / (n / 2.0 + a - 1.0) } else { start };
            let change = ((next - shift) / shift).abs().max(((next_scale - scale) / scale).abs());
            (shift, scale) = (next, next_scale);
            if change < SETTLED || !change.is_finite() {
                break;
            }
        }
        effect.shift[j] = shift;
        effect.scale[j] = if scale > 0.0 { scale } else { 1.0 };
    }
    effect
}

/// Mean and sample variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0))
}

fn known_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.filter(|x| !x.is_nan()).fold((0.0, 0.0f64), |(s, c), x| (s + x, c + 1.0));
    sum / count.max(1.0)
}
