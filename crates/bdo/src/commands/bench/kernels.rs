//! Kernels alone: the matrix products of a linear layer at the model's shapes, the moments of the latent process along scans of
//! growing length (the cost is linear in frames and in width), and what the machine could do.

use std::fmt::Write;
use std::time::Instant;

use bdo_kernels::gemm::{Matrix, Product, gemm};
use bdo_kernels::scan::{ScanInput, ScanShape, forward};
use bdo_kernels::{Isa, amx, peak};
use serde_json::json;

use super::{Workload, rounded, workload};
use crate::answer::Answer;

/// Multiply-adds on registers only with the current number of threads, which takes about a tenth of a second; then the same on
/// bfloat16 tiles, where the machine has them.
pub(super) fn limits() -> (f64, Option<f64>) {
    let threads = rayon::current_num_threads();
    (peak::f32_fma_gflops(Isa::current(), threads), amx::peak_gflops(threads))
}

/// Rows of a batch of 32 scans: 40 context tokens each, then 120 target tokens.
const ROWS: [usize; 2] = [1280, 3840];
const WIDTHS: [usize; 3] = [192, 384, 768];

pub(super) fn gemm_bench() -> Answer {
    let (isa, (peak, bf16)) = (Isa::current(), limits());
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
    let limits = json!({"f32_gflops": rounded(peak), "bf16_gflops": bf16.map(rounded)});
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
fn best_seconds(mut run: impl FnMut()) -> f64 {
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

pub(super) fn scan_bench(args: &Workload) -> Answer {
    let isa = Isa::current();
    let mut text = String::from("  frames  width       ms   ns a frame and dimension      MiB of results\n");
    let mut rows = vec![];
    for width in [192, 384, 768] {
        for frames in [100, 1000, 10_000, 100_000] {
            let shape = ScanShape { batch: 1, contexts: (frames / 4).max(1), steps: frames, width };
            let seconds = scan_seconds(isa, shape);
            let cells = (frames * width) as f64;
            // Mean and variance, four bytes each.
            let mib = 8.0 * cells / f64::from(1 << 20);
            rows.push(json!({"frames": frames, "width": width, "ms": rounded(seconds * 1e3), "ns_per_cell": rounded(seconds * 1e9 / cells), "result_mib": rounded(mib)}));
            let _ =
                writeln!(text, "{frames:8} {width:6} {:8.3} {:26.2} {mib:19.1}", seconds * 1e3, seconds * 1e9 / cells);
        }
    }
    let _ =
        write!(text, "{isa}, {} threads, batch 1 (batch {} scales with it)", rayon::current_num_threads(), args.batch);
    Answer::new(json!({"task": "scan", "rows": rows}), text)
}

fn scan_seconds(isa: Isa, shape: ScanShape) -> f64 {
    let tokens = shape.contexts * shape.width;
    let alphahat = &workload::noise("bench-scan", &[0], tokens)[..];
    let lambda: &Vec<f32> = &workload::noise("bench-scan", &[1], tokens).iter().map(|x| 1.65 + 0.2 * x).collect();
    let driver: &Vec<u32> = &(0..shape.steps).map(|j| (j / 4).min(shape.contexts - 1) as u32).collect();
    let (delta, mean0, variance0) = (&vec![0.22; shape.steps], &vec![0.1; shape.width], &vec![1.0; shape.width]);
    let input = ScanInput { alphahat, lambda, driver, delta, mean0, variance0, diffusion: 1.0 };
    best_seconds(|| {
        std::hint::black_box(forward(isa, shape, input));
    })
}
