//! Matrix product: packed panels, a register tile, and tasks over blocks of the output.

pub(crate) mod blocked;
pub(crate) mod pack;
pub(crate) mod tile;

use crate::activation::Activate;
use crate::isa::{Isa, vectorised};
use crate::threads::{Scratch, Shared, expect_len, for_each_range, for_each_task};
use blocked::{Block, MAX_DEPTH};
use pack::{Source, left_len, pack_right, right_len, tile_size};
use tile::Addend;

/// A matrix in a slice: element (i, j) is `data[i * row_stride + j * column_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix with rows of `columns` values.
    pub fn row_major(data: &'a [f32], columns: usize) -> Self {
        Self { data, row_stride: columns, column_stride: 1 }
    }

    /// The transpose of a row-major matrix with rows of `columns` values.
    pub fn transposed(data: &'a [f32], columns: usize) -> Self {
        Self { data, row_stride: 1, column_stride: columns }
    }

    pub(crate) fn source(&self, rows: usize, columns: usize, name: &str) -> Source {
        if rows > 0 && columns > 0 {
            let last = (rows - 1) * self.row_stride + (columns - 1) * self.column_stride;
            assert!(
                last < self.data.len(),
                "{name}: {rows} x {columns} with these strides needs {} values, found {}",
                last + 1,
                self.data.len()
            );
        }
        Source { at: self.data.as_ptr(), row: self.row_stride, column: self.column_stride }
    }
}

/// Sizes of a product `[rows, depth] x [depth, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Rows of the result.
    pub rows: usize,
    /// Length of each sum.
    pub depth: usize,
    /// Columns of the result.
    pub columns: usize,
}

/// `C = A B`; C is row-major.
pub fn gemm(isa: Isa, size: Product, a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32]) {
    let Product { rows, depth, columns } = size;
    expect_len("C", c.len(), rows * columns);
    let (a, b) = (a.source(rows, depth, "A"), b.source(depth, columns, "B"));
    // SAFETY: the sizes of all three matrices were just checked, and `c` is borrowed mutably until the end.
    unsafe { product(isa, size, a, b, Shared(c.as_mut_ptr())) };
}

/// # Safety
/// `source` covers `depth` x `columns` values.
pub(crate) unsafe fn packed_right(isa: Isa, source: Source, depth: usize, columns: usize) -> Scratch {
    let mut packed = Scratch::new(right_len(isa, depth, columns));
    // SAFETY: the scratch has exactly the size the packing needs.
    unsafe { pack_right(isa, source, depth, columns, packed.start()) };
    packed
}

/// `C = A B`.
///
/// # Safety
/// `a` and `b` cover the product; `c` is writable for `rows` x `columns` values by nobody else.
pub(crate) unsafe fn product(isa: Isa, size: Product, a: Source, b: Source, c: Shared) {
    let Product { rows, depth, columns } = size;
    // SAFETY: passed on from the caller; the transposed product has the same operands with their roles exchanged.
    unsafe {
        // When both operands must be copied, the wider one had better be the left: a task copies its part of it into
        // its own cache, while all of the right one goes out to memory and back.
        if a.column != 1 && a.row == 1 && b.column == 1 && columns > rows {
            let swapped = Product { rows: columns, depth, columns: rows };
            let left = Source { at: b.at, row: b.column, column: b.row };
            let right = Source { at: a.at, row: a.column, column: a.row };
            let mut transposed = Scratch::new(rows * columns);
            product(isa, swapped, left, right, transposed.start());
            transpose(isa, transposed.start(), rows, columns, c);
            return;
        }
        let right = packed_right(isa, b, depth, columns);
        multiply(isa, size, a, right.read(), c, [Addend::NONE; 2], None);
    }
}

/// Writes the `rows` x `columns` transpose of `from`.
unsafe fn transpose(isa: Isa, from: Shared, rows: usize, columns: usize, to: Shared) {
    for_each_range(rows, 32, |first, end| transpose_rows(isa, from, rows, columns, to, (first, end)));
}

vectorised! {
    fn transpose_rows<V>(from: Shared, rows: usize, columns: usize, to: Shared, range: (usize, usize)) {
        let whole = (range.0 + (range.1 - range.0) / 8 * 8, columns / 8 * 8);
        // SAFETY: both matrices have rows * columns values, and this task owns these rows of the output.
        unsafe {
            for j in (0..whole.1).step_by(8) {
                for i in (range.0..whole.0).step_by(8) {
                    V::transpose8(from.0.add(j * rows + i), rows, to.0.add(i * columns + j), columns);
                }
            }
            for i in range.0..range.1 {
                for j in if i < whole.0 { whole.1 } else { 0 }..columns {
                    *to.0.add(i * columns + j) = *from.0.add(j * rows + i);
                }
            }
        }
    }
}

