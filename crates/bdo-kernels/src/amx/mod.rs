//! Products with operands rounded to bfloat16 and `f32` sums, on AMX tiles.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod native;
mod pack;
pub(crate) mod product;
mod tiles;

use crate::gemm::tile::Addend;
use crate::gemm::{Matrix, Product};
use crate::isa::Isa;
use crate::threads::Shared;

/// Whether this process may use AMX tiles: the processor reports AMX-TILE and AMX-BF16, the machine has AVX-512, and
/// the kernel granted the tile state. Leaf 0x1D is not asked: virtual machines hide it although tiles work.
pub fn is_available() -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        native::is_available()
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    {
        false
    }
}

/// GFLOP/s of tile products on registers only, on `threads` threads; `None` where there are no tiles.
pub fn peak_gflops(threads: usize) -> Option<f64> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        native::bf16_gflops(threads)
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    {
        let _ = threads;
        None
    }
}

/// `A B` by the tile algorithm on emulated tiles: the same code path as on AMX, for tests on any machine.
pub fn gemm_emulated(isa: Isa, size: Product, a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    gemm_on(isa, product::Engine::Emulated, size, a, b)
}

/// `A B` on the tiles of this machine, or `None` if it has none.
pub fn gemm_native(isa: Isa, size: Product, a: Matrix<'_>, b: Matrix<'_>) -> Option<Vec<f32>> {
    is_available().then(|| gemm_on(isa, product::Engine::Native, size, a, b))
}

fn gemm_on(isa: Isa, engine: product::Engine, size: Product, a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    let mut c = vec![0.0; size.rows * size.columns];
    let (a, b) = (a.source(size.rows, size.depth, "A"), b.source(size.depth, size.columns, "B"));
    // SAFETY: the operands were checked against the size, and the native engine is chosen only where available.
    unsafe { product::multiply(isa, engine, size, a, b, Shared(c.as_mut_ptr()), [Addend::NONE; 2], None) };
    c
}
