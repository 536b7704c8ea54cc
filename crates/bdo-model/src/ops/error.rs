//! Weighted sums of squared differences.

use super::Kernels;
use super::fused::{self, SquaredError};
use crate::device::upload;
use burn::tensor::{Float, Tensor, TensorData};
use std::sync::Arc;

/// Which rows and columns count, and how much.
#[derive(Clone, Debug)]
pub struct ErrorWeights {
    /// [B * T] weight of each row; 0 at padding.
    pub rows: Arc<Vec<f32>>,
    /// [B * N] 1 where a column counts, else 0; `None` where all do.
    pub columns: Option<Arc<Vec<f32>>>,
}

/// `sum_rows weight sum_columns (predicted - observed)^2`: both [B, T, N] -> [1]. `observed` is a constant: no gradient
/// flows into it.
pub fn squared_error(kernels: Kernels, predicted: Tensor<3>, observed: Tensor<3>, weights: &ErrorWeights) -> Tensor<1> {
    if fused::applies(kernels, &predicted).is_some() {
        let op = SquaredError::new(observed, weights.clone());
        return fused::run(op, [predicted.into_dispatch()]);
    }
    let [batch, slots, width] = predicted.dims();
    let place = (&predicted.device(), predicted.dtype());
    let constant =
        |values: &Arc<Vec<f32>>, shape: [usize; 3]| upload::<3, Float>(TensorData::new(values.to_vec(), shape), place);
    let mut error = predicted - observed.detach();
    if let Some(columns) = &weights.columns {
        error = error * constant(columns, [batch, 1, width]);
    }
    (error.square().sum_dim(2) * constant(&weights.rows, [batch, slots, 1])).sum()
}
