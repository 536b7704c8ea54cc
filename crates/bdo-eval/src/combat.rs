//! `ComBat`: the mean and spread of each site brought to those of all, with empirical-Bayes shrinkage over features.
//!
//! Fitted on training people and applied to anybody: nobody who is harmonised later changes what others become. Johnson, Li and
//! Rabinovic (2007) with the parametric priors; covariates whose effects are to be kept may be given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::EvalError;
use crate::features::Features;

/// Relative change at which the alternating estimates of a site have settled.
const SETTLED: f64 = 1e-10;
/// Rounds of them at most; a handful is usual.
const MOST_ROUNDS: usize = 1000;

/// What to do with a scan of a site that nothing is known about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnseenSite {
    /// Say so and stop.
    Refuse,
    /// Take it as an average site: it keeps the location and scale it has against the grand statistics.
    Pooled,
}

/// Location and scale of a site, per feature, against the standardised grand statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SiteEffect {
    shift: Vec<f64>,
    scale: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedCombat {
    sites: BTreeMap<String, SiteEffect>,
    grand_mean: Vec<f64>,
    /// Residual spread; 0 marks a feature without any, which is left as it is.
    spread: Vec<f64>,
    /// Row-major `[covariates, features]`.
    covariate_weights: Vec<f64>,
    covariate_means: Vec<f64>,
}

