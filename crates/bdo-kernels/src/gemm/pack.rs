//! Copies of the operands in the order in which the register tile reads them.

use crate::isa::{Isa, vectorised};
use crate::threads::{Shared, for_each_task};
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

/// Columns of a packed panel under this instruction set.
pub(crate) fn panel_columns(isa: Isa) -> usize {
    match isa {
        Isa::Portable => 8,
        Isa::Avx2 => 16,
        Isa::Avx512 => 48,
    }
}

/// Rows of the register tile under this instruction set.
pub(crate) fn panel_rows(isa: Isa) -> usize {
    match isa {
        Isa::Portable => 4,
        Isa::Avx2 => 6,
        Isa::Avx512 => 8,
    }
}

/// Values in a packed right operand of `depth` x `columns`.
pub(crate) fn right_len(isa: Isa, depth: usize, columns: usize) -> usize {
    columns.next_multiple_of(panel_columns(isa)) * depth
}

/// Values in a packed left operand of `rows` x `depth`, with room for the last vector to spill over.
pub(crate) fn left_len(isa: Isa, rows: usize, depth: usize) -> usize {
    rows.next_multiple_of(panel_rows(isa)) * depth + 16
}

/// Steps of depth copied per task and per pass: few enough source rows for the prefetcher to follow each of them.
const STEPS_PER_TASK: usize = 64;
const STEPS_PER_PASS: usize = 16;
/// Below this many values a second thread costs more than it brings.
const MIN_VALUES_PER_TASK: usize = 1 << 14;

/// Packs the right operand `depth` x `columns`, times `alpha`, into panels `[columns / C][depth][C]`, zero-padded.
///
/// # Safety
/// `source` covers `depth` x `columns` values; `out` has room for [`right_len`] values.
pub(crate) unsafe fn pack_right(isa: Isa, source: Source, depth: usize, columns: usize, alpha: f32, out: Shared) {
    let panels = columns.div_ceil(panel_columns(isa));
    let by_steps = source.column == 1;
    let (units, per_task) = if by_steps { (depth, STEPS_PER_TASK) } else { (panels, 4) };
    let values_per_unit = (columns * depth).div_ceil(units.max(1));
    let per_task = per_task.max(MIN_VALUES_PER_TASK.div_ceil(values_per_unit.max(1)));
    for_each_task(units.div_ceil(per_task), |task| {
        let range = (task * per_task, ((task + 1) * per_task).min(units));
        let job = RightJob { source, depth, columns, alpha, out: out.at(0), range };
        if by_steps { right_rows(isa, job) } else { right_columns(isa, job) }
    });
}

/// A share of a packing; sound to run when the range is inside the operand and nobody else writes it.
#[derive(Clone, Copy)]
pub(crate) struct RightJob {
    pub(crate) source: Source,
    pub(crate) depth: usize,
    pub(crate) columns: usize,
    pub(crate) alpha: f32,
    pub(crate) out: *mut f32,
    /// Steps of depth for [`rows_into_panels`], panels for [`columns_into_panels`].
    pub(crate) range: (usize, usize),
}

vectorised! {
    fn right_rows<V>(job: RightJob) {
        // SAFETY: `pack_right` cut the job out of a valid packing.
        unsafe { rows_into_panels::<V>(&job) }
    }
}
vectorised! {
    fn right_columns<V>(job: RightJob) {
        // SAFETY: `pack_right` cut the job out of a valid packing.
        unsafe { columns_into_panels::<V>(&job) }
    }
}

