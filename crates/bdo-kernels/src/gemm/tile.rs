//! The register tile: a few rows times a few vectors of columns, accumulated in registers.

use crate::vector::Vector;

/// One register tile of `C = start + A B`.
///
/// `a` is read at `a + r * a_row + p * a_col` for the rows of the tile and `p < depth`; `b` is one packed panel,
/// `depth` groups of `TILE_COLUMNS` values; `c` is written at `c + r * c_stride`, `columns` values a row. Each `start`
/// that is not null is a row-major addend with its own row stride (0 repeats one row, as for a bias).
/// Running a tile is sound when all of these are in bounds and nothing else touches that part of `c`.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    pub(crate) a: *const f32,
    pub(crate) a_row: usize,
    pub(crate) a_col: usize,
    pub(crate) b: *const f32,
    pub(crate) depth: usize,
    pub(crate) c: *mut f32,
    pub(crate) c_stride: usize,
    pub(crate) columns: usize,
    pub(crate) start: [Addend; 2],
}

/// A row-major addend; null adds nothing.
#[derive(Clone, Copy)]
pub(crate) struct Addend {
    pub(crate) at: *const f32,
    pub(crate) stride: usize,
}

impl Addend {
    /// Adds nothing.
    pub(crate) const NONE: Self = Self { at: std::ptr::null(), stride: 0 };

    /// The addend moved by rows and columns.
    #[inline(always)]
    pub(crate) fn moved(self, rows: usize, columns: usize) -> Self {
        if self.at.is_null() {
            return self;
        }
        // Wrapping, because the caller of a tile, not this function, answers for the bounds.
        Self { at: self.at.wrapping_add(rows * self.stride + columns), stride: self.stride }
    }
}

/// Runs a tile of `R` rows and `N` vectors of columns.
///
/// # Safety
/// See [`Tile`].
#[inline(always)]
pub(crate) unsafe fn run<V: Vector, const R: usize, const N: usize>(tile: &Tile) {
    let width = V::LANES * N;
    let whole = tile.columns == width;
    let mut acc = [[V::zero(); N]; R];
    for addend in tile.start {
        if addend.at.is_null() {
            continue;
        }
        for (r, row) in acc.iter_mut().enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                // SAFETY: an addend covers the rows and columns of the tile.
                unsafe {
                    let at = addend.at.add(r * addend.stride);
                    let more = if whole { V::load(at.add(j * V::LANES)) } else { partial::<V>(at, j, tile.columns) };
                    *value = value.add(more);
                }
            }
        }
    }
    // SAFETY: `a` and `b` hold `depth` steps. A packed left operand gets its own copy of the loop: with the strides
    // known the addresses cost nothing.
    unsafe {
        if tile.a_row == 1 && tile.a_col == V::TILE_ROWS {
            steps::<V, R, N>(&mut acc, tile.a, 1, V::TILE_ROWS, tile.b, tile.depth);
        } else {
            steps::<V, R, N>(&mut acc, tile.a, tile.a_row, tile.a_col, tile.b, tile.depth);
        }
    }
    for (r, row) in acc.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            // SAFETY: `c` is writable for the rows and columns of the tile.
            unsafe {
                let at = tile.c.add(r * tile.c_stride);
                if whole {
                    value.store(at.add(j * V::LANES));
                } else if tile.columns > j * V::LANES {
                    value.store_partial(at.add(j * V::LANES), (tile.columns - j * V::LANES).min(V::LANES));
                }
            }
        }
    }
}

/// Adds `depth` outer products to the accumulators.
#[inline(always)]
unsafe fn steps<V: Vector, const R: usize, const N: usize>(
    acc: &mut [[V; N]; R],
    a: *const f32,
    a_row: usize,
    a_col: usize,
    b: *const f32,
    depth: usize,
) {
    let width = V::LANES * N;
    let (mut a, mut b) = (a, b);
    let mut sums = *acc;
    let mut left = depth;
    while left >= 4 {
        // SAFETY: four steps remain.
        unsafe {
            for step in 0..4 {
                one_step::<V, R, N>(&mut sums, a.add(step * a_col), a_row, b.add(step * width));
            }
        }
        a = a.wrapping_add(4 * a_col);
        b = b.wrapping_add(4 * width);
        left -= 4;
    }
    for _ in 0..left {
        // SAFETY: a step remains; after the last one the pointers are not read.
        unsafe { one_step::<V, R, N>(&mut sums, a, a_row, b) };
        a = a.wrapping_add(a_col);
        b = b.wrapping_add(width);
    }
    *acc = sums;
}

/// One outer product.
#[inline(always)]
unsafe fn one_step<V: Vector, const R: usize, const N: usize>(
    sums: &mut [[V; N]; R],
    a: *const f32,
    a_row: usize,
    b: *const f32,
) {
    let mut columns = [V::zero(); N];
    // SAFETY: the caller promises R rows and N vectors.
    unsafe {
        for (j, column) in columns.iter_mut().enumerate() {
            *column = V::load(b.add(j * V::LANES));
        }
        for (r, row) in sums.iter_mut().enumerate() {
            let left = V::splat(*a.add(r * a_row));
            for (value, column) in row.iter_mut().zip(columns) {
                *value = left.fma(column, *value);
            }
        }
    }
}

/// Vector `j` of a row of `columns` values.
#[inline(always)]
unsafe fn partial<V: Vector>(row: *const f32, j: usize, columns: usize) -> V {
    if columns > j * V::LANES {
        // SAFETY: the row has `columns` values.
        unsafe { V::load_partial(row.add(j * V::LANES), (columns - j * V::LANES).min(V::LANES)) }
    } else {
        V::zero()
    }
}
