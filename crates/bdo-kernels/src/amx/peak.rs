//! What the tiles could do at best: multiplications of registers only.

use super::native::{self, NativeTiles};
use super::tiles::{TILE_COLUMNS, TILE_DEPTH, TILE_ROWS, Tiles};
use std::time::Instant;

/// GFLOP/s of tile products that never touch memory, on `threads` threads of their own; `None` without AMX.
pub(super) fn bf16_gflops(threads: usize) -> Option<f64> {
    const STEPS: usize = 1 << 16;
    if !native::is_available() {
        return None;
    }
    let mut best = 0.0f64;
    for _ in 0..5 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| products(STEPS));
            }
        });
        let flops = 2.0 * 6.0 * (TILE_ROWS * TILE_COLUMNS * TILE_DEPTH) as f64 * STEPS as f64 * threads as f64;
        best = best.max(flops / start.elapsed().as_secs_f64() / 1e9);
    }
    Some(best)
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
