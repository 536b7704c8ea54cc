//! What the machine could do at best: fused multiply-adds on registers only.

use crate::isa::{Isa, vectorised};
use std::time::Instant;

/// GFLOP/s of multiply-adds that never touch memory, on `threads` threads of their own.
pub fn f32_fma_gflops(isa: Isa, threads: usize) -> f64 {
    const STEPS: usize = 1 << 21;
    let lanes = if isa == Isa::Avx512 { 16.0 } else { 8.0 };
    gflops(threads, 2.0 * 12.0 * lanes * STEPS as f64, || {
        std::hint::black_box(chains(isa, STEPS));
    })
}

/// The best of five short runs of work of so many operations on each thread.
pub(crate) fn gflops(threads: usize, operations: f64, work: impl Fn() + Sync) -> f64 {
    let run = |_| {
        let start = Instant::now();
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(&work))));
        operations * threads as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..5).map(run).fold(0.0, f64::max)
}

vectorised! {
    /// Twelve independent chains: more than the latency of two multiply-add units can use.
    fn chains<V>(steps: usize) -> f32 {
        let mut acc = [V::splat(1.0); 12];
        let factor = V::splat(std::hint::black_box(0.999_9));
        let addend = V::splat(std::hint::black_box(1e-4));
        for _ in 0..steps {
            for value in &mut acc {
                *value = value.fma(factor, addend);
            }
        }
        let mut total = V::zero();
        for value in acc {
            total = total.add(value);
        }
        total.sum()
    }
}
