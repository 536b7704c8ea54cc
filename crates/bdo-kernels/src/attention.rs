//! Self-attention over packed `qkv: [batch, length, 3 * heads * head_width]`.

mod backward;
mod dropout;
mod forward;
mod products;

pub use backward::backward;
pub use dropout::Dropout;
pub use forward::{forward, infer};
pub use products::Products;

use crate::threads::{Shared, expect_len};
use crate::vector::Vector;

/// Sizes of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Samples.
    pub batch: usize,
    /// Tokens per sample, padding included.
    pub length: usize,
    /// Heads.
    pub heads: usize,
    /// Width of a head.
    pub head_width: usize,
}

/// What the backward pass needs besides `qkv`.
#[derive(Debug)]
pub enum AttentionSaved {
    /// `[batch, heads, length, length]`: kept for short sequences, where it is smaller than `qkv`.
    Probabilities(Vec<f32>),
    /// `[batch, heads, length]`, log of the sum of exponentials of each row: from it the probabilities are recomputed.
    LogSumExp(Vec<f32>),
}

/// The work of one task: a head of a sample.
#[derive(Clone, Copy)]
struct Job {
    products: Products,
    shape: AttentionShape,
    /// Tokens of the sample that are not padding.
    len: usize,
    sample: usize,
    head: usize,
    dropout: Option<Dropout>,
    out: Shared,
}

impl Job {
    /// The factors of dropout of some query rows, `length` apart; nothing without dropout.
    ///
    /// # Safety
    /// `out` is writable for the rows, by nobody else.
    #[inline(always)]
    unsafe fn factors<V: Vector>(&self, top: usize, rows: usize, out: *mut f32) {
        if let Some(dropout) = self.dropout {
            // SAFETY: passed on from the caller; zeroes are values of f32, so that the slice holds no undefined ones.
            let out = unsafe {
                std::ptr::write_bytes(out, 0, rows * self.shape.length);
                std::slice::from_raw_parts_mut(out, rows * self.shape.length)
            };
            dropout.factors::<V>(self.shape.first_of_row(self.sample, self.head, top), out);
        }
    }
}

impl AttentionShape {
    /// `heads * head_width`.
    pub fn width(&self) -> usize {
        self.heads * self.head_width
    }

    /// Distance between values of rows of scores: whole vectors of any instruction set.
    fn score_stride(&self) -> usize {
        self.length.next_multiple_of(16)
    }

    /// Query rows worked on at a time, so that their scores stay in the second-level cache.
    fn rows_per_tile(&self) -> usize {
        const SCORES: usize = 1 << 15;
        // A multiple of the rows of every register tile.
        (SCORES / self.score_stride().max(1)).clamp(24, 96) / 24 * 24
    }

    /// Place of the first probability of a row in `[batch, heads, length, length]`.
    pub(crate) fn first_of_row(&self, sample: usize, head: usize, row: usize) -> usize {
        ((sample * self.heads + head) * self.length + row) * self.length
    }

    /// Room for the factors of dropout of one tile of rows.
    fn factors_per_tile(&self, dropout: Option<Dropout>) -> usize {
        if dropout.is_some() { self.rows_per_tile() * self.length } else { 0 }
    }

    /// Below twice the head width, the probabilities are smaller than two thirds of `qkv`.
    fn keeps_probabilities(&self) -> bool {
        self.length <= 2 * self.head_width
    }

    fn check(&self, qkv: &[f32], lens: &[usize]) {
        expect_len("qkv", qkv.len(), self.batch * self.length * 3 * self.width());
        expect_len("lens", lens.len(), self.batch);
        for &len in lens {
            assert!(len <= self.length, "lens: expected at most {}, found {len}", self.length);
        }
    }
}

/// Multiplies in place.
#[inline(always)]
fn multiply<V: Vector>(row: &mut [f32], factors: &[f32]) {
    for i in (0..row.len()).step_by(V::LANES) {
        V::read(row, i).mul(V::read(factors, i)).write(row, i);
    }
}
