//! Gradient of attention, from kept or recomputed probabilities.

use super::{AttentionSaved, AttentionShape, Dropout, Job, Products, multiply};
use crate::gemm::pack::Source;
use crate::isa::vectorised;
use crate::threads::{Scratch, expect_len, filled, for_each_task, shared};
use crate::vector::Vector;
use crate::vector::elementary::exp;

/// Gradient with respect to `qkv`, from `dy: [batch, length, heads * head_width]`; zero in padded rows.
pub fn backward(
    products: Products,
    shape: AttentionShape,
    qkv: &[f32],
    lens: &[usize],
    dropout: Option<Dropout>,
    saved: &AttentionSaved,
    dy: &[f32],
) -> Vec<f32> {
    shape.check(qkv, lens);
    let AttentionShape { batch, length, heads, .. } = shape;
    expect_len("dy", dy.len(), batch * length * shape.width());
    match saved {
        AttentionSaved::Probabilities(p) => expect_len("saved", p.len(), batch * heads * length * length),
        AttentionSaved::LogSumExp(l) => expect_len("saved", l.len(), batch * heads * length),
    }
    let (qkv, dy) = (products.operand(qkv), products.operand(dy));
    // SAFETY: the tasks write the three parts of every row of every head, each its own.
    unsafe {
        filled(qkv.len(), |out| {
            let out = shared(out);
            for_each_task(batch * heads, |task| {
                let (sample, head) = (task / heads, task % heads);
                let job = Job { products, shape, len: lens[sample], sample, head, dropout, out };
                one_head(products.isa, job, &qkv, saved, &dy);
            });
        })
    }
}

vectorised! {
    fn one_head<V>(job: Job, qkv: &[f32], saved: &AttentionSaved, dy: &[f32]) {
        let (products, AttentionShape { length, heads, head_width, .. }) = (job.products, job.shape);
        let (width, len) = (job.shape.width(), job.len);
        let (stride, row_stride) = (job.shape.score_stride(), 3 * width);
        let scale = 1.0 / (head_width as f32).sqrt();
        let tile_rows = job.shape.rows_per_tile();
        // SAFETY: all slices were checked against the shape; this task owns this head of the output; the scratch
        // spaces have the sizes the packing and the tiles need.
        unsafe {
            let offset = job.sample * length * row_stride + job.head * head_width;
            let q = qkv.as_ptr().add(offset);
            let (k, v) = (q.add(width), q.add(2 * width));
            let dq = job.out.0.add(offset);
            let (dk, dv) = (dq.add(width), dq.add(2 * width));
            for r in len..length {
                for part in [dq, dk, dv] {
                    std::ptr::write_bytes(part.add(r * row_stride), 0, head_width);
                }
            }
            if len == 0 {
                return;
            }
            let dout = dy.as_ptr().add(job.sample * length * width + job.head * head_width);
            let across = products.right_len::<V>(head_width, len);
            let along = products.right_len::<V>(len, head_width);
            let part = products.right_len::<V>(tile_rows, head_width);
            let mut scratch = Scratch::new(
                2 * across + along + 2 * part + 2 * tile_rows * stride + job.shape.factors_per_tile(job.dropout),
            );
            let keys_t = scratch.start().0;
            let values_t = keys_t.add(across);
            let keys = values_t.add(across);
            let packed_q = keys.add(along);
            let packed_dout = packed_q.add(part);
            let p = packed_dout.add(part);
            let ds = p.add(tile_rows * stride);
            let factors = ds.add(tile_rows * stride);
            let by_row = |at| Source { at, row: row_stride, column: 1 };
            let by_column = |at| Source { at, row: 1, column: row_stride };
            products.pack::<V>(by_column(k), head_width, len, keys_t);
            products.pack::<V>(by_column(v), head_width, len, values_t);
            products.pack::<V>(by_row(k), len, head_width, keys);
            for top in (0..len).step_by(tile_rows) {
                let rows = (len - top).min(tile_rows);
                let q_tile = by_row(q.add(top * row_stride));
                let dout_tile = Source { at: dout.add(top * width), row: width, column: 1 };
                let first = (job.sample * heads + job.head) * length + top;
                let saved_rows = match saved {
                    AttentionSaved::Probabilities(kept) => &kept[first * length..],
                    AttentionSaved::LogSumExp(kept) => {
                        products.small::<V>(q_tile, keys_t, (rows, head_width, len), p, stride, false);
                        &kept[first..]
                    }
                };
                products.small::<V>(dout_tile, values_t, (rows, head_width, len), ds, stride, false);
                job.factors::<V>(top, rows, factors);
                for r in 0..rows {
                    let p = std::slice::from_raw_parts_mut(p.add(r * stride), len);
                    let ds = std::slice::from_raw_parts_mut(ds.add(r * stride), len);
                    match saved {
                        AttentionSaved::Probabilities(_) => p.copy_from_slice(&saved_rows[r * length..r * length + len]),
                        AttentionSaved::LogSumExp(_) => probabilities::<V>(p, scale, saved_rows[r]),
                    }
                    let factors = job.dropout.map(|_| std::slice::from_raw_parts(factors.add(r * length), len));
                    if let Some(factors) = factors {
                        multiply::<V>(ds, factors);
                    }
                    score_gradient::<V>(p, ds, scale);
                    if let Some(factors) = factors {
                        multiply::<V>(p, factors);
                    }
                    products.round::<V>(p);
                    products.round::<V>(ds);
                }
                products.pack::<V>(q_tile, rows, head_width, packed_q);
                products.pack::<V>(dout_tile, rows, head_width, packed_dout);
                let p_t = Source { at: p, row: 1, column: stride };
                let ds_t = Source { at: ds, row: 1, column: stride };
                let ds_rows = Source { at: ds, row: stride, column: 1 };
                products.small::<V>(p_t, packed_dout, (len, rows, head_width), dv, row_stride, top > 0);
                products.small::<V>(ds_t, packed_q, (len, rows, head_width), dk, row_stride, top > 0);
                products.small::<V>(ds_rows, keys, (rows, len, head_width), dq.add(top * row_stride), row_stride, false);
            }
        }
    }
}

/// `exp(scale * score - log_sum)` in place.
#[inline(always)]
fn probabilities<V: Vector>(row: &mut [f32], scale: f32, log_sum: f32) {
    let (scale, shift) = (V::splat(scale), V::splat(-log_sum));
    for i in (0..row.len()).step_by(V::LANES) {
        exp([V::read(row, i).fma(scale, shift)])[0].write(row, i);
    }
}

/// Gradient of the scores from the probabilities and their gradient, in place of the latter.
#[inline(always)]
fn score_gradient<V: Vector>(p: &[f32], dp: &mut [f32], scale: f32) {
    let mut dot = V::zero();
    for i in (0..p.len()).step_by(V::LANES) {
        dot = V::read(p, i).fma(V::read(dp, i), dot);
    }
    let (dot, scale) = (V::splat(dot.sum()), V::splat(scale));
    for i in (0..p.len()).step_by(V::LANES) {
        V::read(p, i).mul(V::read(dp, i).sub(dot)).mul(scale).write(dp, i);
    }
}
