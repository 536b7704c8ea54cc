//! Connectivity matrices, computed once for every split and seed. A region without signal has no connections: its row and column are
//! zero.

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::Split;
use bdo_data::scan::Scan;
use bdo_eval::connectivity::pearson;
use bdo_eval::covariance::ledoit_wolf;
use bdo_eval::product::dot;
use bdo_eval::supervised::learner::Parts;
use bdo_eval::supervised::network::{Input, Mix};
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;
use std::sync::Arc;

/// Correlations beyond this are as good as one; the inverse hyperbolic tangent must stay finite.
const LARGEST_CORRELATION: f64 = 1.0 - 1e-7;

/// Which matrices a network wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectivityKind {
    /// Pearson correlations as node features, no edges.
    Pearson,
    /// Shrunk correlations, Fisher-transformed, as node features; shrunk partial correlations, Fisher-transformed and
    /// without sign, as edges.
    ShrunkFisher,
}

/// The matrices of one scan, row-major N x N.
#[derive(Clone, Debug, PartialEq)]
pub struct Connectome {
    /// Regions, N.
    pub regions: usize,
    /// Features of each region: its row.
    pub nodes: Vec<f32>,
    /// Weights of edges, 0 where there is none.
    pub edges: Option<Vec<f32>>,
}

impl Connectome {
    /// Computes them from the raw series; none of the matrices depends on how a region is scaled.
    pub fn of_scan(scan: &Scan, kind: ConnectivityKind) -> Self {
        let valid = scan.valid_regions();
        let (regions, series) = (valid.len(), &scan.series);
        match kind {
            ConnectivityKind::Pearson => Self { regions, nodes: pearson(series, regions), edges: None },
            ConnectivityKind::ShrunkFisher => {
                let (nodes, edges) = shrunk_fisher(series, scan.frames(), &valid);
                Self { regions, nodes, edges: Some(edges) }
            }
        }
    }
}

/// Connectomes of several scans.
#[derive(Clone, Debug)]
pub struct Batch {
    /// [B, N, N] node features: one row of connectivity per region.
    pub nodes: Tensor<3>,
    /// B * N * N edge weights on the host, 0 where there is no edge; `None` for networks that do not use any.
    pub edges: Option<Arc<Vec<f32>>>,
}

impl Input for Connectome {
    type Batch = Batch;

    fn on(inputs: &[Arc<Self>], mix: Option<&Mix>, device: &Device) -> Batch {
        let n = inputs[0].regions;
        let together = |matrix: &dyn Fn(&Self) -> Option<&Vec<f32>>| -> Option<Vec<f32>> {
            let all: Option<Vec<&Vec<f32>>> = inputs.iter().map(|input| matrix(input)).collect();
            let all: Vec<f32> = all?.into_iter().flatten().copied().collect();
            Some(mix.map_or_else(|| all.clone(), |mix| mix.blend(&all, n * n)))
        };
        let nodes = together(&|input| Some(&input.nodes)).unwrap_or_default();
        Batch {
            nodes: Tensor::from_data(TensorData::new(nodes, [inputs.len(), n, n]), device),
            edges: together(&|input| input.edges.as_ref()).map(Arc::new),
        }
    }
}

/// Fisher-transformed shrunk correlation (0 on the diagonal) and absolute Fisher-transformed partial correlation of the regions of a
/// row-major `[frames, regions]` series that have a signal; 0 at the others.
pub fn shrunk_fisher(series: &[f32], frames: usize, region_valid: &[bool]) -> (Vec<f32>, Vec<f32>) {
    let regions = region_valid.len();
    let (mut valid, mut columns) = (Vec::new(), Vec::new());
    for r in (0..regions).filter(|r| region_valid[*r]) {
        let column: Vec<f64> = (0..frames).map(|t| f64::from(series[t * regions + r])).collect();
        let mean = column.iter().sum::<f64>() / frames as f64;
        let deviation = (column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / frames as f64).sqrt();
        if deviation.is_finite() && deviation > 0.0 {
            valid.push(r);
            columns.push(column.into_iter().map(|x| (x - mean) / deviation).collect::<Vec<f64>>());
        }
    }
    let n = valid.len();
    let standard: Vec<f64> = (0..frames).flat_map(|t| columns.iter().map(move |column| column[t])).collect();
    let fit = ledoit_wolf(&standard, frames, n);
    // Transformed, and spread over all regions.
    let fisher = |matrix: &[f64], sign: fn(f64) -> f64| -> Vec<f32> {
        let mut out = vec![0.0f32; regions * regions];
        for (i, &row) in valid.iter().enumerate() {
            for (j, &column) in valid.iter().enumerate().filter(|(j, _)| *j != i) {
                let r = matrix[i * n + j].clamp(-LARGEST_CORRELATION, LARGEST_CORRELATION);
                out[row * regions + column] = sign(r.atanh()) as f32;
            }
        }
        out
    };
    let correlation = normalised(&fit.covariance, n, 1.0);
    (fisher(&correlation, |z| z), fisher(&partial_correlation(&fit.covariance, n), f64::abs))
}

