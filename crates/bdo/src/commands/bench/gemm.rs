//! The matrix products of a linear layer at the model's shapes.

use std::fmt::Write;
use std::time::Instant;

use bdo_kernels::Isa;
use bdo_kernels::gemm::{Matrix, Product, gemm};
use serde_json::json;

use super::limits::Limits;
use super::rounded;
use crate::answer::Answer;

/// Rows of a batch of 32 scans: 40 context tokens each, then 120 target tokens.
const ROWS: [usize; 2] = [1280, 3840];
const WIDTHS: [usize; 3] = [192, 384, 768];

pub(super) fn run() -> Answer {
    let limits = Limits::measure();
    let (isa, peak) = (Isa::current(), limits.f32_gflops);
    let mut text = format!(
        "{isa}, {} threads, f32 limit {peak:.0} GFLOP/s; share of it in brackets\n  rows   in -> out   forward       dX            dW\n",
        rayon::current_num_threads()
    );
    let mut rows = vec![];
    for (m, width) in ROWS.into_iter().flat_map(|m| WIDTHS.map(|w| (m, w))) {
        for (inputs, outputs) in
            [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width), (450, width), (width, 450)]
        {
            let [forward, dx, dw] = speeds(isa, m, inputs, outputs);
            rows.push(json!({"rows": m, "in": inputs, "out": outputs, "forward_gflops": rounded(forward), "dx_gflops": rounded(dx), "dw_gflops": rounded(dw)}));
            let _ = write!(text, "{m:6} {inputs:4} -> {outputs:<4}");
            for speed in [forward, dx, dw] {
                let _ = write!(text, " {speed:7.1} ({:.2})", speed / peak);
            }
            text.push('\n');
        }
    }
    let limits = json!({"f32_gflops": rounded(peak), "bf16_gflops": limits.bf16_gflops.map(rounded)});
    Answer::new(json!({"task": "gemm", "limits": limits, "rows": rows}), text)
}

/// GFLOP/s of y = x W', dx = dy W and dW = dy' x.
fn speeds(isa: Isa, rows: usize, inputs: usize, outputs: usize) -> [f64; 3] {
    let values = |len: usize| (0..len).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0).collect::<Vec<f32>>();
    let (x, w, dy) = (values(rows * inputs), values(outputs * inputs), values(rows * outputs));
    let (mut y, mut dx, mut dw) = (vec![0.0; rows * outputs], vec![0.0; rows * inputs], vec![0.0; outputs * inputs]);
    let gflop = 2e-9 * rows as f64 * inputs as f64 * outputs as f64;
    let (xm, wm, dym) = (Matrix::row_major(&x, inputs), Matrix::row_major(&w, inputs), Matrix::row_major(&dy, outputs));
    let forward = Product { rows, depth: inputs, columns: outputs };
    let to_x = Product { rows, depth: outputs, columns: inputs };
    let to_w = Product { rows: outputs, depth: rows, columns: inputs };
    [
        gflop / best_seconds(|| gemm(isa, forward, xm, Matrix::transposed(&w, inputs), &mut y)),
        gflop / best_seconds(|| gemm(isa, to_x, dym, wm, &mut dx)),
        gflop / best_seconds(|| gemm(isa, to_w, Matrix::transposed(&dy, outputs), xm, &mut dw)),
    ]
}

/// Seconds of the fastest of several runs: the machine may be shared, and only the fastest says what the code costs.
pub(super) fn best_seconds(mut run: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let started = Instant::now();
        run();
        best = best.min(started.elapsed().as_secs_f64());
        if begin.elapsed().as_secs_f64() > 0.25 {
            break;
        }
    }
    best
}
