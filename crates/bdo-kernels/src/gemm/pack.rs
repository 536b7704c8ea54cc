//! Copies of the operands in the order in which the register tile reads them.

use crate::isa::{Isa, vectorised};
use crate::threads::{Shared, for_each_range};
use crate::vector::Vector;

/// Where the element (row, column) of a matrix lives: `at + row * row_stride + column * column_stride`.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) at: *const f32,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

// SAFETY: a Source is only ever read through, and whoever makes one keeps the borrow alive across the parallel call.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

/// Rows and columns of the register tile under this instruction set.
pub(crate) fn tile_size(isa: Isa) -> (usize, usize) {
    match isa {
        Isa::Portable => (4, 8),
        Isa::Avx2 => (6, 16),
        Isa::Avx512 => (8, 48),
    }
}

/// Values in a packed right operand of `depth` x `columns`.
pub(crate) fn right_len(isa: Isa, depth: usize, columns: usize) -> usize {
    columns.next_multiple_of(tile_size(isa).1) * depth
}

/// Values in a packed left operand of `rows` x `depth`, with room for the last vector to spill over.
pub(crate) fn left_len(isa: Isa, rows: usize, depth: usize) -> usize {
    rows.next_multiple_of(tile_size(isa).0) * depth + 16
}

/// Steps of depth copied per task and per pass: few enough source rows for the prefetcher to follow each of them.
const STEPS_PER_TASK: usize = 64;
const STEPS_PER_PASS: usize = 16;
/// Below this many values a second thread costs more than it brings.
const MIN_VALUES_PER_TASK: usize = 1 << 14;

/// Packs the right operand `depth` x `columns` into panels `[columns / C][depth][C]`, zero-padded.
///
/// # Safety
/// `source` covers `depth` x `columns` values; `out` has room for [`right_len`] values.
pub(crate) unsafe fn pack_right(isa: Isa, source: Source, depth: usize, columns: usize, out: Shared) {
    let whole = RightJob::new(source, depth, columns, out.0, tile_size(isa).1);
    let (units, per_task) = (whole.range.1, if source.column == 1 { STEPS_PER_TASK } else { 4 });
    let values_per_unit = (columns * depth).div_ceil(units.max(1));
    let per_task = per_task.max(MIN_VALUES_PER_TASK.div_ceil(values_per_unit.max(1)));
    for_each_range(units, per_task, |first, end| pack_part(isa, &whole, (first, end)));
}

/// A share of a packing; sound to run when the range is inside the operand and nobody else writes it.
#[derive(Clone, Copy)]
pub(crate) struct RightJob {
    source: Source,
    depth: usize,
    columns: usize,
    out: *mut f32,
    /// Steps of depth where the columns are adjacent in memory, else panels.
    range: (usize, usize),
}

// SAFETY: tasks read the operand and write disjoint parts of the packed one.
unsafe impl Sync for RightJob {}

impl RightJob {
    /// All of a packing into panels of so many columns.
    #[inline(always)]
    pub(crate) fn new(source: Source, depth: usize, columns: usize, out: *mut f32, panel: usize) -> Self {
        let units = if source.column == 1 { depth } else { columns.div_ceil(panel) };
        Self { source, depth, columns, out, range: (0, units) }
    }

    /// # Safety
    /// See [`RightJob`].
    #[inline(always)]
    pub(crate) unsafe fn run<V: Vector>(&self) {
        // SAFETY: passed on from the caller.
        unsafe { if self.source.column == 1 { rows_into_panels::<V>(self) } else { columns_into_panels::<V>(self) } }
    }
}

vectorised! {
    fn pack_part<V>(whole: &RightJob, range: (usize, usize)) {
        // SAFETY: `pack_right` cut the range out of a valid packing.
        unsafe { RightJob { range, ..*whole }.run::<V>() }
    }
}

/// Packs steps `range` of a right operand whose columns are adjacent in memory.
///
/// # Safety
/// See [`RightJob`]; `source.column` is 1.
#[inline(always)]
unsafe fn rows_into_panels<V: Vector>(job: &RightJob) {
    let width = V::TILE_COLUMNS;
    for from in (job.range.0..job.range.1).step_by(STEPS_PER_PASS) {
        let to = (from + STEPS_PER_PASS).min(job.range.1);
        for first in (0..job.columns).step_by(width) {
            let have = (job.columns - first).min(width);
            for p in from..to {
                // SAFETY: step p < depth of the panel that starts at column `first`, `have` source values there.
                unsafe {
                    let src = job.source.at.add(p * job.source.row + first);
                    V::prefetch(src.wrapping_add(STEPS_PER_PASS * job.source.row));
                    let dst = job.out.add(first * job.depth + p * width);
                    for j in (0..width).step_by(V::LANES) {
                        let value = if j + V::LANES <= have {
                            V::load(src.add(j))
                        } else if j < have {
                            V::load_partial(src.add(j), have - j)
                        } else {
                            V::zero()
                        };
                        value.store(dst.add(j));
                    }
                }
            }
        }
    }
}

