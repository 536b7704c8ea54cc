//! The layers of BrainGNN.

use super::{COMMUNITIES, WIDTH};
use crate::select::{indices, rows};
use bdo_kernels::Isa;
use bdo_kernels::gemm::{Matrix, Product, gemm};
use bdo_model::layer::Source;
use bdo_model::ops::{self, Epilogue, Kernels};
use bdo_model::parameters::{ParameterError, Start};
use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData, activation};
use rayon::prelude::*;

const EPS: f64 = 1e-5;
/// Weight of the newest batch in the running statistics.
const NEWEST: f32 = 0.1;

/// The convolution whose kernel is a mixture, by region, of eight kernels: `x_r' = x_r W_r` with `W_r = sum_k relu(membership[k, r]) kernel_k + shared`, then a weighted mean over neighbours.
#[derive(Module, Debug)]
pub struct RegionConv {
    /// [8, N] membership of regions in communities.
    pub membership: Param<Tensor<2>>,
    /// [in * 32, 8] the kernels, one a column.
    pub kernels: Param<Tensor<2>>,
    /// [in * 32] the part every region shares.
    pub shared: Param<Tensor<1>>,
    /// [32].
    pub bias: Param<Tensor<1>>,
    inputs: usize,
    #[module(skip)]
    run: Kernels,
}

impl RegionConv {
    pub(super) fn build(
        name: &str,
        regions: usize,
        inputs: usize,
        source: &mut Source,
    ) -> Result<Self, ParameterError> {
        let bound = |fan_in: usize| Start::Uniform(1.0 / (fan_in as f64).sqrt());
        source.under(name, |source| {
            Ok(Self {
                membership: source.take("membership", [COMMUNITIES, regions], bound(regions))?,
                kernels: source.take("kernels", [inputs * WIDTH, COMMUNITIES], bound(COMMUNITIES))?,
                shared: source.take("shared", [inputs * WIDTH], bound(COMMUNITIES))?,
                bias: source.take("bias", [WIDTH], bound(inputs))?,
                inputs,
                run: source.kernels,
            })
        })
    }

    /// [B, n, in] -> [B, n, 32].
    pub(super) fn forward(&self, x: Tensor<3>, graphs: &Graphs) -> Tensor<3> {
        let [samples, nodes, _] = x.dims();
        let device = x.device();
        // Nine products for all nodes at once: one a community and the shared one, mixed afterwards.
        let stacked = Tensor::cat(
            vec![
                self.kernels.val().reshape([self.inputs, WIDTH, COMMUNITIES]),
                self.shared.val().reshape([self.inputs, WIDTH, 1]),
            ],
            2,
        ); // [in, 32, 9]
        let stacked = stacked.permute([2, 1, 0]).reshape([(COMMUNITIES + 1) * WIDTH, self.inputs]);
        let parts = ops::linear(self.run, x, stacked, None, Epilogue::None); // [B, n, 9 * 32]
        let parts = parts.reshape([samples, nodes, COMMUNITIES + 1, WIDTH]);
        let regions = indices(graphs.regions().iter().copied(), &device);
        let shares = activation::relu(self.membership.val()).transpose().select(0, regions); // [B * n, 8]
        let ones = Tensor::ones([samples * nodes, 1], &device);
        let shares = Tensor::cat(vec![shares, ones], 1).reshape([samples, nodes, COMMUNITIES + 1, 1]);
        let mixed = (parts * shares).sum_dim(2).reshape([samples, nodes, WIDTH]);
        let neighbours = Tensor::from_data(TensorData::new(graphs.attention(), [samples, nodes, nodes]), &device);
        neighbours.matmul(mixed) + self.bias.val().unsqueeze()
    }
}

/// Pooling that keeps the better half of the nodes, scored by their projection on a learned direction.
#[derive(Module, Debug)]
pub struct TopK {
    /// [32] the direction, of any length.
    pub weight: Param<Tensor<1>>,
}

#[derive(Clone, Debug)]
pub(super) struct Pooled {
    /// [B, k, 32] kept nodes, best first, each multiplied by its score.
    pub(super) nodes: Tensor<3>,
    /// Kept nodes of each sample, best first.
    pub(super) kept: Vec<Vec<usize>>,
    /// [B, n] every node's score, in the order of the nodes.
    pub(super) scores: Tensor<2>,
    /// [B, k] the kept scores, best first.
    pub(super) kept_scores: Tensor<2>,
}

