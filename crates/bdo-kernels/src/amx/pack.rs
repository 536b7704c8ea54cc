//! Operands rounded to bfloat16 in the order in which tiles hold them.
//!
//! Both operands are lines of steps: the rows of the left one, the columns of the right one. A tile covers 16 lines and 32
//! steps, and its words are pairs of neighbouring steps; the left operand has a row of words for each line, the right one a row
//! for each pair of steps.

use super::tiles::{TILE_COLUMNS, TILE_DEPTH, TILE_ROWS, TILE_VALUES};
use crate::vector::Vector;
use std::mem::MaybeUninit;

/// Lines in a tile of either operand.
pub(super) const LINES: usize = TILE_ROWS;
const _: () = assert!(TILE_ROWS == TILE_COLUMNS && TILE_DEPTH == 2 * LINES);

/// An operand: step p of line i at `at + i * line + p * step`.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) at: *const f32,
    pub(super) line: usize,
    pub(super) step: usize,
    pub(super) lines: usize,
    pub(super) steps: usize,
    /// Whether words lie line by line, as in the left operand.
    pub(super) is_left: bool,
}

impl Operand {
    /// Tiles along the depth.
    pub(super) fn depth_tiles(&self) -> usize {
        self.steps.div_ceil(TILE_DEPTH)
    }

    /// Whether neighbouring lines are adjacent in memory; then a packing had better go through the depth step by step.
    pub(super) fn lines_adjoin(&self) -> bool {
        self.line == 1 && self.step != 1
    }

    /// Packs a range of groups of lines and a range of tiles of depth into `[group][tile][tile values]`; lines and steps that
    /// the operand does not have become zero.
    ///
    /// # Safety
    /// The operand covers its lines and steps; `out` has room for every group and tile.
    #[inline(always)]
    pub(super) unsafe fn pack<V: Vector>(&self, groups: (usize, usize), tiles: (usize, usize), out: *mut u16) {
        let (group_count, tile_count) = (groups.1 - groups.0, tiles.1 - tiles.0);
        for at in 0..group_count * tile_count {
            let (group, tile) = if self.lines_adjoin() {
                (groups.0 + at % group_count, tiles.0 + at / group_count)
            } else {
                (groups.0 + at / tile_count, tiles.0 + at % tile_count)
            };
            // SAFETY: passed on from the caller.
            unsafe {
                let out = out.add((group * self.depth_tiles() + tile) * TILE_VALUES);
                self.pack_tile::<V>(group * LINES, tile * TILE_DEPTH, out);
            }
        }
    }

    #[inline(always)]
    unsafe fn pack_tile<V: Vector>(&self, line: usize, step: usize, out: *mut u16) {
        let (lines, steps) = (self.lines.saturating_sub(line).min(LINES), (self.steps - step).min(TILE_DEPTH));
        let at = self.at.wrapping_add(line * self.line + step * self.step);
        let out: *mut f32 = out.cast();
        // SAFETY: a whole tile of the operand is read as it lies; of any other only what the operand has.
        unsafe {
            if lines == LINES && steps == TILE_DEPTH && (self.step == 1 || self.line == 1) {
                whole_tile::<V>(at, self.line, self.step, self.is_left, out);
            } else {
                let mut padded = [0.0f32; TILE_VALUES];
                if self.lines_adjoin() {
                    copy_rows::<V>(at, self.step, steps, lines, &mut padded, LINES);
                    whole_tile::<V>(padded.as_ptr(), 1, LINES, self.is_left, out);
                } else if self.step == 1 {
                    copy_rows::<V>(at, self.line, lines, steps, &mut padded, TILE_DEPTH);
                    whole_tile::<V>(padded.as_ptr(), TILE_DEPTH, 1, self.is_left, out);
                } else {
                    for i in 0..lines {
                        for p in 0..steps {
                            padded[i * TILE_DEPTH + p] = *at.add(i * self.line + p * self.step);
                        }
                    }
                    whole_tile::<V>(padded.as_ptr(), TILE_DEPTH, 1, self.is_left, out);
                }
            }
        }
    }
}

/// Copies rows of `values` values that lie `stride` apart, to rows of whole vectors.
#[inline(always)]
unsafe fn copy_rows<V: Vector>(
    from: *const f32,
    stride: usize,
    rows: usize,
    values: usize,
    to: &mut [f32; TILE_VALUES],
    width: usize,
) {
    for r in 0..rows {
        for i in (0..values).step_by(V::LANES) {
            // SAFETY: the caller promises the rows; a row of the copy has room for whole vectors.
            unsafe {
                V::load_partial(from.add(r * stride + i), (values - i).min(V::LANES))
                    .store(to.as_mut_ptr().add(r * width + i));
            }
        }
    }
}

/// Packs a tile that is there in full, its lines or its steps adjacent in memory.
#[inline(always)]
unsafe fn whole_tile<V: Vector>(at: *const f32, line: usize, step: usize, is_left: bool, out: *mut f32) {
    let by_line = step == 1;
    let mut turned = [MaybeUninit::<f32>::uninit(); LINES * LINES];
    let words = if by_line == is_left { out } else { turned.as_mut_ptr().cast() };
    // SAFETY: the caller promises the tile and room for its words.
    unsafe {
        if by_line {
            for i in 0..LINES {
                for p in (0..TILE_DEPTH).step_by(V::LANES) {
                    V::load(at.add(i * line + p)).store_bf16(words.cast::<u16>().add(i * TILE_DEPTH + p));
                }
            }
        } else {
            for pair in 0..LINES {
                let (even, odd) = (at.add(2 * pair * step), at.add((2 * pair + 1) * step));
                // The same lines of the next tile of depth: rows that far apart no hardware prefetcher follows.
                V::prefetch(even.wrapping_add(TILE_DEPTH * step));
                V::prefetch(odd.wrapping_add(TILE_DEPTH * step));
                for i in (0..LINES).step_by(V::LANES) {
                    V::load(even.add(i)).bf16_pairs(V::load(odd.add(i))).store(words.add(pair * LINES + i));
                }
            }
        }
        if by_line != is_left {
            for i in (0..LINES).step_by(8) {
                for j in (0..LINES).step_by(8) {
                    V::transpose8(words.add(i * LINES + j), LINES, out.add(j * LINES + i), LINES);
                }
            }
        }
    }
}
