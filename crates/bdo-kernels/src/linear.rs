//! Linear layer `y = x W^T + b` with its epilogue, and its backward pass. Weights are `[outputs, inputs]`.

pub mod reference;

use crate::activation::strip::Activate;
use crate::activation::{Activation, value_and_slope};
use crate::amx::{self, product::Engine};
use crate::gemm::blocked::{Block, Nothing};
use crate::gemm::pack::Source;
use crate::gemm::tile::Addend;
use crate::gemm::{Dispatched, Product, multiply, packed_right, product};
use crate::isa::{Isa, vectorised};
use crate::precision::{Precision, rounded_to_bf16};
use crate::threads::{Shared, expect_len, filled, for_each_task, shared};

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

/// The activation that was fused into the forward pass, with what its derivative needs.
#[derive(Clone, Copy)]
pub enum Activated<'a> {
    /// None (also after a residual: its gradient is `dy` itself).
    Not,
    /// GELU, with its derivative.
    Gelu(&'a [f32]),
    /// `ReLU`, with the output.
    Relu(&'a [f32]),
}

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
    assert_eq!(x.len(), rows * inputs, "x: expected {rows} x {inputs} values, found {}", x.len());
    assert_eq!(weight.len(), outputs * inputs, "weight: expected {outputs} x {inputs} values, found {}", weight.len());
    let mut start = [Addend::NONE; 2];
    if let Some(bias) = bias {
        assert_eq!(bias.len(), outputs, "bias: expected {outputs} values, found {}", bias.len());
        start[0] = Addend { at: bias.as_ptr(), stride: 0 };
    }
    if let Epilogue::Residual(residual) = epilogue {
        expect_len("residual", residual.len(), rows * outputs);
        start[1] = Addend { at: residual.as_ptr(), stride: outputs };
    }
    let job = Forward { isa, precision, shape, x, weight, start };
    let activation = match epilogue {
        Epilogue::Gelu { .. } => Some(Activation::Gelu),
        Epilogue::Relu => Some(Activation::Relu),
        Epilogue::None | Epilogue::Residual(_) => None,
    };
    // SAFETY: `Forward::run` writes the whole product, and the activation follows wherever the product was written.
    unsafe {
        if matches!(epilogue, Epilogue::Gelu { keep: true }) {
            let mut slope = Vec::new();
            let y = filled(rows * outputs, |y| {
                let y = shared(y);
                // The product goes where the derivative will be, which then takes its place.
                slope = filled(rows * outputs, |product| {
                    job.run(shared(product), Some(Activate { activation: Activation::Gelu, out: y, keep: true }));
                });
            });
            return LinearOutput { y, slope: Some(slope) };
        }
        let y = filled(rows * outputs, |y| {
            let y = shared(y);
            job.run(y, activation.map(|activation| Activate { activation, out: y, keep: false }));
        });
        LinearOutput { y, slope: None }
    }
}

struct Forward<'a> {
    isa: Isa,
    precision: Precision,
    shape: LinearShape,
    x: &'a [f32],
    weight: &'a [f32],
    start: [Addend; 2],
}

impl Forward<'_> {
    /// # Safety
    /// `c`, and the activation's output, are writable for `rows` x `outputs` values by nobody else.
    unsafe fn run(&self, c: Shared, activate: Option<Activate>) {
        let LinearShape { rows, inputs, outputs } = self.shape;
        let size = Product { rows, depth: inputs, columns: outputs };
        if self.precision == Precision::Bf16 && amx::is_available() {
            let b = Source { at: self.weight.as_ptr(), row: 1, column: inputs };
            let a = Source { at: self.x.as_ptr(), row: inputs, column: 1 };
            // SAFETY: shapes were checked, AMX is available; the rest is promised by the caller.
            unsafe { amx::product::multiply(self.isa, Engine::Native, size, a, b, c, self.start, activate) };
            return;
        }
        let (x_low, w_low);
        let (mut x, mut weight) = (self.x, self.weight);
        if self.precision == Precision::Bf16 {
            (x_low, w_low) = (rounded_to_bf16(self.isa, x), rounded_to_bf16(self.isa, weight));
            (x, weight) = (&x_low, &w_low);
        }
        let a = Source { at: x.as_ptr(), row: inputs, column: 1 };
        let b = Source { at: weight.as_ptr(), row: 1, column: inputs };
        // SAFETY: the operands were checked to cover the product; the rest is promised by the caller.
        unsafe {
            let panels = packed_right(self.isa, b, inputs, outputs, 1.0);
            match activate {
                Some(activate) => multiply(self.isa, size, a, panels.read(), c, self.start, activate),
                None => multiply(self.isa, size, a, panels.read(), c, self.start, Nothing),
            }
        }
    }
}

