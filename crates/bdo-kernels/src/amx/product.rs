//! The product on tiles: operands rounded, padded and packed into tiles, sums in 32 x 32 blocks.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::native::NativeTiles;
use super::pack::{LINES, Operand};
use super::tiles::{EmulatedTiles, TILE_COLUMNS, TILE_DEPTH, TILE_ROWS, TILE_VALUES, Tiles};
use crate::activation::Activate;
use crate::gemm::Product;
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
    c_stride: usize,
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
    /// The whole of a product; C is given with its stride.
    fn new(size: Product, a: Source, b: Source, packed: *mut u16, (c, c_stride): (*mut f32, usize)) -> Self {
        let Product { rows, depth: steps, columns } = size;
        let left = Operand { at: a.at, line: a.row, step: a.column, lines: rows, steps, is_left: true };
        let right = Operand { at: b.at, line: b.column, step: b.row, lines: columns, steps, is_left: false };
        let (c, start) = (Shared(c), [Addend::NONE; 2]);
        Self { size, left, right, packed, c, c_stride, start, activate: None, from: 0, to: 0 }
    }

    /// Task number `task` of those that each take `per_task` of `all`.
    fn numbered(&self, task: usize, per_task: usize, all: usize) -> Self {
        Self { from: task * per_task, to: ((task + 1) * per_task).min(all), ..*self }
    }

    /// What the packing of the right operand is cut by: tiles of depth or groups of columns.
    fn packing_units(&self) -> usize {
        if self.right.lines_adjoin() { self.right.depth_tiles() } else { column_groups(self.size.columns) }
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
    let rows = size.rows;
    let mut packed = Scratch::new(packed_len(size.depth, size.columns));
    let share = Share { start, activate, ..Share::new(size, a, b, packed.start().0.cast(), (c.0, size.columns)) };
    let units = share.packing_units();
    let per_task = MIN_VALUES_PER_TASK.div_ceil((size.depth * size.columns / units.max(1)).max(1));
    for_each_task(units.div_ceil(per_task), |task| pack_right(isa, share.numbered(task, per_task, units)));
    for_each_task(rows.div_ceil(ROWS_PER_TASK), |task| {
        rows_of(isa, engine, share.numbered(task, ROWS_PER_TASK, rows));
    });
}

fn rows_of(isa: Isa, engine: Engine, share: Share) {
    match engine {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Engine::Native => native_rows(isa, share),
        _ => emulated_rows(isa, share),
    }
}

/// Packs a right operand of `depth` x `columns` on this thread.
///
/// # Safety
/// The source covers the operand; `out` has room for [`packed_len`] values of `f32`.
pub(crate) unsafe fn pack_small(isa: Isa, b: Source, depth: usize, columns: usize, out: *mut u16) {
    let size = Product { rows: 0, depth, columns };
    let share = Share::new(size, b, b, out, (std::ptr::null_mut(), 0));
    pack_right(isa, Share { to: share.packing_units(), ..share });
}

/// A product of (rows, depth, columns) on this thread, with an operand packed by [`pack_small`].
///
/// # Safety
/// As for [`multiply`], with rows of C a stride apart.
pub(crate) unsafe fn small(
    isa: Isa,
    engine: Engine,
    a: Source,
    right: *const u16,
    (rows, depth, columns): (usize, usize, usize),
    c: (*mut f32, usize),
    start: Addend,
) {
    let size = Product { rows, depth, columns };
    let share = Share::new(size, a, a, right.cast_mut(), c);
    rows_of(isa, engine, Share { start: [start, Addend::NONE], to: rows, ..share });
}

/// Room for a packed right operand, in values of `f32`.
pub(crate) fn packed_len(depth: usize, columns: usize) -> usize {
    column_groups(columns) * depth.div_ceil(TILE_DEPTH) * TILE_VALUES / 2
}

/// Groups of 16 columns, two a block.
fn column_groups(columns: usize) -> usize {
    columns.div_ceil(BLOCK) * 2
}

vectorised! {
    fn pack_right<V>(share: Share) {
        let part = (share.from, share.to);
        let (groups, tiles) = if share.right.lines_adjoin() {
            ((0, column_groups(share.size.columns)), part)
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
                let c = share.c.at(row * share.c_stride + column);
                // What the sums are added to and written to is on its way while they are computed.
                expect_block::<V>(c, share.c_stride, rows);
                let residual = share.start[1].moved(row, column);
                if !residual.at.is_null() {
                    expect_block::<V>(residual.at, residual.stride, rows);
                }
                if rows == BLOCK && columns == BLOCK && share.start[0].at.is_null() && share.start[1].at.is_null() {
                    block(&mut tiles, a, b, depth_tiles, c, share.c_stride);
                } else {
                    block(&mut tiles, a, b, depth_tiles, sums.as_mut_ptr(), BLOCK);
                    add_up::<V>(share, &sums, (row, column), rows, columns, c);
                }
                if let Some(activate) = share.activate {
                    activate.finish::<V>((c, share.c_stride), (rows, columns), (row, column));
                }
            }
        }
    }
}

/// Asks for the cache lines of a block's rows; the addresses need not be valid.
#[inline(always)]
fn expect_block<V: Vector>(at: *const f32, stride: usize, rows: usize) {
    for r in 0..rows {
        let row = at.wrapping_add(r * stride);
        V::prefetch(row);
        V::prefetch(row.wrapping_add(TILE_COLUMNS));
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
    let [one, other] = share.start.map(|addend| addend.moved(first.0, first.1));
    for r in 0..rows {
        for j in (0..columns).step_by(V::LANES) {
            let lanes = (columns - j).min(V::LANES);
            // SAFETY: C and the addends cover these rows and columns, and a row of the block is whole vectors.
            unsafe {
                let to = c.add(r * share.c_stride + j);
                let mut value = V::load(sums.as_ptr().add(r * BLOCK + j));
                if lanes == V::LANES {
                    if !one.at.is_null() {
                        value = value.add(V::load(one.at.add(r * one.stride + j)));
                    }
                    if !other.at.is_null() {
                        value = value.add(V::load(other.at.add(r * other.stride + j)));
                    }
                    value.store(to);
                } else {
                    for addend in [one, other] {
                        if !addend.at.is_null() {
                            value = value.add(V::load_partial(addend.at.add(r * addend.stride + j), lanes));
                        }
                    }
                    value.store_partial(to, lanes);
                }
            }
        }
    }
}