impl FittedCombat {
    /// Fits on some rows; `sites` and the rows of `covariates` go with `rows`. A missing value counts as its column's mean.
    pub fn fit(
        features: &Features,
        rows: &[usize],
        sites: &[&str],
        covariates: Option<&Features>,
    ) -> Result<Self, EvalError> {
        same("sites", rows.len(), sites.len())?;
        let q = covariates.map_or(0, Features::width);
        same("rows of covariates", rows.len(), covariates.map_or(rows.len(), Features::rows))?;
        let (n, width) = (rows.len(), features.width());
        let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        sites.iter().enumerate().for_each(|(i, s)| members.entry(s).or_default().push(i));
        let covariate_means = (0..q).map(|k| column_mean(n, |i| covariates.map_or(0.0, |c| c.row(i)[k]))).collect();
        let covariate_means: Vec<f64> = covariate_means;
        let centred = |i: usize, k: usize| {
            covariates.map_or(0.0, |c| present(c.row(i)[k], covariate_means[k])) - covariate_means[k]
        };
        let position: BTreeMap<&str, usize> = members.keys().enumerate().map(|(k, s)| (*s, k)).collect();
        let design: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let mut x = vec![0.0; members.len() + q];
                x[position[sites[i]]] = 1.0;
                (0..q).for_each(|k| x[members.len() + k] = centred(i, k));
                x
            })
            .collect();
        let size = members.len() + q;
        let mut normal = vec![0.0; size * size];
        for x in &design {
            for (a, xa) in x.iter().enumerate().filter(|(_, xa)| **xa != 0.0) {
                x.iter().enumerate().for_each(|(b, xb)| normal[a * size + b] += xa * xb);
            }
        }
        let inverse = inverted(normal, size).map_err(|column| {
            let found = format!("column {} explained by the others", column.saturating_sub(members.len()));
            EvalError::named("covariates", "columns that vary within sites", found)
        })?;
        let means: Vec<f64> = (0..width).map(|j| column_mean(n, |i| features.row(rows[i])[j])).collect();
        let value = |i: usize, j: usize| present(features.row(rows[i])[j], means[j]);
        // Least squares: products with the design, then its inverse, feature by feature.
        let mut products = vec![0.0; size * width];
        for (i, x) in design.iter().enumerate() {
            for (a, xa) in x.iter().enumerate().filter(|(_, xa)| **xa != 0.0) {
                (0..width).for_each(|j| products[a * width + j] += xa * value(i, j));
            }
        }
        let mut weights = vec![0.0; size * width];
        for a in 0..size {
            for b in 0..size {
                crate::product::add_scaled(
                    &mut weights[a * width..][..width],
                    inverse[a * size + b],
                    &products[b * width..][..width],
                );
            }
        }
        let mut grand_mean = vec![0.0; width];
        for (site, of_site) in &members {
            let share = of_site.len() as f64 / n as f64;
            crate::product::add_scaled(&mut grand_mean, share, &weights[position[site] * width..][..width]);
        }
        let mut squares = vec![0.0; width];
        for (i, x) in design.iter().enumerate() {
            for (j, square) in squares.iter_mut().enumerate() {
                let fitted: f64 =
                    x.iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(a, x)| x * weights[a * width + j]).sum();
                *square += (value(i, j) - fitted).powi(2);
            }
        }
        let tiny = |j: usize| 1e-12 * means[j].abs().max(grand_mean[j].abs());
        let spread = |j: usize| (squares[j] / n.max(1) as f64).sqrt();
        let spread: Vec<f64> = (0..width).map(|j| if spread(j) > tiny(j) { spread(j) } else { 0.0 }).collect();
        let covariate_weights = weights[members.len() * width..].to_vec();
        let mut fitted = Self { sites: BTreeMap::new(), grand_mean, spread, covariate_weights, covariate_means };
        for (site, of_site) in members {
            let standardised: Vec<Vec<f64>> = of_site
                .iter()
                .map(|&i| {
                    let base = fitted.expected(covariates.map(|c| c.row(i)));
                    (0..width).map(|j| fitted.standardised(value(i, j), base[j], j)).collect()
                })
                .collect();
            let usable: Vec<usize> = (0..width).filter(|j| fitted.spread[*j] > 0.0).collect();
            fitted.sites.insert(site.to_owned(), shrunk(&standardised, &usable, width));
        }
        Ok(fitted)
    }

    /// Harmonises some rows, in their order; a missing value stays missing.
    pub fn apply(
        &self,
        features: &Features,
        rows: &[usize],
        sites: &[&str],
        covariates: Option<&Features>,
        unseen: UnseenSite,
    ) -> Result<Vec<f64>, EvalError> {
        same("features", self.grand_mean.len(), features.width())?;
        same("sites", rows.len(), sites.len())?;
        same("covariates", self.covariate_means.len(), covariates.map_or(0, Features::width))?;
        let mut out = Vec::with_capacity(rows.len() * features.width());
        for (k, (&i, site)) in rows.iter().zip(sites).enumerate() {
            let effect = self.sites.get(*site);
            if effect.is_none() && unseen == UnseenSite::Refuse {
                let known: Vec<&str> = self.sites.keys().map(String::as_str).collect();
                return Err(EvalError::named(
                    format!("site {site:?}"),
                    format!("one of the training sites {}", known.join(", ")),
                    "another; hint: the policy `pooled` lets it pass",
                ));
            }
            let base = self.expected(covariates.map(|c| c.row(k)));
            for (j, &x) in features.row(i).iter().enumerate() {
                let adjusted = match effect {
                    Some(effect) if self.spread[j] > 0.0 => {
                        let z = (self.standardised(x, base[j], j) - effect.shift[j]) / effect.scale[j].sqrt();
                        z * self.spread[j] + base[j]
                    }
                    _ => x,
                };
                out.push(adjusted);
            }
        }
        Ok(out)
    }

    /// What an average site would measure, given the covariates.
    fn expected(&self, covariates: Option<&[f64]>) -> Vec<f64> {
        let width = self.grand_mean.len();
        let mut out = self.grand_mean.clone();
        for (k, x) in covariates.into_iter().flatten().enumerate() {
            let by = present(*x, self.covariate_means[k]) - self.covariate_means[k];
            crate::product::add_scaled(&mut out, by, &self.covariate_weights[k * width..][..width]);
        }
        out
    }

    fn standardised(&self, x: f64, base: f64, j: usize) -> f64 {
        if self.spread[j] > 0.0 { (x - base) / self.spread[j] } else { 0.0 }
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

fn present(x: f64, otherwise: f64) -> f64 {
    if x.is_nan() { otherwise } else { x }
}

fn column_mean(n: usize, value: impl Fn(usize) -> f64) -> f64 {
    let known = (0..n).map(value).filter(|x| !x.is_nan());
    let (sum, count) = known.fold((0.0, 0.0f64), |(s, c), x| (s + x, c + 1.0));
    sum / count.max(1.0)
}

fn same(what: &str, expected: usize, found: usize) -> Result<(), EvalError> {
    if expected == found { Ok(()) } else { Err(EvalError::named(what, expected, found)) }
}

/// Gauss-Jordan without pivoting, right for the positive matrix of a regression; the first dependent column where there is one.
fn inverted(mut a: Vec<f64>, n: usize) -> Result<Vec<f64>, usize> {
    let diagonal: Vec<f64> = (0..n).map(|k| a[k * n + k]).collect();
    let mut out: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
    for k in 0..n {
        let pivot = a[k * n + k];
        if pivot <= 1e-10 * diagonal[k] || pivot <= 0.0 {
            return Err(k);
        }
        for j in 0..n {
            a[k * n + j] /= pivot;
            out[k * n + j] /= pivot;
        }
        for i in (0..n).filter(|i| *i != k) {
            let factor = a[i * n + k];
            for j in 0..n {
                a[i * n + j] -= factor * a[k * n + j];
                out[i * n + j] -= factor * out[k * n + j];
            }
        }
    }
    Ok(out)
}
