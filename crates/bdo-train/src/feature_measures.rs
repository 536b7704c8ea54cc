//! What the universal feature, the mean control, of validation people is like, without any label: in how many directions it
//! moves, whether it finds a person again, and how much of the scanner it knows. Collapse and shortcuts show here.

use crate::error::TrainError;
use crate::source::ScanSource;
use bdo_data::cohort::IndexEntry;
use bdo_data::record::Terms;
use bdo_data::scaler::ScaledScan;
use bdo_kernels::linalg::symmetric_eigen;
use bdo_model::control::{ControlSequence, encode};
use bdo_model::intake::Windows;
use bdo_model::model::Bdo;
use faer::Mat;
use std::collections::BTreeMap;

/// Fewest scans that say anything.
const FEWEST: usize = 8;
/// Scans looked at: four passes of the encoder over each.
const MOST: usize = 64;
/// Penalty of the regressions on nuisances, as a share of the mean of the kernel's diagonal.
const PENALTY: f64 = 0.1;

/// A number of a scan, where it is known.
type Number = fn(&IndexEntry) -> Option<f64>;

/// Measures of validation scans; none if there are too few.
pub(crate) fn feature_measures(
    model: &Bdo,
    source: &ScanSource,
    windows: Windows,
    scans: &[usize],
) -> Result<Terms, TrainError> {
    let mut seen: Vec<(usize, ScaledScan)> = Vec::new();
    for &scan in scans.iter().take(MOST) {
        let scaled = source.scaler().apply(&source.cohort().scan(scan)?);
        if scaled.region_valid.contains(&true) && scaled.times_seconds.len() >= 8 {
            seen.push((scan, scaled));
        }
    }
    if seen.len() < FEWEST {
        return Ok(Terms::default());
    }
    let entries: Vec<&IndexEntry> = seen.iter().map(|(scan, _)| &source.cohort().index()[*scan]).collect();
    let features = |frames: &dyn Fn(usize) -> Vec<usize>| -> Result<Vec<Vec<f64>>, TrainError> {
        let parts: Vec<ScaledScan> =
            seen.iter().map(|(_, scan)| part(scan, &frames(scan.times_seconds.len()))).collect();
        let controls = encode(model, windows, &parts.iter().collect::<Vec<_>>())?;
        Ok(controls.iter().map(mean).collect())
    };
    let whole = features(&|count| (0..count).collect())?;
    let first = features(&|count| (0..count / 2).collect())?;
    let second = features(&|count| (count / 2..count).collect())?;
    let half_rate = features(&|count| (0..count).step_by(2).collect())?;
    let mut found = Terms::of([
        ("directions", directions(&whole)),
        ("halves_found", found_again(&first, &second)),
        ("half_rate_found", found_again(&whole, &half_rate)),
    ]);
    let numbers: [(&str, Number); 3] = [
        ("knows_repetition_time", |entry| Some(entry.tr_seconds)),
        ("knows_length", |entry| Some(entry.frames as f64)),
        ("knows_motion", |entry| entry.mean_fd_mm),
    ];
    for (name, number) in numbers {
        let values: Option<Vec<f64>> = entries.iter().map(|entry| number(entry)).collect();
        found.0.extend(values.and_then(|values| known(&whole, &[values])).map(|share| (name.to_owned(), share)));
    }
    let site = known(&whole, &one_of_each(&entries));
    found.0.extend(site.map(|share| ("knows_site".to_owned(), share)));
    Ok(found)
}

/// Some frames of a scan, centred on themselves, on a clock of their own.
fn part(scan: &ScaledScan, frames: &[usize]) -> ScaledScan {
    let regions = scan.region_valid.len();
    let row = |frame: usize| &scan.values[frame * regions..(frame + 1) * regions];
    let mut means = vec![0.0f64; regions];
    for &frame in frames {
        means.iter_mut().zip(row(frame)).for_each(|(mean, x)| *mean += f64::from(*x) / frames.len() as f64);
    }
    let origin = frames.first().map_or(0.0, |&frame| scan.times_seconds[frame]);
    ScaledScan {
        times_seconds: frames.iter().map(|&frame| scan.times_seconds[frame] - origin).collect(),
        values: frames.iter().flat_map(|&f| row(f).iter().zip(&means).map(|(x, mean)| x - *mean as f32)).collect(),
        region_valid: scan.region_valid.clone(),
    }
}

fn mean(control: &ControlSequence) -> Vec<f64> {
    let rows = control.values.len() / control.width.max(1);
    let mut mean = vec![0.0; control.width];
    for row in control.rows() {
        mean.iter_mut().zip(row).for_each(|(m, x)| *m += f64::from(*x) / rows as f64);
    }
    mean
}

