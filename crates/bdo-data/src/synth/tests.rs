//! Properties of whole scans.

mod labels;
mod reproducibility;
mod signal;

use super::{Generator, SynthSpec};
use crate::scan::Scan;

/// A cohort small enough for a test: one site unless the test says otherwise.
fn small(change: impl FnOnce(&mut SynthSpec)) -> Generator {
    let mut spec =
        SynthSpec { subjects: 6, regions: 40, frames: 80, sites: 1, tr_seconds: Some(0.8), ..SynthSpec::default() };
    change(&mut spec);
    Generator::new(spec).expect("the spec is valid")
}

/// The series without each region's mean and trend, region by region.
fn detrended(scan: &Scan, regions: usize) -> Vec<Vec<f64>> {
    let frames = scan.series.len() / regions;
    let middle = (frames - 1) as f64 / 2.0;
    let ramp: Vec<f64> = (0..frames).map(|t| t as f64 - middle).collect();
    let ramp_square: f64 = ramp.iter().map(|r| r * r).sum();
    (0..regions)
        .map(|region| {
            let values: Vec<f64> = (0..frames).map(|t| f64::from(scan.series[t * regions + region])).collect();
            let mean = mean(&values);
            let slope = values.iter().zip(&ramp).map(|(v, r)| v * r).sum::<f64>() / ramp_square;
            values.iter().zip(&ramp).map(|(v, r)| v - mean - slope * r).collect()
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (ma, mb) = (mean(a), mean(b));
    let product: f64 = a.iter().zip(b).map(|(x, y)| (x - ma) * (y - mb)).sum();
    let square = |v: &[f64], m: f64| v.iter().map(|x| (x - m) * (x - m)).sum::<f64>();
    product / (square(a, ma) * square(b, mb)).sqrt()
}

/// Mean correlation within networks and between them, and the mean within each network.
fn connectivity(generator: &Generator, scan: &Scan) -> (f64, f64, [f64; 8]) {
    let regions = generator.regions();
    let series = detrended(scan, regions.len());
    let (mut within, mut between) = (Vec::new(), Vec::new());
    let mut networks: [Vec<f64>; 8] = Default::default();
    for i in 0..regions.len() {
        for j in 0..i {
            let r = correlation(&series[i], &series[j]);
            if regions[i].network == regions[j].network {
                within.push(r);
                networks[regions[i].network.index()].push(r);
            } else {
                between.push(r);
            }
        }
    }
    (mean(&within), mean(&between), networks.map(|v| mean(&v)))
}

/// Median over regions of the correlation of neighbouring volumes.
fn autocorrelation(scan: &Scan, regions: usize) -> f64 {
    let mut values: Vec<f64> =
        detrended(scan, regions).iter().map(|x| correlation(&x[1..], &x[..x.len() - 1])).collect();
    values.sort_by(f64::total_cmp);
    values[regions / 2]
}
