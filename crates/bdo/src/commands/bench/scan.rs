//! The moments of the latent process along scans of growing length: the cost is linear in frames and in width.

use std::fmt::Write;

use bdo_kernels::Isa;
use bdo_kernels::scan::{ScanInput, ScanShape, forward};
use serde_json::json;

use super::gemm::best_seconds;
use super::{Workload, rounded, workload};
use crate::answer::Answer;

const FRAMES: [usize; 4] = [100, 1000, 10_000, 100_000];

pub(super) fn run(args: &Workload) -> Answer {
    let isa = Isa::current();
    let mut text = String::from("  frames  width       ms   ns a frame and dimension      MiB of results\n");
    let mut rows = vec![];
    for width in [192, 384, 768] {
        for frames in FRAMES {
            let shape = ScanShape { batch: 1, contexts: (frames / 4).max(1), steps: frames, width };
            let seconds = seconds(isa, shape);
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

fn seconds(isa: Isa, shape: ScanShape) -> f64 {
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
