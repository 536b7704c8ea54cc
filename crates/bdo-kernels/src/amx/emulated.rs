//! Tile registers in plain memory, so that the algorithm is tested on machines without AMX.

use super::tiles::{TILE_COLUMNS, TILE_DEPTH, TILE_ROWS, TILE_VALUES, Tiles};

/// Eight registers, each able to hold an operand or a sum.
pub struct EmulatedTiles {
    operands: Box<[[u16; TILE_VALUES]; 8]>,
    sums: Box<[[f32; TILE_ROWS * TILE_COLUMNS]; 8]>,
}

fn widened(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

// SAFETY: `load` and `store` touch exactly one tile.
unsafe impl Tiles for EmulatedTiles {
    unsafe fn configure() -> Self {
        Self { operands: Box::new([[0; TILE_VALUES]; 8]), sums: Box::new([[0.0; TILE_ROWS * TILE_COLUMNS]; 8]) }
    }

    unsafe fn zero<const T: usize>(&mut self) {
        self.sums[T] = [0.0; TILE_ROWS * TILE_COLUMNS];
    }

    unsafe fn load<const T: usize>(&mut self, from: *const u16) {
        // SAFETY: the caller promises a readable tile.
        unsafe { std::ptr::copy_nonoverlapping(from, self.operands[T].as_mut_ptr(), TILE_VALUES) }
    }

    unsafe fn dot<const C: usize, const A: usize, const B: usize>(&mut self) {
        let (a, b) = (&self.operands[A], &self.operands[B]);
        for i in 0..TILE_ROWS {
            for pair in 0..TILE_DEPTH / 2 {
                let left = [widened(a[i * TILE_DEPTH + 2 * pair]), widened(a[i * TILE_DEPTH + 2 * pair + 1])];
                for j in 0..TILE_COLUMNS {
                    let at = pair * TILE_DEPTH + 2 * j;
                    self.sums[C][i * TILE_COLUMNS + j] += left[0] * widened(b[at]) + left[1] * widened(b[at + 1]);
                }
            }
        }
    }

    unsafe fn store<const T: usize>(&mut self, to: *mut f32, stride: usize) {
        for (i, row) in self.sums[T].chunks_exact(TILE_COLUMNS).enumerate() {
            // SAFETY: the caller promises 16 writable rows at this stride.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), to.add(i * stride), TILE_COLUMNS) };
        }
    }
}