/// Columns with mean 0 and variance 1 by the statistics of `of`; columns that do not move are 0.
fn standardised(rows: &[Vec<f64>], of: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let (n, width) = (of.len() as f64, of.first().map_or(0, Vec::len));
    let mean: Vec<f64> = (0..width).map(|k| of.iter().map(|row| row[k]).sum::<f64>() / n).collect();
    let sd: Vec<f64> = (0..width)
        .map(|k| (of.iter().map(|row| (row[k] - mean[k]) * (row[k] - mean[k])).sum::<f64>() / n).sqrt())
        .collect();
    let value = |k: usize, x: f64| if sd[k] > 1e-12 { (x - mean[k]) / sd[k] } else { 0.0 };
    rows.iter().map(|row| row.iter().enumerate().map(|(k, x)| value(k, *x)).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Participation ratio of the variance over scans: 1 if features move along a line, their number if along all axes alike.
fn directions(features: &[Vec<f64>]) -> f64 {
    let (n, width) = (features.len(), features.first().map_or(0, Vec::len));
    let mean: Vec<f64> = (0..width).map(|k| features.iter().map(|row| row[k]).sum::<f64>() / n as f64).collect();
    let centred: Vec<Vec<f64>> =
        features.iter().map(|row| row.iter().zip(&mean).map(|(x, m)| x - m).collect()).collect();
    let gram = |i: usize, j: usize| dot(&centred[i], &centred[j]);
    let trace: f64 = (0..n).map(|i| gram(i, i)).sum();
    let squares: f64 = (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| gram(i, j).powi(2)).sum();
    if squares > 0.0 { trace * trace / squares } else { 0.0 }
}

/// Share of scans whose feature is most similar, by the cosine of standardised coordinates, to the other feature of the same
/// scan.
fn found_again(one: &[Vec<f64>], other: &[Vec<f64>]) -> f64 {
    let (a, b) = (standardised(one, one), standardised(other, other));
    let cosine = |i: usize, j: usize| dot(&a[i], &b[j]) / (dot(&a[i], &a[i]) * dot(&b[j], &b[j])).sqrt().max(1e-12);
    let found = (0..a.len()).filter(|&i| (0..b.len()).all(|j| j == i || cosine(i, j) < cosine(i, i)));
    found.count() as f64 / a.len().max(1) as f64
}

/// Share of the variance of some numbers of each scan that ridge regression on the features predicts for a scan left out; `None`
/// where they do not vary.
fn known(features: &[Vec<f64>], numbers: &[Vec<f64>]) -> Option<f64> {
    let n = features.len();
    let x = standardised(features, features);
    let kernel = Mat::from_fn(n, n, |i, j| dot(&x[i], &x[j]));
    let mean_diagonal = (0..n).map(|i| kernel[(i, i)]).sum::<f64>() / n as f64;
    let (values, vectors) = symmetric_eigen(kernel.as_ref())?;
    let shrunk: Vec<f64> = values.iter().map(|v| v.max(0.0) / (v.max(0.0) + PENALTY * mean_diagonal)).collect();
    let hat = |i: usize, j: usize| (0..n).map(|k| vectors[(i, k)] * shrunk[k] * vectors[(j, k)]).sum::<f64>();
    let (mut error, mut total) = (0.0, 0.0);
    for y in numbers {
        let mean = y.iter().sum::<f64>() / n as f64;
        for i in 0..n {
            let fitted: f64 = (0..n).map(|j| hat(i, j) * (y[j] - mean)).sum();
            // The intercept is a column of its own, whose leverage is 1 / n.
            let left = (1.0 - hat(i, i) - 1.0 / n as f64).max(1e-3);
            error += ((y[i] - mean - fitted) / left).powi(2);
            total += ((y[i] - mean) * n as f64 / (n as f64 - 1.0)).powi(2);
        }
    }
    (total > 0.0).then(|| (1.0 - error / total).max(0.0))
}

/// A column of ones and zeros for each site; none where a scan has no site.
fn one_of_each(entries: &[&IndexEntry]) -> Vec<Vec<f64>> {
    let mut sites: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        let Some(site) = entry.site.as_deref() else { return Vec::new() };
        let next = sites.len();
        sites.entry(site).or_insert(next);
    }
    let column = |site: &str| entries.iter().map(|e| f64::from(u8::from(e.site.as_deref() == Some(site)))).collect();
    sites.keys().map(|site| column(site)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_model::init::Stream;

    fn random(rows: usize, width: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut stream = Stream::named(seed, "features");
        (0..rows).map(|_| (0..width).map(|_| stream.normal()).collect()).collect()
    }

    #[test]
    fn directions_count_axes() {
        let line: Vec<Vec<f64>> = (0..20).map(|i| vec![f64::from(i), 2.0 * f64::from(i), 0.0]).collect();
        assert!((directions(&line) - 1.0).abs() < 1e-9);
        let axes: Vec<Vec<f64>> =
            (0..4).flat_map(|k| [1.0, -1.0].map(|s| (0..4).map(|j| if j == k { s } else { 0.0 }).collect())).collect();
        assert!((directions(&axes) - 4.0).abs() < 1e-9);
        assert_eq!(directions(&vec![vec![1.0, 2.0]; 5]), 0.0);
    }

    #[test]
    fn people_are_found_by_what_stays_and_not_by_chance() {
        let people = random(40, 30, 1);
        let noisy: Vec<Vec<f64>> = people
            .iter()
            .zip(random(40, 30, 2))
            .map(|(p, noise)| p.iter().zip(noise).map(|(x, e)| x + 0.3 * e).collect())
            .collect();
        assert!(found_again(&people, &noisy) > 0.95);
        // One in forty by chance: six found has a probability of about 5e-4.
        assert!(found_again(&people, &random(40, 30, 3)) < 0.15);
    }

    #[test]
    fn what_is_in_the_features_is_known_and_nothing_else() {
        let features = random(64, 10, 4);
        let inside: Vec<f64> = features.iter().map(|row| row[3] - 2.0 * row[7]).collect();
        assert!(known(&features, &[inside]).is_some_and(|share| share > 0.9));
        let outside: Vec<f64> = random(64, 1, 5).into_iter().flatten().collect();
        assert!(known(&features, &[outside]).is_some_and(|share| share < 0.2));
        assert_eq!(known(&features, &[vec![2.0; 64]]), None);
    }
}
