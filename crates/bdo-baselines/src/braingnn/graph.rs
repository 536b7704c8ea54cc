//! Weighted graphs of a batch, as dense matrices on the host: they carry no gradient.

use bdo_kernels::Isa;
use bdo_kernels::gemm::{Matrix, Product, gemm};
use rayon::prelude::*;

/// One graph a sample, all with the same number of nodes.
#[derive(Clone, Debug)]
pub(super) struct Graphs {
    samples: usize,
    nodes: usize,
    /// [B, n, n], 0 where there is no edge; the diagonal is not looked at.
    weights: Vec<f32>,
    /// [B, n] region of each node.
    regions: Vec<usize>,
}

impl Graphs {
    /// Every region is a node.
    pub(super) fn whole(samples: usize, nodes: usize, edges: &[f32]) -> Self {
        assert_eq!(edges.len(), samples * nodes * nodes, "one weight an edge of {samples} graphs of {nodes} nodes");
        Self { samples, nodes, weights: edges.to_vec(), regions: (0..samples).flat_map(|_| 0..nodes).collect() }
    }

    pub(super) fn regions(&self) -> &[usize] {
        &self.regions
    }

    /// The graphs among the kept nodes of each sample.
    pub(super) fn induced(&self, kept: &[Vec<usize>]) -> Self {
        let nodes = kept.first().map_or(0, Vec::len);
        let mut weights = Vec::with_capacity(self.samples * nodes * nodes);
        let mut regions = Vec::with_capacity(self.samples * nodes);
        for (b, kept) in kept.iter().enumerate() {
            for &i in kept {
                let row = &self.weights[(b * self.nodes + i) * self.nodes..][..self.nodes];
                weights.extend(kept.iter().map(|&j| row[j]));
                regions.push(self.regions[b * self.nodes + i]);
            }
        }
        Self { samples: self.samples, nodes, weights, regions }
    }

    /// Weights of walks of at most two steps: (A + I)^2, of which the diagonal is not looked at.
    pub(super) fn two_hops(mut self) -> Self {
        let n = self.nodes;
        self.weights.par_chunks_mut(n * n).for_each(|weights| {
            for i in 0..n {
                weights[i * n + i] = 1.0;
            }
            let mut square = vec![0.0; n * n];
            let view = Matrix::row_major(weights, n);
            let size = Product { rows: n, depth: n, columns: n };
            gemm(Isa::current(), size, view, view, &mut square);
            weights.copy_from_slice(&square);
        });
        self
    }

    /// [B, n, n] softmax over each node's edges, itself among them with weight 1.
    pub(super) fn attention(&self) -> Vec<f32> {
        let n = self.nodes;
        let mut out = self.weights.clone();
        out.par_chunks_mut(n * n).for_each(|graph| {
            for (i, row) in graph.chunks_exact_mut(n).enumerate() {
                row[i] = 1.0;
                let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let mut sum = 0.0;
                for w in row.iter_mut() {
                    *w = if *w == 0.0 { 0.0 } else { (*w - largest).exp() };
                    sum += *w;
                }
                row.iter_mut().for_each(|w| *w /= sum);
            }
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_edges_stay_missing_and_rows_sum_to_one() {
        let edges = [0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0];
        let graphs = Graphs::whole(1, 3, &edges);
        let a = graphs.attention();
        let e = (0.5f32 - 1.0).exp();
        for (found, expected) in a.iter().zip([1.0 / (1.0 + e), e / (1.0 + e), 0.0]) {
            assert!((found - expected).abs() < 1e-6, "{a:?}");
        }
        assert_eq!(a[6..], [0.0, 0.0, 1.0]);
        let hops = graphs.induced(&[vec![1, 0]]).two_hops();
        assert_eq!(hops.regions(), [1, 0]);
        // (A + I)^2 off the diagonal: twice the edge.
        assert!((hops.weights[1] - 1.0).abs() < 1e-6 && (hops.weights[2] - 1.0).abs() < 1e-6, "{:?}", hops.weights);
    }
}
