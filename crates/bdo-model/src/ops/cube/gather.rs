//! Rows of a table, with a backward pass in which every row looks up who took it. The framework's own backward of a gather runs one
//! thread per column through all rows.

use super::{elements, empty_like, threads};
use crate::device::upload;
use crate::ops::fused::{FusedOp, run};
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Cube, DType, DispatchTensor, TensorMetadata};
use burn::tensor::{Int, Shape, Tensor};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Rows that somebody takes, and who: `from[r]` is the row that row r of the result comes from, `to[s]` the row of the result that
/// gives a gradient back to row s, or -1.
#[derive(Debug)]
struct Gather {
    from: CubeTensor,
    to: CubeTensor,
}

#[cube(launch)]
fn gather_back_kernel(dy: &[f32], to: &[i32], dx: &mut [f32], width: usize) {
    if ABSOLUTE_POS < dx.len() {
        let row = to[ABSOLUTE_POS / width];
        let column = ABSOLUTE_POS % width;
        let at = usize::cast_from(select(row < 0, 0, row)) * width + column;
        dx[ABSOLUTE_POS] = select(row < 0, f32::new(0.0_f32), dy[at]);
    }
}

impl FusedOp<1> for Gather {
    type On = Cube;
    type Saved = CubeTensor;

    fn forward(self, [x]: [CubeTensor; 1]) -> (CubeTensor, CubeTensor) {
        (Cube::float_select(x, 0, self.from), self.to)
    }

    fn backward(to: &CubeTensor, dy: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let width = dy.shape()[1];
        let dx = empty_like(&dy, Shape::new([to.shape()[0], width]));
        let (count, dim) = threads(&dx, elements(&dx));
        let client = dx.client.clone();
        let (dy, to, out) = (dy.into_buffer_arg(), to.clone().into_buffer_arg(), dx.clone().into_buffer_arg());
        gather_back_kernel::launch(&client, count, dim, dy, to, out, width);
        [Some(dx)]
    }
}

/// x [rows, n] -> [list, n]. A row that is taken more than once gets the gradient of the first who takes it: the others are padding,
/// whose gradients are zero.
pub(in crate::ops) fn rows(x: Tensor<2>, list: &[usize]) -> Tensor<2> {
    let mut to = vec![-1i32; x.dims()[0]];
    for (place, &row) in list.iter().enumerate().rev() {
        to[row] = place as i32;
    }
    let from: Vec<i32> = list.iter().map(|&row| row as i32).collect();
    let device = x.device().inner();
    let index = |values: Vec<i32>| {
        let tensor = upload::<1, Int>(values.as_slice(), (&device, DType::I32));
        tensor.try_into_primitive::<Cube>().expect("made on this device")
    };
    let op = Gather { from: index(from), to: index(to) };
    run(op, [x.into_dispatch()] as [DispatchTensor; 1])
}
