//! The product on tiles: operands rounded, padded and packed into tiles, sums in 32 x 32 blocks.

use super::emulated::EmulatedTiles;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::native::NativeTiles;
use super::tiles::{TILE_COLUMNS, TILE_DEPTH, TILE_ROWS, TILE_VALUES, Tiles};
use crate::gemm::Product;
use crate::gemm::pack::Source;
use crate::gemm::tile::Addend;
use crate::isa::{Isa, vectorised};
use crate::precision::bf16_bits;
use crate::threads::{Shared, for_each_task};

/// Which tiles do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The machine's own.
    Native,
    /// Plain memory.
    Emulated,
}

/// Rows and columns of a block: two tiles each way, so that every loaded tile is used twice.
const BLOCK: usize = 32;
/// Rows per task; their packed depth stays in the second-level cache.
const ROWS_PER_TASK: usize = 64;

/// One task of a product.
#[derive(Clone, Copy)]
struct Share {
    size: Product,
    a: Source,
    b: Source,
    /// Packed right operand `[columns / 16][depth / 32][tile]`.
    right: *mut u16,
    c: Shared,
    start: [Addend; 2],
    /// The task's number: a pair of column groups while packing, a group of rows while multiplying.
    task: usize,
}

// SAFETY: tasks read the operands and write disjoint parts of the packed operand or of C.
unsafe impl Send for Share {}
// SAFETY: as above.
unsafe impl Sync for Share {}

impl Share {
    fn numbered(&self, task: usize) -> Self {
        Self { task, ..*self }
    }
}

/// `C = start + A B` with operands rounded to bfloat16.
///
/// # Safety
/// The operands and addends cover the product; `c` is writable for it by nobody else; the engine is available.
pub(crate) unsafe fn multiply(
    isa: Isa,
    engine: Engine,
    size: Product,
    a: Source,
    b: Source,
    c: Shared,
    start: [Addend; 2],
) {
    let depth_tiles = size.depth.div_ceil(TILE_DEPTH);
    let column_blocks = size.columns.div_ceil(BLOCK);
    let mut right = vec![0u16; column_blocks * 2 * depth_tiles * TILE_VALUES];
    let share = Share { size, a, b, right: right.as_mut_ptr(), c, start, task: 0 };
    for_each_task(column_blocks, |task| pack_right(isa, share.numbered(task)));
    for_each_task(size.rows.div_ceil(ROWS_PER_TASK), |task| {
        let share = share.numbered(task);
        match engine {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Engine::Native => native_rows(isa, share),
            _ => emulated_rows(isa, share),
        }
    });
}

vectorised! {
    fn pack_right<V>(share: Share) {
        let _ = V::LANES;
        let depth_tiles = share.size.depth.div_ceil(TILE_DEPTH);
        for group in 2 * share.task..2 * share.task + 2 {
            for tile in 0..depth_tiles {
                // SAFETY: the packed operand has a tile for every pair of group and depth.
                unsafe {
                    let out = share.right.add((group * depth_tiles + tile) * TILE_VALUES);
                    pack_b(&share, group * TILE_COLUMNS, tile * TILE_DEPTH, out);
                }
            }
        }
    }
}

/// One tile of the right operand: rows are pairs of depth, each column holds the pair side by side.
#[inline(always)]
unsafe fn pack_b(share: &Share, column: usize, depth: usize, out: *mut u16) {
    let columns = share.size.columns.saturating_sub(column).min(TILE_COLUMNS);
    let steps = (share.size.depth - depth).min(TILE_DEPTH);
    let mut tile = [0u16; TILE_VALUES];
    // SAFETY: only columns and steps the operand has are read.
    unsafe {
        let from = share.b.at.wrapping_add(depth * share.b.row + column * share.b.column);
        if share.b.row == 1 {
            for j in 0..columns {
                for p in 0..steps {
                    tile[p / 2 * TILE_DEPTH + 2 * j + p % 2] = bf16_bits(*from.add(p + j * share.b.column));
                }
            }
        } else {
            for p in 0..steps {
                for j in 0..columns {
                    tile[p / 2 * TILE_DEPTH + 2 * j + p % 2] =
                        bf16_bits(*from.add(p * share.b.row + j * share.b.column));
                }
            }
        }
        std::ptr::copy_nonoverlapping(tile.as_ptr(), out, TILE_VALUES);
    }
}

