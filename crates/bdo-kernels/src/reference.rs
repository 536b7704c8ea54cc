//! The slow twins that kernels are compared with, most of them in double precision: written for trust and not for speed.

use crate::attention::{AttentionShape, Dropout};
use crate::gemm::{Matrix, Product};
use crate::linear::LinearShape;
use crate::loss::{ErrorShape, MaskedError};
use crate::scan::{ScanInput, ScanShape};

/// `A B`, row-major, accumulated in `f64`.
pub fn gemm(size: Product, a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    let mut c = Vec::with_capacity(size.rows * size.columns);
    for i in 0..size.rows {
        for j in 0..size.columns {
            let mut sum = 0.0f64;
            for p in 0..size.depth {
                let left = a.data[i * a.row_stride + p * a.column_stride];
                let right = b.data[p * b.row_stride + j * b.column_stride];
                sum += f64::from(left) * f64::from(right);
            }
            c.push(sum as f32);
        }
    }
    c
}

/// `x W^T + b`.
pub fn linear(shape: LinearShape, x: &[f64], w: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let mut y = Vec::with_capacity(shape.rows * shape.outputs);
    for r in 0..shape.rows {
        for o in 0..shape.outputs {
            let dot: f64 = (0..shape.inputs).map(|i| x[r * shape.inputs + i] * w[o * shape.inputs + i]).sum();
            y.push(dot + bias.map_or(0.0, |bias| bias[o]));
        }
    }
    y
}

/// (dx, dw, db) of `x W^T + b`.
pub fn linear_backward(shape: LinearShape, x: &[f64], w: &[f64], dy: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let LinearShape { rows, inputs, outputs } = shape;
    let (mut dx, mut dw, mut db) = (vec![0.0; rows * inputs], vec![0.0; outputs * inputs], vec![0.0; outputs]);
    for r in 0..rows {
        for o in 0..outputs {
            let d = dy[r * outputs + o];
            db[o] += d;
            for i in 0..inputs {
                dx[r * inputs + i] += d * w[o * inputs + i];
                dw[o * inputs + i] += d * x[r * inputs + i];
            }
        }
    }
    (dx, dw, db)
}

/// Softmax of one row.
pub fn softmax_row(x: &[f64]) -> Vec<f64> {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|v| (v - top).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}

/// One row of a layer norm: (normalised output, mean, rstd).
pub fn norm_row(x: &[f64], gamma: &[f64], beta: &[f64], eps: f64) -> (Vec<f64>, f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    let rstd = 1.0 / (variance + eps).sqrt();
    (x.iter().zip(gamma.iter().zip(beta)).map(|(v, (g, b))| (v - mean) * rstd * g + b).collect(), mean, rstd)
}

/// Attention as it is defined, one query at a time.
pub fn attention(shape: AttentionShape, qkv: &[f64], lens: &[usize], dropout: Option<&Dropout>) -> Vec<f64> {
    let AttentionShape { batch, length, heads, head_width } = shape;
    let width = shape.width();
    let at = |b: usize, t: usize, part: usize, h: usize, i: usize| {
        qkv[(b * length + t) * 3 * width + part * width + h * head_width + i]
    };
    let mut out = vec![0.0; batch * length * width];
    for b in 0..batch {
        let len = lens[b];
        for h in 0..heads {
            for t in 0..len {
                let score = |s: usize| -> f64 {
                    let dot: f64 = (0..head_width).map(|i| at(b, t, 0, h, i) * at(b, s, 1, h, i)).sum();
                    dot / (head_width as f64).sqrt()
                };
                let mut p = softmax_row(&(0..len).map(score).collect::<Vec<_>>());
                if let Some(dropout) = dropout {
                    let first = shape.first_of_row(b, h, t);
                    p.iter_mut().enumerate().for_each(|(s, p)| *p *= dropout_factor(dropout, first + s));
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
pub fn dropout_factor(dropout: &Dropout, position: usize) -> f64 {
    let block = chacha12(&dropout.key, (position / 8) as u64);
    let word = |i: usize| u64::from(block[2 * (position % 8) + i]);
    if word(0) | word(1) << 32 < dropout.least { 0.0 } else { f64::from(dropout.kept) }
}

/// The state a block of `ChaCha` begins with, nonce 0.
#[inline(always)]
pub(crate) fn chacha_start(key: &[u32; 8], block: u64) -> [u32; 16] {
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

/// The weighted sum of squared differences over valid columns.
pub fn masked_error(shape: ErrorShape, error: &MaskedError<'_>) -> f64 {
    let mut total = 0.0;
    for row in 0..shape.batch * shape.rows {
        for column in 0..shape.columns {
            let counts = error.valid.is_none_or(|valid| valid[row / shape.rows * shape.columns + column] > 0.5);
            if counts && error.row_weights[row] != 0.0 {
                let at = row * shape.columns + column;
                let difference = f64::from(error.prediction[at]) - f64::from(error.target[at]);
                total += f64::from(error.row_weights[row]) * difference * difference;
            }
        }
    }
    total
}

/// phi1 with the standard library's expm1.
pub fn phi1(x: f64) -> f64 {
    if x.abs() < 1e-5 { 1.0 - x / 2.0 + x * x / 6.0 } else { -(-x).exp_m1() / x }
}

/// phi1'.
pub fn phi1_slope(x: f64) -> f64 {
    if x.abs() < 1e-3 { -0.5 + x / 3.0 - x * x / 8.0 + x * x * x / 30.0 } else { ((-x).exp() - phi1(x)) / x }
}

/// Mean and variance of the latent process after every step, by the recurrence as written; start and rates in double precision.
pub fn moments(
    shape: ScanShape,
    input: &ScanInput<'_>,
    (alphahat, lambda): (&[f64], &[f64]),
    (mean0, variance0): (&[f64], &[f64]),
) -> (Vec<f64>, Vec<f64>) {
    let (mut mean, mut variance) = (Vec::new(), Vec::new());
    for sample in 0..shape.batch {
        let (mut m, mut p) = (mean0.to_vec(), variance0.to_vec());
        for step in 0..shape.steps {
            let delta = f64::from(input.delta[sample * shape.steps + step]);
            let token = input.token_at(shape, sample, step);
            for i in 0..shape.width {
                let x = delta * lambda[token + i];
                m[i] = (-x).exp() * m[i] + delta * phi1(x) * alphahat[token + i];
                p[i] = (-2.0 * x).exp() * p[i] + f64::from(input.diffusion) * delta * phi1(2.0 * x);
            }
            mean.extend_from_slice(&m);
            variance.extend_from_slice(&p);
        }
    }
    (mean, variance)
}
