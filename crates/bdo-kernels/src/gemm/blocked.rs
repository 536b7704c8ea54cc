//! The loops around the register tile.

use super::Product;
use super::pack::{Source, steps_into_panels};
use super::tile::{Addend, Tile};
use crate::activation::Activate;
use crate::vector::Vector;

/// Steps of depth per pass: a packed panel of this depth stays in the first-level cache while the rows go by.
pub(crate) const MAX_DEPTH: usize = 256;

/// Values in a cache line.
const LINE: usize = 16;

/// The left operand: element (i, p) at `at + (i / R) * panel + (i % R) * row + p * column`, with R the rows of the
/// register tile.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    at: *const f32,
    row: usize,
    column: usize,
    panel: usize,
}

/// A block of `C = start + A B`, computed by one thread.
///
/// Sound to run when the operands and addends cover the block and nobody else touches this part of `c` and of what the
/// activation writes to.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) left: Source,
    /// Where a task packs its rows of a left operand whose depth is not adjacent in memory; null to read it in place.
    pub(crate) packed: *mut f32,
    /// Packed panels `[columns / C][depth][C]`.
    pub(crate) right: *const f32,
    pub(crate) depth: usize,
    pub(crate) c: *mut f32,
    pub(crate) c_stride: usize,
    pub(crate) start: [Addend; 2],
    /// What is done to a finished tile while it is still in the first-level cache.
    pub(crate) activate: Option<Activate>,
    /// First row, a multiple of the tile's rows, and the row after the last.
    pub(crate) rows: (usize, usize),
    /// First column, a multiple of the tile's columns, and the column after the last.
    pub(crate) columns: (usize, usize),
}

// SAFETY: tasks read the operands and write disjoint parts of C.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// The whole of a product with a packed right operand; C is given with its stride.
    #[inline(always)]
    pub(crate) fn new(left: Source, right: *const f32, size: Product, (c, c_stride): (*mut f32, usize)) -> Self {
        let Product { rows, depth, columns } = size;
        let (packed, start, activate) = (std::ptr::null_mut(), [Addend::NONE; 2], None);
        Self { left, packed, right, depth, c, c_stride, start, activate, rows: (0, rows), columns: (0, columns) }
    }

    /// Every value of C is one chain of additions in the order of the depth, whatever the blocking.
    ///
    /// # Safety
    /// See [`Block`].
    #[inline(always)]
    pub(crate) unsafe fn run<V: Vector>(&self) {
        let passes = self.depth.div_ceil(MAX_DEPTH).max(1);
        let step = self.depth.div_ceil(passes);
        for pass in 0..passes {
            let from = (pass * step).min(self.depth);
            let to = (from + step).min(self.depth);
            // SAFETY: the rows of the block and this range of depth are inside the left operand, and the task's own
            // packing space holds `rows_per_task` x `max_depth` values.
            let left = unsafe { self.left_of::<V>(from, to - from) };
            for j in (self.columns.0..self.columns.1).step_by(V::TILE_COLUMNS) {
                let columns = (self.columns.1 - j).min(V::TILE_COLUMNS);
                let part = Part { j, columns, from, to, first: pass == 0, last: pass + 1 == passes };
                // SAFETY: passed on from the caller; panel j / C starts at j * depth.
                unsafe { self.strip::<V>(left, part) };
            }
        }
    }

    /// The rows of the block over one range of depth, packed while the task is about to use them from its own cache.
    #[inline(always)]
    unsafe fn left_of<V: Vector>(&self, from: usize, steps: usize) -> Left {
        // SAFETY: see `run`.
        unsafe {
            let at = self.left.at.add(self.rows.0 * self.left.row + from * self.left.column);
            if self.packed.is_null() {
                let Source { row, column, .. } = self.left;
                return Left { at, row, column, panel: V::TILE_ROWS * row };
            }
            let rows = self.rows.1 - self.rows.0;
            steps_into_panels::<V>(Source { at, ..self.left }, rows, steps, self.packed);
            Left { at: self.packed, row: 1, column: V::TILE_ROWS, panel: V::TILE_ROWS * steps }
        }
    }

    /// All rows of the block for one panel of columns and one range of depth.
    #[inline(always)]
    unsafe fn strip<V: Vector>(&self, left: Left, part: Part) {
        let Part { j, columns, from, to, first, last } = part;
        let panel = self.right.wrapping_add(j * self.depth + from * V::TILE_COLUMNS);
        // The next panel of columns comes to the second-level cache meanwhile, a share with each tile.
        let mut ahead = panel.wrapping_add(self.depth * V::TILE_COLUMNS);
        let tiles = (self.rows.1 - self.rows.0).div_ceil(V::TILE_ROWS);
        let lines = if j + V::TILE_COLUMNS < self.columns.1 {
            ((to - from) * V::TILE_COLUMNS).div_ceil(LINE * tiles)
        } else {
            0
        };
        for i in (self.rows.0..self.rows.1).step_by(V::TILE_ROWS) {
            for _ in 0..lines {
                V::prefetch_second(ahead);
                ahead = ahead.wrapping_add(LINE);
            }
            let rows = (self.rows.1 - i).min(V::TILE_ROWS);
            // SAFETY: in bounds by the contract of `Block`.
            unsafe {
                let c = self.c.add(i * self.c_stride + j);
                let so_far = [Addend { at: c, stride: self.c_stride }, Addend::NONE];
                let tile = Tile {
                    a: left.at.add((i - self.rows.0) / V::TILE_ROWS * left.panel),
                    a_row: left.row,
                    a_col: left.column,
                    b: panel,
                    depth: to - from,
                    c,
                    c_stride: self.c_stride,
                    columns,
                    start: if first { self.start.map(|addend| addend.moved(i, j)) } else { so_far },
                };
                // What the next tile starts from and writes to is on its way while this one computes.
                expect_rows::<V>(c.wrapping_add(V::TILE_ROWS * self.c_stride), self.c_stride);
                if first && !self.start[1].at.is_null() {
                    let next = self.start[1].moved(i + V::TILE_ROWS, j);
                    expect_rows::<V>(next.at, next.stride);
                }
                V::tile(rows, &tile);
                if last && let Some(activate) = self.activate {
                    activate.finish::<V>((c, self.c_stride), (rows, columns), (i, j));
                }
            }
        }
    }
}

/// Asks for the cache lines of a tile's rows; the addresses need not be valid.
#[inline(always)]
fn expect_rows<V: Vector>(at: *const f32, stride: usize) {
    for r in 0..V::TILE_ROWS {
        let row = at.wrapping_add(r * stride);
        V::prefetch(row);
        V::prefetch(row.wrapping_add(V::TILE_COLUMNS - 1));
    }
}

/// One panel of columns over one range of depth.
#[derive(Clone, Copy)]
struct Part {
    j: usize,
    columns: usize,
    from: usize,
    to: usize,
    /// Whether the sums start here.
    first: bool,
    /// Whether they end here.
    last: bool,
}
