//! Linear layer `y = x W^T + b` with its epilogue, and its backward pass. Weights are `[outputs, inputs]`.

use crate::activation::{Activate, Activation, value_and_slope};
use crate::amx::{self, product::Engine};
use crate::gemm::pack::Source;
use crate::gemm::tile::Addend;
use crate::gemm::{Product, multiply, packed_right, product};
use crate::isa::{Isa, vectorised};
use crate::precision::{Precision, rounded_to_bf16};
use crate::threads::{Shared, expect_len, filled, for_each_range, shared};
use std::mem::MaybeUninit;

/// Sizes of a linear layer applied to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearShape {
    /// Rows of `x` and `y`.
    pub rows: usize,
    /// Width of `x`.
    pub inputs: usize,
    /// Width of `y`.
    pub outputs: usize,
}

impl LinearShape {
    fn check(self, x: &[f32], weight: &[f32]) {
        expect_len("x", x.len(), self.rows * self.inputs);
        expect_len("weight", weight.len(), self.outputs * self.inputs);
    }
}

/// What follows the product and the bias.
#[derive(Clone, Copy)]
pub enum Epilogue<'a> {
    /// Nothing.
    None,
    /// GELU; with `keep` its derivative is returned for the backward pass.
    Gelu {
        /// Whether to keep the derivative.
        keep: bool,
    },
    /// `ReLU`, whose backward pass needs only `y`.
    Relu,
    /// Adds a residual of the shape of `y`.
    Residual(&'a [f32]),
}

/// A layer's output.
pub struct LinearOutput {
    /// `[rows, outputs]`
    pub y: Vec<f32>,
    /// Derivative of a kept GELU, `[rows, outputs]`.
    pub slope: Option<Vec<f32>>,
}

/// The activation that was fused into the forward pass, if there was one, with what its derivative needs: that of a GELU is
/// given, that of a `ReLU` follows from the output. A residual counts as none, since its gradient is `dy` itself.
pub type Activated<'a> = Option<(Activation, &'a [f32])>;

/// Gradients of a linear layer.
pub struct LinearGradients {
    /// `[rows, inputs]`, if asked for.
    pub dx: Option<Vec<f32>>,
    /// `[outputs, inputs]`
    pub dw: Vec<f32>,
    /// `[outputs]`
    pub db: Vec<f32>,
}

/// `x W^T + b` and the epilogue.
pub fn forward(
    isa: Isa,
    precision: Precision,
    shape: LinearShape,
    x: &[f32],
    weight: &[f32],
    bias: Option<&[f32]>,
    epilogue: Epilogue<'_>,
) -> LinearOutput {
    let LinearShape { rows, inputs, outputs } = shape;
    shape.check(x, weight);
    let mut start = [Addend::NONE; 2];
    if let Some(bias) = bias {
        expect_len("bias", bias.len(), outputs);
        start[0] = Addend { at: bias.as_ptr(), stride: 0 };
    }
    if let Epilogue::Residual(residual) = epilogue {
        expect_len("residual", residual.len(), rows * outputs);
        start[1] = Addend { at: residual.as_ptr(), stride: outputs };
    }
    let native = precision == Precision::Bf16 && amx::is_available();
    let low = (precision == Precision::Bf16 && !native).then(|| [x, weight].map(|values| rounded_to_bf16(isa, values)));
    let (x, weight) = low.as_ref().map_or((x, weight), |[x, weight]| (x, weight));
    let size = Product { rows, depth: inputs, columns: outputs };
    let a = Source { at: x.as_ptr(), row: inputs, column: 1 };
    let b = Source { at: weight.as_ptr(), row: 1, column: inputs };
    let run = |c: Shared, activate: Option<Activate>| {
        // SAFETY: the operands were checked to cover the product; `c` and the activation's output are whole buffers of their own.
        unsafe {
            if native {
                amx::product::multiply(isa, Engine::Native, size, a, b, c, start, activate);
            } else {
                let panels = packed_right(isa, b, inputs, outputs);
                multiply(isa, size, a, panels.read(), c, start, activate);
            }
        }
    };
    let activation = match epilogue {
        Epilogue::Gelu { .. } => Some(Activation::Gelu),
        Epilogue::Relu => Some(Activation::Relu),
        Epilogue::None | Epilogue::Residual(_) => None,
    };
    // SAFETY: `run` writes the whole product, and the activation follows wherever the product was written.
    unsafe {
        if matches!(epilogue, Epilogue::Gelu { keep: true }) {
            let mut slope = Vec::new();
            let y = filled(rows * outputs, |y| {
                let y = shared(y);
                // The product goes where the derivative will be, which then takes its place.
                slope = filled(rows * outputs, |product| {
                    run(shared(product), Some(Activate { activation: Activation::Gelu, out: y, keep: true }));
                });
            });
            return LinearOutput { y, slope: Some(slope) };
        }
        let y = filled(rows * outputs, |y| {
            let y = shared(y);
            run(y, activation.map(|activation| Activate { activation, out: y, keep: false }));
        });
        LinearOutput { y, slope: None }
    }
}

/// Rows per task; also the group whose bias gradients are summed before the groups are, in order.
const ROWS_PER_TASK: usize = 64;

