//! Sums of squares of the objective, with their gradients.

use crate::isa::{Isa, vectorised};
use crate::threads::{expect_len, filled, for_each_range, shared};
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Sizes of a masked squared error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorShape {
    /// Samples.
    pub batch: usize,
    /// Rows per sample.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

/// Two matrices to compare, row weights and valid columns.
#[derive(Clone, Copy)]
pub struct MaskedError<'a> {
    /// `[batch, rows, columns]`
    pub prediction: &'a [f32],
    /// `[batch, rows, columns]`
    pub target: &'a [f32],
    /// `[batch, rows]`; a row of weight 0 is not read.
    pub row_weights: &'a [f32],
    /// `[batch, columns]`, 1 where a column counts and 0 where it does not; what is masked may be NaN.
    pub valid: Option<&'a [f32]>,
}

impl MaskedError<'_> {
    fn check(&self, shape: ErrorShape) {
        let ErrorShape { batch, rows, columns } = shape;
        expect_len("prediction", self.prediction.len(), batch * rows * columns);
        expect_len("target", self.target.len(), batch * rows * columns);
        expect_len("row_weights", self.row_weights.len(), batch * rows);
        expect_len("valid", self.valid.map_or(batch * columns, <[f32]>::len), batch * columns);
    }

    fn row(&self, shape: ErrorShape, row: usize) -> (&[f32], &[f32], &[f32]) {
        let range = row * shape.columns..(row + 1) * shape.columns;
        let sample = row / shape.rows;
        let valid = self.valid.map_or(&[][..], |valid| &valid[sample * shape.columns..(sample + 1) * shape.columns]);
        (&self.prediction[range.clone()], &self.target[range], valid)
    }

    /// Sum over rows of the weight times the sum over valid columns of the squared difference.
    ///
    /// Rows are summed in vectors, then added up in `f64` in their order.
    pub fn forward(&self, isa: Isa, shape: ErrorShape) -> f64 {
        self.check(shape);
        let all = shape.batch * shape.rows;
        let of_group = |group: usize| {
            let mut sum = 0.0;
            for row in group * ROWS_PER_TASK..((group + 1) * ROWS_PER_TASK).min(all) {
                let weight = self.row_weights[row];
                if weight != 0.0 {
                    let (prediction, target, valid) = self.row(shape, row);
                    sum += f64::from(weight) * f64::from(row_error(isa, prediction, target, valid));
                }
            }
            sum
        };
        let sums: Vec<f64> = (0..all.div_ceil(ROWS_PER_TASK)).into_par_iter().map(of_group).collect();
        sums.iter().sum()
    }

    /// `scale` times the gradient of [`MaskedError::forward`] with respect to the prediction.
    pub fn backward(&self, isa: Isa, shape: ErrorShape, scale: f32) -> Vec<f32> {
        self.check(shape);
        let all = shape.batch * shape.rows;
        // SAFETY: the tasks write every row, each its own.
        unsafe {
            filled(self.prediction.len(), |out| {
                let out = shared(out);
                for_each_range(all, ROWS_PER_TASK, |first, end| {
                    for row in first..end {
                        let at: *mut MaybeUninit<f32> = out.at(row * shape.columns).cast();
                        let out = std::slice::from_raw_parts_mut(at, shape.columns);
                        let weight = self.row_weights[row];
                        if weight == 0.0 {
                            out.fill(MaybeUninit::new(0.0));
                        } else {
                            let (prediction, target, valid) = self.row(shape, row);
                            row_gradient(isa, prediction, target, valid, 2.0 * scale * weight, out);
                        }
                    }
                });
            })
        }
    }
}

const ROWS_PER_TASK: usize = 32;

/// The difference where the column is valid, zero elsewhere.
macro_rules! difference {
    ($V:ident, $prediction:ident, $target:ident, $valid:ident, $i:ident) => {{
        let difference = $V::read($prediction, $i).sub($V::read($target, $i));
        if $valid.is_empty() {
            difference
        } else {
            // A selection, not a product: a masked target may be NaN.
            $V::splat(0.5).select_less($V::read($valid, $i), difference, $V::zero())
        }
    }};
}

vectorised! {
    fn row_error<V>(prediction: &[f32], target: &[f32], valid: &[f32]) -> f32 {
        let mut sum = V::zero();
        for i in (0..prediction.len()).step_by(V::LANES) {
            let d = difference!(V, prediction, target, valid, i);
            sum = d.fma(d, sum);
        }
        sum.sum()
    }
}

vectorised! {
    fn row_gradient<V>(prediction: &[f32], target: &[f32], valid: &[f32], factor: f32, out: &mut [MaybeUninit<f32>]) {
        let factor = V::splat(factor);
        for i in (0..prediction.len()).step_by(V::LANES) {
            difference!(V, prediction, target, valid, i).mul(factor).write_new(out, i);
        }
    }
}
