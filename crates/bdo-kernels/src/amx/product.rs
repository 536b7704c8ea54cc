//! The product on tiles: operands rounded, padded and packed into tiles, sums in 32 x 32 blocks.

use super::emulated::EmulatedTiles;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::native::NativeTiles;
use super::pack::{LINES, Operand};
use super::tiles::{TILE_COLUMNS, TILE_ROWS, TILE_VALUES, Tiles};
use crate::activation::strip::Activate;
use crate::gemm::Product;
use crate::gemm::blocked::Finish;
use crate::gemm::pack::Source;
use crate::gemm::tile::Addend;
use crate::isa::{Isa, vectorised};
use crate::threads::{Scratch, Shared, for_each_task};
use crate::vector::Vector;

/// Which tiles do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The machine's own.
    Native,
    /// Plain memory.
    Emulated,
}

/// Rows and columns of a block: two tiles each way, so that every loaded tile is used twice.
const BLOCK: usize = 2 * LINES;
/// Rows per task; their packed depth stays in the second-level cache.
const ROWS_PER_TASK: usize = 128;
/// Below this many values a task of the packing costs more to hand over than it gains.
const MIN_VALUES_PER_TASK: usize = 1 << 14;

/// One task of a product.
#[derive(Clone, Copy)]
struct Share {
    size: Product,
    left: Operand,
    right: Operand,
    /// Packed right operand `[columns / 16][depth / 32][tile]`.
    packed: *mut u16,
    c: Shared,
    start: [Addend; 2],
    activate: Option<Activate>,
    /// The task's part: units of the packing, or rows of the product.
    from: usize,
    to: usize,
}

// SAFETY: tasks read the operands and write disjoint parts of the packed operand or of C.
unsafe impl Send for Share {}
// SAFETY: as above.
unsafe impl Sync for Share {}

impl Share {
    /// Task number `task` of those that each take `per_task` of `all`.
    fn numbered(&self, task: usize, per_task: usize, all: usize) -> Self {
        Self { from: task * per_task, to: ((task + 1) * per_task).min(all), ..*self }
    }

    /// Groups of 16 columns, two a block.
    fn column_groups(&self) -> usize {
        self.size.columns.div_ceil(BLOCK) * 2
    }

    /// What the packing of the right operand is cut by: tiles of depth or groups of columns.
    fn packing_units(&self) -> usize {
        if self.right.lines_adjoin() { self.right.depth_tiles() } else { self.column_groups() }
    }
}

/// `C = start + A B` with operands rounded to bfloat16, and the activation of it.
///
/// # Safety
/// The operands and addends cover the product; `c` and the activation's output are writable for it by nobody else; the engine
/// is available.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn multiply(
    isa: Isa,
    engine: Engine,
    size: Product,
    a: Source,
    b: Source,
    c: Shared,
    start: [Addend; 2],
    activate: Option<Activate>,
) {
    let Product { rows, depth: steps, columns } = size;
    let left = Operand { at: a.at, line: a.row, step: a.column, lines: rows, steps, is_left: true };
    let right = Operand { at: b.at, line: b.column, step: b.row, lines: columns, steps, is_left: false };
    let share = Share { size, left, right, packed: std::ptr::null_mut(), c, start, activate, from: 0, to: 0 };
    let values = share.column_groups() * right.depth_tiles() * TILE_VALUES;
    let mut packed = Scratch::new(values / 2); // two values of 16 bits in the room of one
    let share = Share { packed: packed.start().0.cast(), ..share };
    let units = share.packing_units();
    let per_task = MIN_VALUES_PER_TASK.div_ceil((values / units.max(1)).max(1));
    for_each_task(units.div_ceil(per_task), |task| pack_right(isa, share.numbered(task, per_task, units)));
    for_each_task(rows.div_ceil(ROWS_PER_TASK), |task| {
        let share = share.numbered(task, ROWS_PER_TASK, rows);
        match engine {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Engine::Native => native_rows(isa, share),
            _ => emulated_rows(isa, share),
        }
    });
}

vectorised! {
    fn pack_right<V>(share: Share) {
        let part = (share.from, share.to);
        let (groups, tiles) = if share.right.lines_adjoin() {
            ((0, share.column_groups()), part)
        } else {
            (part, (0, share.right.depth_tiles()))
        };
        // SAFETY: the packed operand has a tile for every group and every tile of depth.
        unsafe { share.right.pack::<V>(groups, tiles, share.packed) }
    }
}