/// One tile of the left operand: 16 rows of 32 steps.
#[inline(always)]
unsafe fn pack_a(share: &Share, row: usize, depth: usize, out: *mut u16) {
    let rows = share.size.rows.saturating_sub(row).min(TILE_ROWS);
    let steps = (share.size.depth - depth).min(TILE_DEPTH);
    let mut tile = [0u16; TILE_VALUES];
    // SAFETY: only rows and steps the operand has are read.
    unsafe {
        let from = share.a.at.wrapping_add(row * share.a.row + depth * share.a.column);
        if share.a.column == 1 {
            for i in 0..rows {
                for p in 0..steps {
                    tile[i * TILE_DEPTH + p] = bf16_bits(*from.add(i * share.a.row + p));
                }
            }
        } else {
            for p in 0..steps {
                for i in 0..rows {
                    tile[i * TILE_DEPTH + p] = bf16_bits(*from.add(i * share.a.row + p * share.a.column));
                }
            }
        }
        std::ptr::copy_nonoverlapping(tile.as_ptr(), out, TILE_VALUES);
    }
}

vectorised! {
    fn emulated_rows<V>(share: Share) {
        let _ = V::LANES;
        // SAFETY: emulated tiles need nothing of the machine.
        unsafe { rows_on::<EmulatedTiles>(&share) }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
vectorised! {
    fn native_rows<V>(share: Share) {
        let _ = V::LANES;
        // SAFETY: the native engine is chosen only where it is available.
        unsafe { rows_on::<NativeTiles>(&share) }
    }
}

/// All columns of one task's rows.
#[inline(always)]
unsafe fn rows_on<T: Tiles>(share: &Share) {
    let Product { rows, columns, depth } = share.size;
    let depth_tiles = depth.div_ceil(TILE_DEPTH);
    let (from, to) = (share.task * ROWS_PER_TASK, ((share.task + 1) * ROWS_PER_TASK).min(rows));
    let row_blocks = (to - from).div_ceil(BLOCK);
    let mut left = vec![0u16; row_blocks * 2 * depth_tiles * TILE_VALUES];
    let mut sums = [0.0f32; BLOCK * BLOCK];
    // SAFETY: the packed operands have two groups of tiles for every block.
    unsafe {
        for group in 0..2 * row_blocks {
            for tile in 0..depth_tiles {
                let out = left.as_mut_ptr().add((group * depth_tiles + tile) * TILE_VALUES);
                pack_a(share, from + group * TILE_ROWS, tile * TILE_DEPTH, out);
            }
        }
        let mut tiles = T::configure();
        let stream = depth_tiles * TILE_VALUES;
        for j in 0..columns.div_ceil(BLOCK) {
            let b = share.right.cast_const().add(2 * j * stream);
            for i in 0..row_blocks {
                let a = left.as_ptr().add(2 * i * stream);
                block(&mut tiles, a, b, depth_tiles, &mut sums);
                let (row, column) = (from + i * BLOCK, j * BLOCK);
                finish(share, &sums, row, (to - row).min(BLOCK), column, (columns - column).min(BLOCK));
            }
        }
    }
}

/// Two by two tiles of sums over the whole depth.
#[inline(always)]
unsafe fn block<T: Tiles>(tiles: &mut T, a: *const u16, b: *const u16, depth_tiles: usize, sums: &mut [f32]) {
    let stream = depth_tiles * TILE_VALUES;
    // SAFETY: a and b hold two streams of `depth_tiles` tiles each, sums a whole block.
    unsafe {
        tiles.zero::<0>();
        tiles.zero::<1>();
        tiles.zero::<2>();
        tiles.zero::<3>();
        for tile in 0..depth_tiles {
            let at = tile * TILE_VALUES;
            tiles.load::<4>(a.add(at));
            tiles.load::<6>(b.add(at));
            tiles.dot::<0, 4, 6>();
            tiles.load::<7>(b.add(stream + at));
            tiles.dot::<1, 4, 7>();
            tiles.load::<5>(a.add(stream + at));
            tiles.dot::<2, 5, 6>();
            tiles.dot::<3, 5, 7>();
        }
        let out = sums.as_mut_ptr();
        tiles.store::<0>(out, BLOCK);
        tiles.store::<1>(out.add(TILE_COLUMNS), BLOCK);
        tiles.store::<2>(out.add(TILE_ROWS * BLOCK), BLOCK);
        tiles.store::<3>(out.add(TILE_ROWS * BLOCK + TILE_COLUMNS), BLOCK);
    }
}

/// Adds the addends and copies the part of a block that C has.
#[inline(always)]
unsafe fn finish(share: &Share, sums: &[f32], row: usize, rows: usize, column: usize, columns: usize) {
    let start = [share.start[0].moved(row, column), share.start[1].moved(row, column)];
    for r in 0..rows {
        let sums = &sums[r * BLOCK..r * BLOCK + columns];
        // SAFETY: C and the addends cover these rows and columns.
        unsafe {
            let to = share.c.0.add((row + r) * share.size.columns + column);
            for (j, &sum) in sums.iter().enumerate() {
                let mut value = sum;
                for addend in start {
                    if !addend.at.is_null() {
                        value += *addend.at.add(r * addend.stride + j);
                    }
                }
                *to.add(j) = value;
            }
        }
    }
}
