//! The convolution whose kernel is a mixture, by region, of eight kernels.

use super::graph::Graphs;
use super::{COMMUNITIES, WIDTH};
use bdo_model::layer::Source;
use bdo_model::ops::{self, Epilogue, Kernels};
use bdo_model::parameters::{ParameterError, Start};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData, activation};

/// `x_r' = x_r W_r` with `W_r = sum_k relu(membership[k, r]) kernel_k + shared`, then a weighted mean over neighbours.
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
        let regions: Vec<i64> = graphs.regions().iter().map(|r| *r as i64).collect();
        let regions = Tensor::<1, Int>::from_data(TensorData::new(regions, [samples * nodes]), &device);
        let shares = activation::relu(self.membership.val()).transpose().select(0, regions); // [B * n, 8]
        let ones = Tensor::ones([samples * nodes, 1], &device);
        let shares = Tensor::cat(vec![shares, ones], 1).reshape([samples, nodes, COMMUNITIES + 1, 1]);
        let mixed = (parts * shares).sum_dim(2).reshape([samples, nodes, WIDTH]);
        let neighbours = Tensor::from_data(TensorData::new(graphs.attention(), [samples, nodes, nodes]), &device);
        neighbours.matmul(mixed) + self.bias.val().unsqueeze()
    }
}
