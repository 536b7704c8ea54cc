//! What the product needs of a set of tile registers.

/// Rows of a tile.
pub const TILE_ROWS: usize = 16;
/// bfloat16 values in a row of an operand tile: the steps of depth one multiplication covers.
pub const TILE_DEPTH: usize = 32;
/// `f32` values in a row of a sum tile.
pub const TILE_COLUMNS: usize = 16;
/// bfloat16 values in an operand tile.
pub const TILE_VALUES: usize = TILE_ROWS * TILE_DEPTH;

/// Eight tile registers of 16 rows of 64 bytes, named by constants 0..8.
///
/// # Safety
/// An implementation reads and writes exactly the memory its methods name.
pub unsafe trait Tiles {
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