vectorised! {
    fn run_activated<V>(block: Block, finish: Activate) {
        // SAFETY: `multiply` cuts blocks out of a product it was promised is in bounds.
        unsafe { block.run::<V, Activate>(finish) }
    }
}

impl Dispatched for Activate {
    fn run(isa: Isa, block: Block, finish: Self) {
        run_activated(isa, block, finish);
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
    assert_eq!(x.len(), rows * inputs, "x: expected {rows} x {inputs} values, found {}", x.len());
    assert_eq!(weight.len(), outputs * inputs, "weight: expected {outputs} x {inputs} values, found {}", weight.len());
    assert_eq!(dy.len(), rows * outputs, "dy: expected {rows} x {outputs} values, found {}", dy.len());
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
                    product(isa, size, 1.0, a, b, shared(c), Addend::NONE);
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
    let tasks = rows.div_ceil(ROWS_PER_TASK);
    let mut partial = vec![0.0; tasks * columns];
    let sums_at = Shared(partial.as_mut_ptr());
    let at = match activated {
        Activated::Not => None,
        Activated::Gelu(slope) => Some((Activation::Gelu, slope)),
        Activated::Relu(y) => Some((Activation::Relu, y)),
    };
    if let Some((_, at)) = at {
        assert_eq!(at.len(), dy.len(), "saved activation: expected {} values, found {}", dy.len(), at.len());
    }
    let share = |task: usize, out: Option<Shared>| {
        let (from, to) = (task * ROWS_PER_TASK * columns, (((task + 1) * ROWS_PER_TASK).min(rows)) * columns);
        // SAFETY: each task has its own row of partial sums and its own rows of the output.
        let (sums, out) = unsafe {
            let out = out.map(|out| std::slice::from_raw_parts_mut(out.at(from).cast(), to - from));
            (std::slice::from_raw_parts_mut(sums_at.at(task * columns), columns), out)
        };
        match (at, out) {
            (Some((activation, at)), Some(out)) => {
                sloped_rows(isa, activation, &at[from..to], &dy[from..to], out, sums);
            }
            _ => summed_rows(isa, &dy[from..to], sums),
        }
    };
    // SAFETY: the tasks write every row of the output.
    let sloped = unsafe {
        at.map(|_| {
            filled(dy.len(), |out| {
                let out = shared(out);
                for_each_task(tasks, |task| share(task, Some(out)));
            })
        })
    };
    if sloped.is_none() {
        for_each_task(tasks, |task| share(task, None));
    }
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
            let mut j = 0;
            while j < columns {
                V::read(sums, j).add(V::read(row, j)).write(sums, j);
                j += V::LANES;
            }
        }
    }
}

vectorised! {
    fn sloped_rows<V>(
        activation: Activation, at: &[f32], dy: &[f32], out: &mut [std::mem::MaybeUninit<f32>], sums: &mut [f32],
    ) {
        let columns = sums.len();
        if columns == 0 {
            return;
        }
        for ((at, dy), out) in at.chunks_exact(columns).zip(dy.chunks_exact(columns)).zip(out.chunks_exact_mut(columns)) {
            let mut j = 0;
            while j < columns {
                let slope = match activation {
                    Activation::Gelu => V::read(at, j),
                    Activation::Relu => value_and_slope(activation, [V::read(at, j)]).1[0],
                };
                let d = slope.mul(V::read(dy, j));
                d.write_new(out, j);
                V::read(sums, j).add(d).write(sums, j);
                j += V::LANES;
            }
        }
    }
}
