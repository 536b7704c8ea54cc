//! The slow twin in double precision.

use super::{AttentionShape, Dropout};
use crate::softmax::reference::row;

/// Attention as it is defined, one query at a time.
pub fn forward(shape: AttentionShape, qkv: &[f64], lens: Option<&[usize]>, dropout: Option<&Dropout>) -> Vec<f64> {
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
                let mut p = row(&(0..len).map(score).collect::<Vec<_>>());
                if let Some(dropout) = dropout {
                    let first = shape.first_of_row(b, h, t);
                    p.iter_mut().enumerate().for_each(|(s, p)| *p *= factor(dropout, first + s));
                }
                for i in 0..head_width {
                    out[(b * length + t) * width + h * head_width + i] =
                        p.iter().enumerate().map(|(s, p)| p * at(b, s, 2, h, i)).sum();
                }
            }
        }
    }
    out
}

/// What dropout multiplies the probability at a position of `[batch, heads, length, length]` by.
pub fn factor(dropout: &Dropout, position: usize) -> f64 {
    let block = chacha12(&dropout.key, (position / 8) as u64);
    let word = |i: usize| u64::from(block[2 * (position % 8) + i]);
    if word(0) | word(1) << 32 < dropout.least { 0.0 } else { f64::from(dropout.kept) }
}

/// The state a block of `ChaCha` begins with, nonce 0.
#[inline(always)]
pub(super) fn chacha_start(key: &[u32; 8], block: u64) -> [u32; 16] {
    let [a, b, c, d, e, f, g, h] = *key;
    // "expand 32-byte k".
    let text = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
    [text[0], text[1], text[2], text[3], a, b, c, d, e, f, g, h, block as u32, (block >> 32) as u32, 0, 0]
}

/// One block, as the cipher is defined.
fn chacha12(key: &[u32; 8], block: u64) -> [u32; 16] {
    let columns = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
    let diagonals = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
    let start = chacha_start(key, block);
    let mut s = start;
    for _ in 0..6 {
        for [a, b, c, d] in columns.into_iter().chain(diagonals) {
            for (into, other, mixed, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                s[into] = s[into].wrapping_add(s[other]);
                s[mixed] = (s[mixed] ^ s[into]).rotate_left(turn);
            }
        }
    }
    std::array::from_fn(|i| s[i].wrapping_add(start[i]))
}