/// Packs steps `range` of a right operand whose columns are adjacent in memory.
///
/// # Safety
/// See [`RightJob`]; `source.column` is 1.
#[inline(always)]
pub(crate) unsafe fn rows_into_panels<V: Vector>(job: &RightJob) {
    let width = V::TILE_COLUMNS;
    let alpha = V::splat(job.alpha);
    let mut from = job.range.0;
    while from < job.range.1 {
        let to = (from + STEPS_PER_PASS).min(job.range.1);
        let mut first = 0;
        while first < job.columns {
            let have = (job.columns - first).min(width);
            for p in from..to {
                // SAFETY: step p < depth of the panel that starts at column `first`, `have` source values there.
                unsafe {
                    let src = job.source.at.add(p * job.source.row + first);
                    V::prefetch(src.wrapping_add(STEPS_PER_PASS * job.source.row));
                    let dst = job.out.add(first * job.depth + p * width);
                    let mut j = 0;
                    while j < width {
                        let value = if j + V::LANES <= have {
                            V::load(src.add(j))
                        } else if j < have {
                            V::load_partial(src.add(j), have - j)
                        } else {
                            V::zero()
                        };
                        value.mul(alpha).store(dst.add(j));
                        j += V::LANES;
                    }
                }
            }
            first += width;
        }
        from = to;
    }
}

/// Packs panels `range` of a right operand, transposing 8 x 8 blocks where the depth is adjacent in memory.
///
/// # Safety
/// See [`RightJob`].
#[inline(always)]
pub(crate) unsafe fn columns_into_panels<V: Vector>(job: &RightJob) {
    let width = V::TILE_COLUMNS;
    for panel in job.range.0..job.range.1 {
        let first = panel * width;
        let have = (job.columns - first).min(width);
        // SAFETY: the panel starts inside the packed operand.
        let dst = unsafe { job.out.add(first * job.depth) };
        let blocked = if job.source.row == 1 { (have / 8 * 8, job.depth / 8 * 8) } else { (0, 0) };
        for p in (0..blocked.1).step_by(8) {
            for j in (0..blocked.0).step_by(8) {
                // SAFETY: an 8 x 8 block inside the source and inside the panel.
                unsafe {
                    V::transpose8(
                        job.source.at.add((first + j) * job.source.column + p),
                        job.source.column,
                        dst.add(p * width + j),
                        width,
                    );
                }
            }
        }
        for p in 0..job.depth {
            let from = if p < blocked.1 { blocked.0 } else { 0 };
            for j in from..width {
                // SAFETY: inside the panel; the source is read only for columns it has.
                unsafe {
                    *dst.add(p * width + j) = if j < have {
                        *job.source.at.add((first + j) * job.source.column + p * job.source.row)
                    } else {
                        0.0
                    };
                }
            }
        }
        if job.alpha != 1.0 {
            for at in 0..job.depth * width {
                // SAFETY: inside the panel, all of which was just written.
                unsafe { *dst.add(at) *= job.alpha };
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
        // SAFETY: passed on from the caller.
        unsafe { rows_into_left_panels::<V>(source, rows, steps, out) };
        return;
    }
    let mut from = 0;
    while from < steps {
        let to = (from + STEPS_PER_PASS).min(steps);
        let mut first = 0;
        while first < rows {
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
            first += height;
        }
        from = to;
    }
}

/// The same for a left operand whose depth is adjacent in memory: blocks of 8 rows and 8 steps are transposed in registers.
///
/// # Safety
/// As for [`steps_into_panels`]; `source.column` is 1.
#[inline(always)]
unsafe fn rows_into_left_panels<V: Vector>(source: Source, rows: usize, steps: usize, out: *mut f32) {
    const BLOCK: usize = 8;
    let height = V::TILE_ROWS;
    let mut first = 0;
    while first < rows {
        let have = (rows - first).min(height);
        // A block reads eight rows; a panel near the end of the operand has fewer and goes element by element.
        let readable = rows - first >= BLOCK && height <= BLOCK;
        let mut p = 0;
        // SAFETY: all reads are of rows below `rows` and steps below `steps`. A transposed block writes eight values a
        // step, of which those beyond `height` fall on the next step, written after it; the last step of a panel is
        // never part of a block, so nothing falls on the next panel.
        unsafe {
            let panel = out.add(first * steps);
            if readable {
                while p + BLOCK < steps {
                    V::transpose8(source.at.add(first * source.row + p), source.row, panel.add(p * height), height);
                    p += BLOCK;
                }
            }
            while p < steps {
                for r in 0..height {
                    *panel.add(p * height + r) =
                        if r < have { *source.at.add((first + r) * source.row + p) } else { 0.0 };
                }
                p += 1;
            }
        }
        first += height;
    }
}