/// Gradients of the layer; `dx` only with `need_dx`.
///
/// The derivative of the activation is applied in the pass that sums the bias gradient.
#[allow(clippy::too_many_arguments)]
pub fn backward(
    isa: Isa,
    precision: Precision,
    shape: LinearShape,
    x: &[f32],
    weight: &[f32],
    dy: &[f32],
    activated: Activated<'_>,
    need_dx: bool,
) -> LinearGradients {
    let LinearShape { rows, inputs, outputs } = shape;
    shape.check(x, weight);
    expect_len("dy", dy.len(), rows * outputs);
    let (db, sloped) = bias_gradient(isa, dy, activated, rows, outputs);
    let dy = sloped.as_deref().unwrap_or(dy);
    let native = precision == Precision::Bf16 && amx::is_available();
    let low =
        (precision == Precision::Bf16 && !native).then(|| [x, weight, dy].map(|values| rounded_to_bf16(isa, values)));
    let (x, weight, dy) = low.as_ref().map_or((x, weight, dy), |[x, weight, dy]| (x, weight, dy));
    let to_x = Product { rows, depth: outputs, columns: inputs };
    let to_w = Product { rows: outputs, depth: rows, columns: inputs };
    let dy_rows = Source { at: dy.as_ptr(), row: outputs, column: 1 };
    let dy_columns = Source { at: dy.as_ptr(), row: 1, column: outputs };
    let (w_rows, x_rows) =
        (Source { at: weight.as_ptr(), row: inputs, column: 1 }, Source { at: x.as_ptr(), row: inputs, column: 1 });
    // SAFETY: every operand was checked against the shape, and each product writes the whole of its own buffer.
    unsafe {
        let run = |size: Product, a: Source, b: Source| {
            filled(size.rows * size.columns, |c| {
                if native {
                    amx::product::multiply(isa, Engine::Native, size, a, b, shared(c), [Addend::NONE; 2], None);
                } else {
                    product(isa, size, a, b, shared(c));
                }
            })
        };
        let dx = need_dx.then(|| run(to_x, dy_rows, w_rows));
        LinearGradients { dx, dw: run(to_w, dy_columns, x_rows), db }
    }
}

/// Column sums of `dy`, after the activation's derivative if there is one; then also the product itself.
fn bias_gradient(
    isa: Isa,
    dy: &[f32],
    activated: Activated<'_>,
    rows: usize,
    columns: usize,
) -> (Vec<f32>, Option<Vec<f32>>) {
    let mut partial = vec![0.0; rows.div_ceil(ROWS_PER_TASK) * columns];
    let sums_at = Shared(partial.as_mut_ptr());
    // SAFETY: each task has its own row of partial sums.
    let sums_of =
        |row: usize| unsafe { std::slice::from_raw_parts_mut(sums_at.at(row / ROWS_PER_TASK * columns), columns) };
    let sloped = if let Some((activation, at)) = activated {
        expect_len("saved activation", at.len(), dy.len());
        // SAFETY: the tasks write every row of the output, each its own.
        Some(unsafe {
            filled(dy.len(), |out| {
                let out = shared(out);
                for_each_range(rows, ROWS_PER_TASK, |first, end| {
                    let (from, to) = (first * columns, end * columns);
                    let out: &mut [MaybeUninit<f32>] = std::slice::from_raw_parts_mut(out.at(from).cast(), to - from);
                    sloped_rows(isa, activation, &at[from..to], &dy[from..to], out, sums_of(first));
                });
            })
        })
    } else {
        for_each_range(rows, ROWS_PER_TASK, |first, end| {
            summed_rows(isa, &dy[first * columns..end * columns], sums_of(first));
        });
        None
    };
    let mut db = vec![0.0; columns];
    for sums in partial.chunks_exact(columns.max(1)) {
        for (total, sum) in db.iter_mut().zip(sums) {
            *total += sum;
        }
    }
    (db, sloped)
}

vectorised! {
    fn summed_rows<V>(dy: &[f32], sums: &mut [f32]) {
        let columns = sums.len();
        if columns == 0 {
            return;
        }
        for row in dy.chunks_exact(columns) {
            for j in (0..columns).step_by(V::LANES) {
                V::read(sums, j).add(V::read(row, j)).write(sums, j);
            }
        }
    }
}

vectorised! {
    fn sloped_rows<V>(
        activation: Activation, at: &[f32], dy: &[f32], out: &mut [MaybeUninit<f32>], sums: &mut [f32],
    ) {
        let columns = sums.len();
        if columns == 0 {
            return;
        }
        for ((at, dy), out) in at.chunks_exact(columns).zip(dy.chunks_exact(columns)).zip(out.chunks_exact_mut(columns)) {
            for j in (0..columns).step_by(V::LANES) {
                let slope = match activation {
                    Activation::Gelu => V::read(at, j),
                    Activation::Relu => value_and_slope(activation, [V::read(at, j)]).1[0],
                };
                let d = slope.mul(V::read(dy, j));
                d.write_new(out, j);
                V::read(sums, j).add(d).write(sums, j);
            }
        }
    }
}
