//! What the product needs of a set of tile registers, and registers in plain memory, so that the algorithm is tested on machines
//! without AMX.

/// Rows of a tile.
pub(super) const TILE_ROWS: usize = 16;
/// bfloat16 values in a row of an operand tile: the steps of depth one multiplication covers.
pub(super) const TILE_DEPTH: usize = 32;
/// `f32` values in a row of a sum tile.
pub(super) const TILE_COLUMNS: usize = 16;
/// bfloat16 values in an operand tile.
pub(super) const TILE_VALUES: usize = TILE_ROWS * TILE_DEPTH;

/// Eight tile registers of 16 rows of 64 bytes, named by constants 0..8.
///
/// # Safety
/// An implementation reads and writes exactly the memory its methods name.
pub(super) unsafe trait Tiles {
    /// Takes the registers into use on this thread.
    ///
    /// # Safety
    /// The machine has what the implementation needs.
    unsafe fn configure() -> Self;
    /// Sets a sum tile to zero.
    ///
    /// # Safety
    /// `T < 8`.
    unsafe fn zero<const T: usize>(&mut self);
    /// Loads an operand tile of [`TILE_VALUES`] adjacent values.
    ///
    /// # Safety
    /// `T < 8`; `from` is readable for a tile.
    unsafe fn load<const T: usize>(&mut self, from: *const u16);
    /// Adds A times B to the sum tile C: `c[i][j] += sum over p, q of a[i][2 p + q] * b[p][2 j + q]`.
    ///
    /// # Safety
    /// All three are below 8.
    unsafe fn dot<const C: usize, const A: usize, const B: usize>(&mut self);
    /// Stores a sum tile, rows `stride` values apart.
    ///
    /// # Safety
    /// `T < 8`; `to` is writable for 16 rows of 16 values.
    unsafe fn store<const T: usize>(&mut self, to: *mut f32, stride: usize);
}

/// Eight registers, each able to hold an operand or a sum.
pub(super) struct EmulatedTiles {
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
