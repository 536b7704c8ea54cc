//! Scores, softmax and mixture of one tile of query rows after another.

use super::{AttentionSaved, AttentionShape, Dropout, Job, Products, multiply};
use crate::gemm::pack::Source;
use crate::isa::vectorised;
use crate::threads::{Scratch, Shared, filled, for_each_task, shared};
use crate::vector::Vector;
use crate::vector::elementary::{TOGETHER, exp};

/// Softmax attention of every head; also what the backward pass needs.
///
/// Keys from `lens[sample]` on are ignored and query rows from there on give zeros. What is saved is without dropout.
pub fn forward(
    products: Products,
    shape: AttentionShape,
    qkv: &[f32],
    lens: &[usize],
    dropout: Option<Dropout>,
) -> (Vec<f32>, AttentionSaved) {
    let rows = shape.batch * shape.heads * shape.length;
    let keep = shape.keeps_probabilities();
    // Padded rows are never computed, so the saved values start from zero.
    let mut saved = vec![0.0; if keep { rows * shape.length } else { rows }];
    let out = run(products, shape, qkv, lens, dropout, Some(Shared(saved.as_mut_ptr())));
    (out, if keep { AttentionSaved::Probabilities(saved) } else { AttentionSaved::LogSumExp(saved) })
}

/// As [`forward`], keeping nothing.
pub fn infer(
    products: Products,
    shape: AttentionShape,
    qkv: &[f32],
    lens: &[usize],
    dropout: Option<Dropout>,
) -> Vec<f32> {
    run(products, shape, qkv, lens, dropout, None)
}

/// What is kept, if anything, are probabilities or sums as the shape says.
fn run(
    products: Products,
    shape: AttentionShape,
    qkv: &[f32],
    lens: &[usize],
    dropout: Option<Dropout>,
    kept: Option<Shared>,
) -> Vec<f32> {
    shape.check(qkv, lens);
    let qkv = products.operand(qkv);
    let AttentionShape { batch, length, heads, .. } = shape;
    // Few heads of long sequences are cut by query rows too; every cut packs the keys and values again.
    let cuts = if batch * heads >= 16 { 1 } else { length.div_ceil(192).max(1) };
    let rows_per_cut = length.div_ceil(cuts);
    // SAFETY: the tasks write every row of every head, padded rows included, each its own.
    unsafe {
        filled(batch * length * shape.width(), |out| {
            let out = shared(out);
            for_each_task(batch * heads * cuts, |task| {
                let (head, cut) = (task / cuts, task % cuts);
                let rows = (cut * rows_per_cut, ((cut + 1) * rows_per_cut).min(length));
                let len = lens[head / heads];
                let job = Job { products, shape, len, sample: head / heads, head: head % heads, dropout, out };
                head_rows(products.isa, job, rows, kept, &qkv);
            });
        })
    }
}

vectorised! {
    fn head_rows<V>(job: Job, rows: (usize, usize), kept: Option<Shared>, qkv: &[f32]) {
        let (products, AttentionShape { length, heads, head_width, .. }) = (job.products, job.shape);
        let (width, len) = (job.shape.width(), job.len);
        let stride = job.shape.score_stride();
        let scale = 1.0 / (head_width as f32).sqrt();
        // SAFETY: qkv was checked against the shape; this task owns these rows of this head of the output and of what
        // is kept; the scratch spaces have the sizes the packing and the tiles need.
        unsafe {
            let out = job.out.0.add(job.sample * length * width + job.head * head_width);
            for r in rows.0.max(len)..rows.1.max(len) {
                std::ptr::write_bytes(out.add(r * width), 0, head_width);
            }
            if rows.0 >= len {
                return;
            }
            let q = qkv.as_ptr().add(job.sample * length * 3 * width + job.head * head_width);
            let (k, v) = (q.add(width), q.add(2 * width));
            let mut keys = Scratch::new(products.right_len::<V>(head_width, len));
            let mut values = Scratch::new(products.right_len::<V>(len, head_width));
            let (keys, values) = (keys.start().0, values.start().0);
            products.pack::<V>(Source { at: k, row: 1, column: 3 * width }, head_width, len, keys);
            products.pack::<V>(Source { at: v, row: 3 * width, column: 1 }, len, head_width, values);
            let tile_rows = job.shape.rows_per_tile();
            let mut scratch = Scratch::new(tile_rows * stride + job.shape.factors_per_tile(job.dropout));
            let scores = scratch.start().0;
            let factors = scores.add(tile_rows * stride);
            let bottom = rows.1.min(len);
            for top in (rows.0..bottom).step_by(tile_rows) {
                let rows = (bottom - top).min(tile_rows);
                let a = Source { at: q.add(top * 3 * width), row: 3 * width, column: 1 };
                products.small::<V>(a, keys, (rows, head_width, len), scores, stride, false);
                job.factors::<V>(top, rows, factors);
                for r in 0..rows {
                    let row = std::slice::from_raw_parts_mut(scores.add(r * stride), len.next_multiple_of(V::LANES));
                    row[len..].fill(f32::NEG_INFINITY);
                    let log_sum = softmax_row::<V>(row, scale);
                    let at = (job.sample * heads + job.head) * length + top + r;
                    match kept {
                        Some(kept) if job.shape.keeps_probabilities() => {
                            std::ptr::copy_nonoverlapping(row.as_ptr(), kept.0.add(at * length), len);
                        }
                        Some(kept) => *kept.0.add(at) = log_sum,
                        None => {}
                    }
                    if job.dropout.is_some() {
                        multiply::<V>(&mut row[..len], std::slice::from_raw_parts(factors.add(r * length), len));
                    }
                    products.round::<V>(row);
                }
                let a = Source { at: scores, row: stride, column: 1 };
                products.small::<V>(a, values, (rows, len, head_width), out.add(top * width), width, false);
            }
        }
    }
}

/// Softmax of `scale * row` in place, over whole vectors; returns the log of the sum of exponentials.
#[inline(always)]
fn softmax_row<V: Vector>(row: &mut [f32], scale: f32) -> f32 {
    let mut top = V::splat(f32::NEG_INFINITY);
    for i in (0..row.len()).step_by(V::LANES) {
        top = top.max(V::read(row, i));
    }
    let largest = top.largest();
    let (top, scale_all) = (V::splat(-largest * scale), V::splat(scale));
    let mut sum = V::zero();
    let mut i = 0;
    while i + TOGETHER * V::LANES <= row.len() {
        let mut x = [V::zero(); TOGETHER];
        for (k, x) in x.iter_mut().enumerate() {
            *x = V::read(row, i + k * V::LANES).fma(scale_all, top);
        }
        for (k, e) in exp(x).into_iter().enumerate() {
            e.write(row, i + k * V::LANES);
            sum = sum.add(e);
        }
        i += TOGETHER * V::LANES;
    }
    for i in (i..row.len()).step_by(V::LANES) {
        let [e] = exp([V::read(row, i).fma(scale_all, top)]);
        e.write(row, i);
        sum = sum.add(e);
    }
    let sum = sum.sum();
    let inverse = V::splat(1.0 / sum);
    for i in (0..row.len()).step_by(V::LANES) {
        V::read(row, i).mul(inverse).write(row, i);
    }
    largest * scale + sum.ln()
}
