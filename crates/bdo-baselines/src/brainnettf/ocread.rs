//! Orthonormal clustering readout: regions are shared out over clusters with fixed, orthonormal centres.

use super::SLOPE;
use bdo_model::layer::{Linear, Source};
use bdo_model::ops::{self, Kernels};
use bdo_model::parameters::{ParameterError, Start};
use burn::module::{Module, Param};
use burn::tensor::{Tensor, activation};

pub(crate) const HIDDEN: usize = 32;

/// All regions at once through a narrow network, then soft assignment to clusters.
#[derive(Module, Debug)]
pub struct ClusterReadout {
    /// N * d -> 32.
    pub linear1: Linear,
    /// 32 -> 32.
    pub linear2: Linear,
    /// 32 -> N * d.
    pub linear3: Linear,
    /// [K, d], orthonormal, not trained.
    pub centres: Param<Tensor<2>>,
    #[module(skip)]
    kernels: Kernels,
}

impl ClusterReadout {
    pub(super) fn build(
        name: &str,
        regions: usize,
        width: usize,
        clusters: usize,
        source: &mut Source,
    ) -> Result<Self, ParameterError> {
        let bound = Start::Uniform((6.0 / (clusters + width) as f64).sqrt());
        source.under(name, |source| {
            Ok(Self {
                linear1: source.linear("linear1", regions * width, HIDDEN)?,
                linear2: source.linear("linear2", HIDDEN, HIDDEN)?,
                linear3: source.linear("linear3", HIDDEN, regions * width)?,
                centres: source.parameter("centres", [clusters, width], bound, false)?,
                kernels: source.kernels,
            })
        })
    }

    /// [B, N, d] -> [B, K, d].
    pub(super) fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [samples, regions, width] = x.dims();
        let leaky = |x: Tensor<3>| activation::leaky_relu(x, SLOPE);
        let hidden = leaky(self.linear1.forward(x.reshape([samples, 1, regions * width])));
        let hidden = leaky(self.linear2.forward(hidden));
        let h = self.linear3.forward(hidden).reshape([samples, regions, width]); // [B, N, d]
        let centres = self.centres.val();
        let clusters = centres.dims()[0];
        let length = centres.clone().square().sum_dim(1).sqrt().reshape([1, 1, clusters]);
        let projection = h.clone().matmul(centres.transpose().unsqueeze()); // [B, N, K]
        let assignment = ops::softmax(self.kernels, projection.square() / length);
        assignment.swap_dims(1, 2).matmul(h)
    }
}

/// Gram-Schmidt on the rows of `values` [K, width], in double precision and twice, so that rows are orthogonal to rounding.
/// With `normalise_first` off, the first row keeps its length, as in the public code.
pub fn orthonormal_centres(values: &mut [f32], width: usize, normalise_first: bool) {
    let mut rows: Vec<Vec<f64>> =
        values.chunks_exact(width).map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for k in 0..rows.len() {
        let (before, rest) = rows.split_at_mut(k);
        let row = &mut rest[0];
        for _ in 0..2 {
            for other in before.iter() {
                let share = dot(row, other) / dot(other, other);
                row.iter_mut().zip(other).for_each(|(x, o)| *x -= share * o);
            }
        }
        if k > 0 || normalise_first {
            let length = dot(row, row).sqrt();
            row.iter_mut().for_each(|x| *x /= length);
        }
    }
    for (out, value) in values.iter_mut().zip(rows.iter().flatten()) {
        *out = *value as f32;
    }
}