/// `C = start + A B` with B packed, and the activation of it.
///
/// # Safety
/// `a`, `right` and `start` cover the product; `c` and the activation's output are writable for `rows` x `columns` values by
/// nobody else.
pub(crate) unsafe fn multiply(
    isa: Isa,
    size: Product,
    a: Source,
    right: *const f32,
    c: Shared,
    start: [Addend; 2],
    activate: Option<Activate>,
) {
    let Product { depth, columns, .. } = size;
    // A left operand with adjacent depth can be read in place; copying it pays off only when many columns go by.
    let packs_left = a.column != 1 || columns >= PACK_LEFT_COLUMNS;
    let cut = Cut::of(isa, size, packs_left);
    let whole = Block { start, activate, ..Block::new(a, right, size, (c.0, columns)) };
    for_each_task(cut.count(), |task| {
        let mut block = whole.clone();
        (block.rows, block.columns) = cut.task(task);
        let mut packed =
            Scratch::new(if packs_left { left_len(isa, cut.rows_per_task, depth.min(MAX_DEPTH)) } else { 0 });
        if packs_left {
            block.packed = packed.start().0;
        }
        // The tasks cover disjoint parts of C.
        run_block(isa, &block);
    });
}

vectorised! {
    fn run_block<V>(block: &Block) {
        // SAFETY: `multiply` cuts blocks out of a product it was promised is in bounds.
        unsafe { block.run::<V>() }
    }
}

/// From this many columns on, rows of the left operand are copied into the order the register tile reads them in.
const PACK_LEFT_COLUMNS: usize = 512;

/// How the output is cut into tasks. Every value of the result is one chain of additions whatever the cut, so it may depend
/// on the number of threads: a thread that is alone takes blocks as large as its cache, and reads the right operand less
/// often.
#[derive(Clone, Copy)]
struct Cut {
    rows: usize,
    columns: usize,
    rows_per_task: usize,
    columns_per_task: usize,
}

impl Cut {
    /// Rows per task at most: with their depth they stay in the second-level cache.
    const MAX_ROWS: usize = 192;
    /// Tasks wanted of each of several threads, so that they stay busy to the end.
    const TASKS_PER_THREAD: usize = 4;
    /// A task smaller than this many multiplications costs more to hand over than it gains.
    const MIN_WORK: usize = 1 << 19;

    fn of(isa: Isa, size: Product, packs_left: bool) -> Self {
        let Product { rows, depth, columns } = size;
        let (height, width) = tile_size(isa);
        let threads = rayon::current_num_threads();
        let most_tasks = if threads > 1 { threads * Self::TASKS_PER_THREAD } else { 1 };
        let wanted = (rows * columns * depth / Self::MIN_WORK).clamp(1, most_tasks);
        let (row_panels, column_panels) = (rows.div_ceil(height).max(1), columns.div_ceil(width).max(1));
        let max_row_panels = (Self::MAX_ROWS / height).min(row_panels.div_ceil(wanted)).max(8.min(row_panels));
        let row_tasks = row_panels.div_ceil(max_row_panels);
        // Every cut by columns would pack the left operand once more.
        let most = if packs_left { 1 } else { 8 };
        let column_tasks = wanted.div_ceil(row_tasks).min(column_panels).min(most);
        Self {
            rows,
            columns,
            rows_per_task: row_panels.div_ceil(row_tasks) * height,
            columns_per_task: column_panels.div_ceil(column_tasks) * width,
        }
    }

    fn column_tasks(&self) -> usize {
        self.columns.div_ceil(self.columns_per_task)
    }

    fn count(&self) -> usize {
        self.rows.div_ceil(self.rows_per_task) * self.column_tasks()
    }

    fn task(&self, task: usize) -> ((usize, usize), (usize, usize)) {
        let (i, j) =
            (task / self.column_tasks() * self.rows_per_task, task % self.column_tasks() * self.columns_per_task);
        ((i, (i + self.rows_per_task).min(self.rows)), (j, (j + self.columns_per_task).min(self.columns)))
    }
}
