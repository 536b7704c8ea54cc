//! The terms of the training objective. Norms are sums over coordinates; each sample is divided by its number of
//! target frames times valid regions, then samples are averaged, so that the scale of gradients is the same for
//! every batch shape.

use crate::device::upload;
use crate::dynamics::UnionGrid;
use crate::ops::{self, ErrorWeights, Kernels};
use burn::tensor::{DType, Device, Tensor, TensorData};
use std::sync::Arc;

/// The objective and its parts, each a single number; `total` is the sum of the others, weights included.
#[derive(Clone, Debug)]
pub struct LossTerms {
    /// The loss that training minimises.
    pub total: Tensor<1>,
    /// Weighted control energy.
    pub energy: Tensor<1>,
    /// Weighted squared reconstruction error.
    pub reconstruction: Tensor<1>,
    /// Weighted distance to the latent target; zero when its weight is.
    pub latent: Tensor<1>,
}

/// Weights of the terms; a training schedule may move them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossWeights {
    /// Weight of the latent target distance.
    pub tau: f64,
    /// Weight of the control energy.
    pub energy: f64,
    /// Weight of the squared reconstruction error.
    pub reconstruction: f64,
}

/// Weights of samples and frames in the sums.
#[derive(Clone, Debug)]
pub struct SampleWeights {
    /// 1 / (B x targets x regions) at target slots, 0 at padding; all columns.
    target: ErrorWeights,
    /// The same rows, valid regions only.
    observed: ErrorWeights,
    /// [B, C, 1]: held time / (B x targets x regions).
    held: Tensor<3>,
    /// [B, T, 1]: the target weights, for sums that are not errors.
    target_rows: Tensor<3>,
    kernels: Kernels,
}

impl SampleWeights {
    /// Of the frames of a grid. Every sample needs at least one target and one valid region; the batch has been checked for that.
    pub fn new(grid: &UnionGrid, region_valid: &[bool], kernels: Kernels, place: (&Device, DType)) -> Self {
        let (batch, slots, tokens) = (grid.batch, grid.target.slots, grid.tokens);
        let mut target = Vec::with_capacity(batch * slots);
        let mut held = Vec::with_capacity(grid.held.len());
        for (sample, valid) in region_valid.chunks_exact(region_valid.len() / batch).enumerate() {
            let targets = grid.target.count[sample];
            let scale = 1.0 / (batch * targets * valid.iter().filter(|&&valid| valid).count()) as f64;
            target.extend((0..slots).map(|slot| if slot < targets { scale as f32 } else { 0.0 }));
            let lengths = &grid.held[sample * tokens..(sample + 1) * tokens];
            held.extend(lengths.iter().map(|&length| (f64::from(length) * scale) as f32));
        }
        let rows = Arc::new(target);
        let columns = (!region_valid.iter().all(|&valid| valid)).then(|| Arc::new(ones(region_valid)));
        Self {
            target_rows: upload(TensorData::new(rows.to_vec(), [batch, slots, 1]), place),
            target: ErrorWeights { rows: rows.clone(), columns: None },
            observed: ErrorWeights { rows, columns },
            held: upload(TensorData::new(held, [batch, tokens, 1]), place),
            kernels,
        }
    }

    /// `sum_i ||alpha_i||^2 len_i`: control [B, C, d].
    pub fn energy(&self, control: Tensor<3>) -> Tensor<1> {
        (control.square().sum_dim(2) * self.held.clone()).sum()
    }

    /// sum over targets and valid regions of squared errors: both [B, T, N].
    pub fn reconstruction(&self, observed: Tensor<3>, predicted: Tensor<3>) -> Tensor<1> {
        ops::squared_error(self.kernels, predicted, observed, &self.observed)
    }

    /// sum over targets of ||latent - target||^2: both [B, T, d].
    pub fn latent_sampled(&self, latent: Tensor<3>, target: Tensor<3>) -> Tensor<1> {
        ops::squared_error(self.kernels, latent, target, &self.target)
    }

    /// The expectation of [`Self::latent_sampled`] over draws: ||V m - target||^2 + sum of the total variance.
    pub fn latent_analytic(&self, mean: Tensor<3>, total_variance: Tensor<3>, target: Tensor<3>) -> Tensor<1> {
        let spread = (total_variance.sum_dim(2) * self.target_rows.clone()).sum();
        self.latent_sampled(mean, target) + spread
    }
}

/// [B * N] flags -> [B, 1, N] of ones and zeros.
pub(crate) fn region_mask(region_valid: &[bool], batch: usize, place: (&Device, DType)) -> Tensor<3> {
    let regions = region_valid.len() / batch;
    upload(TensorData::new(ones(region_valid), [batch, 1, regions]), place)
}

/// 1 where a flag is set, else 0.
fn ones(flags: &[bool]) -> Vec<f32> {
    flags.iter().map(|&flag| f32::from(u8::from(flag))).collect()
}