/// Packs panels `range` of a right operand.
///
/// # Safety
/// See [`RightJob`].
#[inline(always)]
unsafe fn columns_into_panels<V: Vector>(job: &RightJob) {
    let (width, Source { at, row, column }) = (V::TILE_COLUMNS, job.source);
    for number in job.range.0..job.range.1 {
        let first = number * width;
        // SAFETY: the panel starts inside the packed operand, whose lines are its columns.
        unsafe {
            let lines = Source { at: at.add(first * column), row: column, column: row };
            panel::<V>(lines, job.columns - first, job.depth, job.out.add(first * job.depth), width);
        }
    }
}

/// Packs one panel of `width` lines over all steps of depth, from a source that has `have` lines: step p of line j goes to
/// `out + p * width + j`; lines that are not there become zero. Blocks of 8 lines and 8 steps are transposed in registers where the
/// depth is adjacent in memory.
///
/// # Safety
/// The source covers `have` lines of these steps; the panel is writable.
#[inline(always)]
unsafe fn panel<V: Vector>(source: Source, have: usize, steps: usize, out: *mut f32, width: usize) {
    const BLOCK: usize = 8;
    let Source { at, row: line, column: step } = source;
    // A block of a narrower panel reads lines of the next one and writes beyond its own step, on the step that is written after
    // it; the last step is never part of such a block, so nothing falls on the next panel.
    let spills = !width.is_multiple_of(BLOCK);
    let (lines, until) = match (step, spills) {
        (1, false) => (have.min(width) / BLOCK * BLOCK, steps / BLOCK * BLOCK),
        (1, true) if have >= BLOCK && width < BLOCK => (width, steps.saturating_sub(1) / BLOCK * BLOCK),
        _ => (0, 0),
    };
    // SAFETY: reads are of lines below `have` and steps below `steps`, and of what was written above.
    unsafe {
        for p in (0..until).step_by(BLOCK) {
            for j in (0..lines).step_by(BLOCK) {
                V::transpose8(at.add(j * line + p), line, out.add(p * width + j), width);
            }
        }
        for p in 0..steps {
            for j in if p < until { lines } else { 0 }..width {
                *out.add(p * width + j) = if j < have { *at.add(j * line + p * step) } else { 0.0 };
            }
        }
    }
}

/// Packs a left operand of `rows` x `steps` into panels `[rows / R][steps][R]`; rows beyond the last become zero.
///
/// # Safety
/// `source` covers `rows` x `steps` values; `out` has room for [`left_len`] values.
#[inline(always)]
pub(crate) unsafe fn steps_into_panels<V: Vector>(source: Source, rows: usize, steps: usize, out: *mut f32) {
    let height = V::TILE_ROWS;
    if source.column == 1 {
        for first in (0..rows).step_by(height) {
            // SAFETY: passed on from the caller.
            unsafe {
                let lines = Source { at: source.at.add(first * source.row), ..source };
                panel::<V>(lines, rows - first, steps, out.add(first * steps), height);
            }
        }
        return;
    }
    for from in (0..steps).step_by(STEPS_PER_PASS) {
        let to = (from + STEPS_PER_PASS).min(steps);
        for first in (0..rows).step_by(height) {
            let have = (rows - first).min(height);
            // SAFETY: `have` source values at each step, and a place for them in the panel.
            unsafe {
                let mut src = source.at.add(first * source.row + from * source.column);
                let mut dst = out.add(first * steps + from * height);
                if source.row == 1 && have == height {
                    // Lanes beyond `height` spill into the next step, which this loop then overwrites; only after the
                    // last step must nothing spill. Source rows lie a stride apart, which no hardware prefetcher
                    // follows for this many streams.
                    let ahead = STEPS_PER_PASS * source.column;
                    for _ in from + 1..to {
                        V::prefetch(src.wrapping_add(ahead));
                        V::load_partial(src, height).store(dst);
                        src = src.wrapping_add(source.column);
                        dst = dst.add(height);
                    }
                    V::load_partial(src, height).store_partial(dst, height);
                } else {
                    for p in 0..to - from {
                        for r in 0..height {
                            let at = src.wrapping_add(r * source.row + p * source.column);
                            *dst.add(p * height + r) = if r < have { *at } else { 0.0 };
                        }
                    }
                }
            }
        }
    }
}