impl TopK {
    /// Nodes [B, n, 32]; keeps n/2 of them, rounded up.
    pub(super) fn forward(&self, x: Tensor<3>) -> Pooled {
        let [samples, nodes, width] = x.dims();
        let direction = self.weight.val();
        let length = direction.clone().square().sum().sqrt();
        let direction = (direction / length).reshape([1, 1, width]);
        let scores = activation::sigmoid((x.clone() * direction).sum_dim(2)).reshape([samples, nodes]);
        let keep = nodes.div_ceil(2);
        let values = scores.to_data().try_to_vec::<f32>().expect("scores are f32");
        let kept: Vec<Vec<usize>> = values.chunks_exact(nodes).map(|scores| best(scores, keep)).collect();
        let kept_scores = rows(scores.clone().reshape([samples, nodes, 1]), &kept); // [B, k, 1]
        let nodes = rows(x, &kept) * kept_scores.clone();
        Pooled { nodes, kept, scores, kept_scores: kept_scores.reshape([samples, keep]) }
    }
}

/// Indices of the largest scores, in descending order; the first of equal ones comes first.
fn best(scores: &[f32], keep: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order.truncate(keep);
    order
}

/// Normalises each feature over the batch when training, by running statistics when predicting.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// [d].
    pub weight: Param<Tensor<1>>,
    /// [d].
    pub bias: Param<Tensor<1>>,
    /// [d], not trained.
    pub running_mean: Param<Tensor<1>>,
    /// [d], not trained.
    pub running_variance: Param<Tensor<1>>,
}

impl BatchNorm {
    pub(super) fn build(name: &str, width: usize, source: &mut Source) -> Result<Self, ParameterError> {
        source.under(name, |source| {
            Ok(Self {
                weight: source.take("weight", [width], Start::Ones)?,
                bias: source.take("bias", [width], Start::Zeros)?,
                running_mean: source.parameter("running_mean", [width], Start::Zeros, false)?,
                running_variance: source.parameter("running_variance", [width], Start::Ones, false)?,
            })
        })
    }

    /// [B, 1, d] -> [B, 1, d], and the new running mean and variance if training.
    pub(super) fn forward(&self, x: Tensor<3>, training: bool) -> (Tensor<3>, Option<[Vec<f32>; 2]>) {
        let [samples, _, width] = x.dims();
        let (mean, variance) = if training {
            let mean = x.clone().mean_dim(0);
            let variance = (x.clone() - mean.clone()).square().mean_dim(0);
            (mean, variance)
        } else {
            let shape = [1, 1, width];
            (self.running_mean.val().reshape(shape), self.running_variance.val().reshape(shape))
        };
        let scaled = (x - mean.clone()) / (variance.clone() + EPS).sqrt();
        let y = scaled * self.weight.val().unsqueeze() + self.bias.val().unsqueeze();
        let statistics = training.then(|| {
            let numbers = |t: &Tensor<3>| t.to_data().try_to_vec::<f32>().expect("activations are f32");
            let old = |p: &Param<Tensor<1>>| p.val().to_data().try_to_vec::<f32>().expect("statistics are f32");
            let mix = |old: Vec<f32>, new: Vec<f32>, factor: f32| -> Vec<f32> {
                old.iter().zip(&new).map(|(o, n)| (1.0 - NEWEST) * o + NEWEST * factor * n).collect()
            };
            // The variance that is kept is the unbiased one, that which normalises is not: as in PyTorch.
            let unbias = samples as f32 / samples.saturating_sub(1).max(1) as f32;
            [
                mix(old(&self.running_mean), numbers(&mean), 1.0),
                mix(old(&self.running_variance), numbers(&variance), unbias),
            ]
        });
        (y, statistics)
    }

    pub(super) fn absorb(mut self, mean: &[f32], variance: &[f32]) -> Self {
        let replace = |param: Param<Tensor<1>>, values: &[f32]| {
            param.map(|old| {
                let data = TensorData::new(values.to_vec(), [values.len()]);
                Tensor::from_data(data, &old.device()).set_require_grad(false)
            })
        };
        self.running_mean = replace(self.running_mean, mean);
        self.running_variance = replace(self.running_variance, variance);
        self
    }
}

/// Weighted graphs of a batch, as dense matrices on the host, since they carry no gradient: one a sample, all with the same number of
/// nodes.
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
    fn the_best_are_kept_in_order_and_ties_by_index() {
        assert_eq!(best(&[0.1, 0.9, 0.5, 0.9], 3), [1, 3, 2]);
    }

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
