//! Measured limits of the machine.

use bdo_kernels::{Isa, amx, peak};

/// Measured limits of the machine with the current number of threads.
pub(super) struct Limits {
    /// Multiply-adds on registers only.
    pub(super) f32_gflops: f64,
    /// The same on bfloat16 tiles, where the machine has them.
    pub(super) bf16_gflops: Option<f64>,
}

impl Limits {
    /// Takes about a tenth of a second.
    pub(super) fn measure() -> Self {
        let threads = rayon::current_num_threads();
        Self { f32_gflops: peak::f32_fma_gflops(Isa::current(), threads), bf16_gflops: amx::peak_gflops(threads) }
    }
}