vectorised! {
    fn emulated_rows<V>(share: Share) {
        // SAFETY: emulated tiles need nothing of the machine.
        unsafe { rows_on::<EmulatedTiles, V>(&share) }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
vectorised! {
    fn native_rows<V>(share: Share) {
        // SAFETY: the native engine is chosen only where it is available.
        unsafe { rows_on::<NativeTiles, V>(&share) }
    }
}

/// All columns of one task's rows.
#[inline(always)]
unsafe fn rows_on<T: Tiles, V: Vector>(share: &Share) {
    let Product { columns, .. } = share.size;
    let (from, to) = (share.from, share.to);
    let row_blocks = (to - from).div_ceil(BLOCK);
    let depth_tiles = share.left.depth_tiles();
    let stream = depth_tiles * TILE_VALUES;
    let mut left = Scratch::new(2 * row_blocks * stream / 2);
    let left: *mut u16 = left.start().0.cast();
    let mut sums = [0.0f32; BLOCK * BLOCK];
    // SAFETY: the packed operands have two groups of tiles for every block; a whole block of C may be written at once.
    unsafe {
        let rows = Operand { at: share.left.at.wrapping_add(from * share.left.line), lines: to - from, ..share.left };
        rows.pack::<V>((0, 2 * row_blocks), (0, depth_tiles), left);
        let mut tiles = T::configure();
        for j in 0..columns.div_ceil(BLOCK) {
            let b = share.packed.cast_const().add(2 * j * stream);
            for i in 0..row_blocks {
                let a = left.cast_const().add(2 * i * stream);
                let (row, column) = (from + i * BLOCK, j * BLOCK);
                let (rows, columns) = ((to - row).min(BLOCK), (columns - column).min(BLOCK));
                let c = share.c.at(row * share.size.columns + column);
                if rows == BLOCK && columns == BLOCK && share.start[0].at.is_null() && share.start[1].at.is_null() {
                    block(&mut tiles, a, b, depth_tiles, c, share.size.columns);
                } else {
                    block(&mut tiles, a, b, depth_tiles, sums.as_mut_ptr(), BLOCK);
                    add_up::<V>(share, &sums, (row, column), rows, columns, c);
                }
                if let Some(activate) = share.activate {
                    activate.finish::<V>(c, share.size.columns, rows, columns, (row, column));
                }
            }
        }
    }
}

/// Two by two tiles of sums over the whole depth, written to rows `stride` values apart.
#[inline(always)]
unsafe fn block<T: Tiles>(
    tiles: &mut T,
    a: *const u16,
    b: *const u16,
    depth_tiles: usize,
    out: *mut f32,
    stride: usize,
) {
    let stream = depth_tiles * TILE_VALUES;
    // SAFETY: a and b hold two streams of `depth_tiles` tiles each, out a whole block.
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
        tiles.store::<0>(out, stride);
        tiles.store::<1>(out.add(TILE_COLUMNS), stride);
        tiles.store::<2>(out.add(TILE_ROWS * stride), stride);
        tiles.store::<3>(out.add(TILE_ROWS * stride + TILE_COLUMNS), stride);
    }
}

/// Writes the part of a block that C has, with its addends.
#[inline(always)]
unsafe fn add_up<V: Vector>(
    share: &Share,
    sums: &[f32],
    first: (usize, usize),
    rows: usize,
    columns: usize,
    c: *mut f32,
) {
    let start = share.start.map(|addend| addend.moved(first.0, first.1));
    for r in 0..rows {
        let mut j = 0;
        while j < columns {
            let lanes = (columns - j).min(V::LANES);
            // SAFETY: C and the addends cover these rows and columns, and a row of the block is whole vectors.
            unsafe {
                let mut value = V::load(sums.as_ptr().add(r * BLOCK + j));
                for addend in start {
                    if !addend.at.is_null() {
                        let at = addend.at.add(r * addend.stride + j);
                        value = value.add(if lanes == V::LANES { V::load(at) } else { V::load_partial(at, lanes) });
                    }
                }
                let to = c.add(r * share.size.columns + j);
                if lanes == V::LANES { value.store(to) } else { value.store_partial(to, lanes) }
            }
            j += V::LANES;
        }
    }
}
