//! The tile registers of the machine, by inline assembly: stable Rust has no intrinsics for them yet.

use super::tiles::{TILE_COLUMNS, TILE_DEPTH, TILE_ROWS, Tiles};
use crate::isa::Isa;
use crate::peak::gflops;
use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

/// See [`super::is_available`]; asked once.
pub(super) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        const AMX_BF16: u32 = 1 << 22;
        const AMX_TILE: u32 = 1 << 24;
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        if !Isa::Avx512.is_available() {
            return false;
        }
        let features = __cpuid_count(7, 0).edx;
        if features & AMX_BF16 == 0 || features & AMX_TILE == 0 {
            return false;
        }
        // SAFETY: arch_prctl with two integers; it only asks the kernel to let this process use the tile state.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    })
}

/// The registers of this thread, from `configure` until dropped.
///
/// The compiler never touches tile registers itself, so their contents survive between the blocks of assembly.
pub(super) struct NativeTiles(());

/// Palette 1, eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

// SAFETY: loads and stores touch exactly one tile.
unsafe impl Tiles for NativeTiles {
    #[inline(always)]
    unsafe fn configure() -> Self {
        let mut all = Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        all.row_bytes[..8].fill(64);
        all.rows[..8].fill(16);
        // SAFETY: the caller promises AMX; the configuration is 64 readable bytes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const all, options(nostack)) };
        Self(())
    }

    #[inline(always)]
    unsafe fn zero<const T: usize>(&mut self) {
        // SAFETY: the registers are configured.
        unsafe { asm!("tilezero tmm{}", const T, options(nostack, nomem)) };
    }

    #[inline(always)]
    unsafe fn load<const T: usize>(&mut self, from: *const u16) {
        // SAFETY: the registers are configured, and the caller promises a readable tile of 64-byte rows.
        unsafe {
            asm!("tileloadd tmm{}, [{} + {}*1]", const T, in(reg) from, in(reg) 64usize, options(nostack, readonly));
        }
    }

    #[inline(always)]
    unsafe fn dot<const C: usize, const A: usize, const B: usize>(&mut self) {
        // SAFETY: the registers are configured.
        unsafe { asm!("tdpbf16ps tmm{}, tmm{}, tmm{}", const C, const A, const B, options(nostack, nomem)) };
    }

    #[inline(always)]
    unsafe fn store<const T: usize>(&mut self, to: *mut f32, stride: usize) {
        // SAFETY: the registers are configured, and the caller promises 16 writable rows at this stride.
        unsafe {
            asm!("tilestored [{} + {}*1], tmm{}", in(reg) to, in(reg) 4 * stride, const T, options(nostack));
        }
    }
}

impl Drop for NativeTiles {
    fn drop(&mut self) {
        // SAFETY: a value exists only where `configure` ran; releasing saves the kernel the tile state on a switch.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// GFLOP/s of tile products that never touch memory, on `threads` threads of their own; `None` without AMX.
pub(super) fn bf16_gflops(threads: usize) -> Option<f64> {
    const STEPS: usize = 1 << 16;
    let operations = 2.0 * 6.0 * (TILE_ROWS * TILE_COLUMNS * TILE_DEPTH) as f64 * STEPS as f64;
    is_available().then(|| gflops(threads, operations, || products(STEPS)))
}

/// Six independent sums: enough to hide the latency of a product.
fn products(steps: usize) {
    // SAFETY: the caller made sure that tiles are available; all registers are below 8 and configured here.
    unsafe {
        let mut tiles = NativeTiles::configure();
        for _ in 0..steps {
            tiles.dot::<0, 6, 7>();
            tiles.dot::<1, 6, 7>();
            tiles.dot::<2, 6, 7>();
            tiles.dot::<3, 6, 7>();
            tiles.dot::<4, 6, 7>();
            tiles.dot::<5, 6, 7>();
        }
    }
}
