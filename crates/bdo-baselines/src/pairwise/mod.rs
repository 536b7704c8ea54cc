//! Sums over pairs of regions: the one operation behind edge-to-edge and edge-to-node layers.
//!
//! An edge-to-edge layer puts `leaky(row[c, i] + column[c, j])` at edge (i, j) of channel c, and every layer after it only
//! ever sums that over j (or i) with weights. So the C x N x N edges are never needed: `pair_sum` goes from the rows and
//! columns straight to the sums.

mod fused;
pub mod kernel;

use bdo_model::ops::{Kernels, fused::run};
use burn::tensor::{Tensor, activation};
use fused::PairSum;

/// `y[b, i, o] = sum_{c, j} leaky(row[b, c, i] + column[b, c, j]) weight[o, c, j]`:
/// row [B, C, I], column [B, C, J], weight [O, C, J] -> [B, I, O]. Values below zero are multiplied by `slope`.
pub fn pair_sum(kernels: Kernels, row: Tensor<3>, column: Tensor<3>, weight: Tensor<3>, slope: f64) -> Tensor<3> {
    if kernels.run_fused(&row) {
        let inputs = [row.into_dispatch(), column.into_dispatch(), weight.into_dispatch()];
        return run(PairSum { slope: slope as f32 }, inputs);
    }
    composed(row, column, weight, slope)
}

/// The slow twin, which does build every edge.
fn composed(row: Tensor<3>, column: Tensor<3>, weight: Tensor<3>, slope: f64) -> Tensor<3> {
    let [batch, channels, rows] = row.dims();
    let [outputs, _, columns] = weight.dims();
    let edges = row.reshape([batch, channels, rows, 1]) + column.reshape([batch, channels, 1, columns]); // [B, C, I, J]
    let edges = activation::leaky_relu(edges, slope).swap_dims(1, 2); // [B, I, C, J]
    edges
        .reshape([batch, rows, channels * columns])
        .matmul(weight.reshape([1, outputs, channels * columns]).transpose())
}
