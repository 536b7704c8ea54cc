//! The slow twin in double precision.

use super::AttentionShape;
use crate::softmax::reference::row;

/// Attention as it is defined, one query at a time.
pub fn forward(shape: AttentionShape, qkv: &[f64], lens: Option<&[usize]>) -> Vec<f64> {
    let AttentionShape { batch, length, heads, head_width } = shape;
    let width = shape.width();
    let at = |b: usize, t: usize, part: usize, h: usize, i: usize| {
        qkv[(b * length + t) * 3 * width + part * width + h * head_width + i]
    };
    let mut out = vec![0.0; batch * length * width];
    for b in 0..batch {
        let len = shape.len_of(lens, b);
        for h in 0..heads {
            for t in 0..len {
                let score = |s: usize| -> f64 {
                    let dot: f64 = (0..head_width).map(|i| at(b, t, 0, h, i) * at(b, s, 1, h, i)).sum();
                    dot / (head_width as f64).sqrt()
                };
                let p = row(&(0..len).map(score).collect::<Vec<_>>());
                for i in 0..head_width {
                    out[(b * length + t) * width + h * head_width + i] =
                        p.iter().enumerate().map(|(s, p)| p * at(b, s, 2, h, i)).sum();
                }
            }
        }
    }
    out
}
