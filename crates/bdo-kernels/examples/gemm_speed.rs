//! Prints the speed of the three products of a linear layer at the model's shapes, against the machine's peak.

use bdo_kernels::gemm::{Matrix, Product, gemm};
use bdo_kernels::{Isa, peak};
use std::time::Instant;

fn main() {
    bdo_kernels::allocator::tune_allocator();
    let mut arguments = std::env::args().skip(1);
    let only: Option<usize> = arguments.next().and_then(|width| width.parse().ok());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let isa = Isa::current();
    let peak = peak::f32_fma_gflops(isa, threads);
    println!("{isa}, {threads} threads, peak {peak:.1} GFLOP/s");
    println!("  rows in->out        forward           dX           dW   (GFLOP/s, share of peak)");
    for rows in [1280, 3840] {
        for width in [192, 384, 768] {
            if only.is_some_and(|only| only != width) {
                continue;
            }
            let shapes = [(1, 3), (1, 1), (1, 4), (4, 1)].map(|(i, o)| (i * width, o * width));
            for (inputs, outputs) in shapes.into_iter().chain([(450, width), (width, 450)]) {
                print_shape(isa, peak, rows, inputs, outputs);
            }
        }
    }
}

fn print_shape(isa: Isa, peak: f64, rows: usize, inputs: usize, outputs: usize) {
    let values = |len: usize| (0..len).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0).collect::<Vec<f32>>();
    let (x, w, dy) = (values(rows * inputs), values(outputs * inputs), values(rows * outputs));
    let (mut y, mut dx, mut dw) = (vec![0.0; rows * outputs], vec![0.0; rows * inputs], vec![0.0; outputs * inputs]);
    let flops = 2.0 * rows as f64 * inputs as f64 * outputs as f64;
    let forward = Product { rows, depth: inputs, columns: outputs };
    let to_x = Product { rows, depth: outputs, columns: inputs };
    let to_w = Product { rows: outputs, depth: rows, columns: inputs };
    let (xm, wm) = (Matrix::row_major(&x, inputs), Matrix::row_major(&w, inputs));
    let dym = Matrix::row_major(&dy, outputs);
    let speeds = [
        flops / best(|| gemm(isa, forward, 1.0, xm, Matrix::transposed(&w, inputs), &mut y, false)),
        flops / best(|| gemm(isa, to_x, 1.0, dym, wm, &mut dx, false)),
        flops / best(|| gemm(isa, to_w, 1.0, Matrix::transposed(&dy, outputs), xm, &mut dw, false)),
    ];
    print!("{rows:6} {inputs:4}->{outputs:4}");
    for speed in speeds {
        print!("   {:6.1} {:3.0}%", speed / 1e9, 100.0 * speed / 1e9 / peak);
    }
    println!();
}

/// Seconds of the fastest of several runs: the machine may be shared, and only the fastest run says what the code costs.
fn best(mut run: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    for _ in 0..200 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
        if begin.elapsed().as_secs_f64() > 0.25 {
            break;
        }
    }
    best
}
