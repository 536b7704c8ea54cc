//! Sums over pairs of regions: the one operation behind edge-to-edge and edge-to-node layers.
//!
//! An edge-to-edge layer puts `leaky(row[c, i] + column[c, j])` at edge (i, j) of channel c, and every layer after it only
//! ever sums that over j (or i) with weights. So the C x N x N edges are never needed: `pair_sum` goes from the rows and
//! columns straight to the sums.

pub mod kernel;

use bdo_model::ops::Kernels;
use bdo_model::ops::fused::{FusedOp, run, tensor, values};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Shape, Tensor, activation};
use kernel::PairShape;

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

/// The kernel as an operation of the framework with its own backward pass.
#[derive(Debug)]
struct PairSum {
    slope: f32,
}

/// The inputs: everything the backward pass needs, since it works the pairs out again.
#[derive(Debug)]
struct Saved {
    inputs: [FlexTensor; 3],
    slope: f32,
}

impl Saved {
    fn shape(&self) -> PairShape {
        let [batch, channels, rows] = self.inputs[0].shape().dims();
        let [outputs, _, columns] = self.inputs[2].shape().dims();
        PairShape { batch, channels, rows, columns, outputs }
    }
}

impl FusedOp<3> for PairSum {
    type On = Flex;
    type Saved = Saved;

    fn forward(self, inputs: [FlexTensor; 3]) -> (FlexTensor, Saved) {
        let saved = Saved { inputs, slope: self.slope };
        let [row, column, weight] = saved.inputs.each_ref().map(values);
        let shape = saved.shape();
        let y = kernel::forward(shape, row, column, weight, self.slope);
        (tensor(y, Shape::from([shape.batch, shape.rows, shape.outputs])), saved)
    }

    fn backward(saved: &Saved, dy: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let [row, column, weight] = saved.inputs.each_ref().map(values);
        let found = kernel::backward(saved.shape(), row, column, weight, saved.slope, values(&dy));
        let mut like = saved.inputs.iter();
        found.map(|gradient| like.next().map(|like| tensor(gradient, like.shape())))
    }
}
