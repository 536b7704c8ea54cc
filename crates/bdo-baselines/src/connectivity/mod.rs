//! Connectivity matrices of one scan. A region without signal has no connections: its row and column are zero.

mod cholesky;

use bdo_data::scan::Scan;
use bdo_eval::connectivity::pearson;
use bdo_eval::covariance::ledoit_wolf;
use bdo_eval::supervised::network::{Input, Mix};
use burn::tensor::{Device, Tensor, TensorData};
use cholesky::inverse;
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
        match kind {
            ConnectivityKind::Pearson => {
                Self { regions: valid.len(), nodes: pearson(&scan.series, valid.len()), edges: None }
            }
            ConnectivityKind::ShrunkFisher => {
                let series = StandardSeries::new(&scan.series, scan.frames(), &valid);
                let (nodes, edges) = series.shrunk_fisher();
                Self { regions: series.regions, nodes, edges: Some(edges) }
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

/// Series with mean 0 and variance 1, of the regions that have a signal.
#[derive(Clone, Debug)]
pub struct StandardSeries {
    /// Regions in all.
    regions: usize,
    /// Those with a signal.
    valid: Vec<usize>,
    frames: usize,
    /// [frames, valid].
    values: Vec<f64>,
}

impl StandardSeries {
    /// From a row-major `[frames, regions]` series.
    pub fn new(series: &[f32], frames: usize, region_valid: &[bool]) -> Self {
        let regions = region_valid.len();
        let candidates = (0..regions).filter(|r| region_valid[*r]);
        let mut valid = Vec::new();
        let mut columns = Vec::new();
        for r in candidates {
            let column: Vec<f64> = (0..frames).map(|t| f64::from(series[t * regions + r])).collect();
            let mean = column.iter().sum::<f64>() / frames as f64;
            let deviation = (column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / frames as f64).sqrt();
            if deviation.is_finite() && deviation > 0.0 {
                valid.push(r);
                columns.push(column.into_iter().map(|x| (x - mean) / deviation).collect::<Vec<f64>>());
            }
        }
        let values = (0..frames).flat_map(|t| columns.iter().map(move |column| column[t])).collect();
        Self { regions, valid, frames, values }
    }

    /// Fisher-transformed shrunk correlation (0 on the diagonal) and absolute Fisher-transformed partial correlation.
    pub fn shrunk_fisher(&self) -> (Vec<f32>, Vec<f32>) {
        let n = self.valid.len();
        let fit = ledoit_wolf(&self.values, self.frames, n);
        let correlation = normalised(&fit.covariance, n, 1.0);
        let partial = partial_correlation(&fit.covariance, n);
        let fisher = |matrix: &[f64]| -> Vec<f64> {
            let transform = |x: &f64| x.clamp(-LARGEST_CORRELATION, LARGEST_CORRELATION).atanh();
            let mut z: Vec<f64> = matrix.iter().map(transform).collect();
            (0..n).for_each(|i| z[i * n + i] = 0.0);
            z
        };
        let edges: Vec<f64> = fisher(&partial).into_iter().map(f64::abs).collect();
        (self.spread(&fisher(&correlation)), self.spread(&edges))
    }

    /// A matrix over regions with a signal into one over all regions.
    fn spread(&self, matrix: &[f64]) -> Vec<f32> {
        let mut out = vec![0.0f32; self.regions * self.regions];
        for (row, &i) in matrix.chunks_exact(self.valid.len().max(1)).zip(&self.valid) {
            for (x, &j) in row.iter().zip(&self.valid) {
                out[i * self.regions + j] = *x as f32;
            }
        }
        out
    }
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