/// `-P_ij / sqrt(P_ii P_jj)` with P the inverse of an n x n covariance, 1 on the diagonal.
pub fn partial_correlation(covariance: &[f64], n: usize) -> Vec<f64> {
    normalised(&inverse(covariance, n), n, -1.0)
}

/// `sign M_ij / sqrt(M_ii M_jj)`, 1 on the diagonal.
fn normalised(matrix: &[f64], n: usize, sign: f64) -> Vec<f64> {
    let root: Vec<f64> = (0..n).map(|i| matrix[i * n + i].sqrt()).collect();
    let mut out = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            out[i * n + j] = if i == j { 1.0 } else { sign * matrix[i * n + j] / (root[i] * root[j]) };
        }
    }
    out
}

/// Inverse of a positive definite row-major n x n matrix, on one thread and in a fixed order. A pivot that is not positive is raised
/// to the smallest positive share of its diagonal entry, so that a covariance without any shrinkage still gives finite numbers.
fn inverse(matrix: &[f64], n: usize) -> Vec<f64> {
    let factor = lower_factor(matrix, n);
    // Rows of the inverse of L, kept as columns so that every product below runs over neighbours.
    let mut inverse_factor = vec![0.0; n * n];
    for j in 0..n {
        let column = &mut inverse_factor[j * n..][..n];
        column[j] = 1.0 / factor[j * n + j];
        for i in j + 1..n {
            let sum = dot(&factor[i * n + j..][..i - j], &column[j..i]);
            column[i] = -sum / factor[i * n + i];
        }
    }
    let mut out = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            // (L^-T L^-1)_ij: columns i and j of L^-1 have entries from i on.
            let value = dot(&inverse_factor[i * n + i..][..n - i], &inverse_factor[j * n + i..][..n - i]);
            out[i * n + j] = value;
            out[j * n + i] = value;
        }
    }
    out
}

fn lower_factor(matrix: &[f64], n: usize) -> Vec<f64> {
    let mut factor = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let (done, row) = factor.split_at_mut(i * n);
            let sum = if i == j { dot(&row[..j], &row[..j]) } else { dot(&row[..j], &done[j * n..][..j]) };
            let rest = matrix[i * n + j] - sum;
            row[j] = if i == j {
                rest.max(f64::EPSILON * matrix[i * n + i].abs().max(f64::MIN_POSITIVE)).sqrt()
            } else {
                rest / done[j * n + j]
            };
        }
    }
    factor
}

/// Matrices of every usable scan, with whose they are.
#[derive(Clone, Debug)]
pub struct ConnectomeSet {
    pub regions: usize,
    connectomes: Vec<Arc<Connectome>>,
    subjects: Vec<String>,
    /// Names by their number in examples.
    pub people: Vec<String>,
    /// Scans that have too few frames or regions for a matrix.
    pub left_out: Vec<String>,
}

impl ConnectomeSet {
    /// Computes the matrices of all scans with at least two regions that have a signal. Matrices of a scan depend on that
    /// scan alone, so nothing of one person reaches another.
    pub fn of_cohort(cohort: &Cohort, kind: ConnectivityKind) -> Result<Self, CohortError> {
        let regions = cohort.regions().len();
        let usable = |i: &usize| cohort.index()[*i].invalid_regions + 2 <= regions && cohort.index()[*i].frames >= 3;
        let (chosen, others): (Vec<usize>, Vec<usize>) = (0..cohort.len()).partition(usable);
        let connectomes = chosen
            .par_iter()
            .map(|&i| Ok(Arc::new(Connectome::of_scan(&cohort.scan(i)?, kind))))
            .collect::<Result<_, CohortError>>()?;
        let subjects: Vec<String> = chosen.iter().map(|i| cohort.index()[*i].id.subject.clone()).collect();
        let mut people = subjects.clone();
        people.sort();
        people.dedup();
        let left_out = others.iter().map(|i| cohort.index()[*i].id.to_string()).collect();
        Ok(Self { regions, connectomes, subjects, people, left_out })
    }

    /// Deals the scans out to the parts of a split; `label` gives a person's label in units of the loss.
    pub fn parts(&self, split: &Split, label: impl Fn(&str) -> Option<f32>) -> Parts<Arc<Connectome>> {
        let scans = self.subjects.iter().map(String::as_str).zip(self.connectomes.iter().cloned());
        Parts::deal(split, scans, &label).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_with_the_inverse_is_the_identity() {
        let n = 19;
        let a: Vec<f64> = (0..n * n).map(|k| ((k * 7919 + 13) % 101) as f64 / 50.0 - 1.0).collect();
        let mut m = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                let product: f64 = (0..n).map(|k| a[i * n + k] * a[j * n + k]).sum();
                m[i * n + j] = product + if i == j { 1.0 } else { 0.0 };
            }
        }
        let inverse = inverse(&m, n);
        for i in 0..n {
            for j in 0..n {
                let product: f64 = (0..n).map(|k| m[i * n + k] * inverse[k * n + j]).sum();
                let expected = f64::from(u8::from(i == j));
                assert!((product - expected).abs() < 1e-10, "{i} {j}: {product}");
            }
        }
    }
}
