//! The small products inside a head, each on one thread.

use crate::amx::{self, product as tiles};
use crate::gemm::Product;
use crate::gemm::blocked::Block;
use crate::gemm::pack::{RightJob, Source};
use crate::gemm::tile::Addend;
use crate::isa::Isa;
use crate::precision::{Precision, rounded_to_bf16};
use crate::vector::Vector;
use std::borrow::Cow;

/// How the products of attention are computed; the softmax between them is always `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Products {
    pub(super) isa: Isa,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Full precision.
    Full,
    /// Operands rounded to bfloat16, sums by the code of full precision: what tiles compute, on a machine without them.
    Rounded,
    Tiles(tiles::Engine),
}

impl Products {
    /// On the tiles of this machine for bfloat16, if it has them.
    pub fn new(isa: Isa, precision: Precision) -> Self {
        let how = match precision {
            Precision::F32 => How::Full,
            Precision::Bf16 if amx::is_available() => How::Tiles(tiles::Engine::Native),
            Precision::Bf16 => How::Rounded,
        };
        Self { isa, how }
    }

    /// On emulated tiles: the same code path as on AMX, for tests on any machine.
    pub fn emulated(isa: Isa) -> Self {
        Self { isa, how: How::Tiles(tiles::Engine::Emulated) }
    }

    /// An operand in the precision of the products. Tiles round it when they pack it.
    pub(super) fn operand(self, x: &[f32]) -> Cow<'_, [f32]> {
        if self.how == How::Rounded { Cow::Owned(rounded_to_bf16(self.isa, x)) } else { Cow::Borrowed(x) }
    }

    /// The same for a row that was just computed.
    #[inline(always)]
    pub(super) fn round<V: Vector>(self, row: &mut [f32]) {
        if self.how == How::Rounded {
            for i in (0..row.len()).step_by(V::LANES) {
                V::read(row, i).rounded_to_bf16().write(row, i);
            }
        }
    }

    /// Room for a packed right operand of `depth` x `columns`.
    #[inline(always)]
    pub(super) fn right_len<V: Vector>(self, depth: usize, columns: usize) -> usize {
        match self.how {
            How::Tiles(_) => tiles::packed_len(depth, columns),
            How::Full | How::Rounded => columns.next_multiple_of(V::TILE_COLUMNS) * depth,
        }
    }

    /// Packs a right operand of `depth` x `columns`.
    ///
    /// # Safety
    /// The source covers the operand; `out` has room for [`Self::right_len`] values.
    #[inline(always)]
    pub(super) unsafe fn pack<V: Vector>(self, source: Source, depth: usize, columns: usize, out: *mut f32) {
        // SAFETY: passed on from the caller.
        unsafe {
            if matches!(self.how, How::Tiles(_)) {
                return tiles::pack_small(self.isa, source, depth, columns, out.cast());
            }
            RightJob::new(source, depth, columns, out, V::TILE_COLUMNS).run::<V>();
        }
    }

    /// A product of (rows, depth, columns) with a packed right operand, written to rows `c_stride` values apart or added there.
    ///
    /// # Safety
    /// The operands cover the product, and `c` is writable for it by nobody else.
    #[inline(always)]
    pub(super) unsafe fn small<V: Vector>(
        self,
        a: Source,
        right: *const f32,
        (rows, depth, columns): (usize, usize, usize),
        c: *mut f32,
        c_stride: usize,
        accumulate: bool,
    ) {
        let start = if accumulate { Addend { at: c, stride: c_stride } } else { Addend::NONE };
        // SAFETY: passed on from the caller.
        unsafe {
            if let How::Tiles(engine) = self.how {
                return tiles::small(self.isa, engine, a, right.cast(), (rows, depth, columns), (c, c_stride), start);
            }
            let size = Product { rows, depth, columns };
            Block { start: [start, Addend::NONE], ..Block::new(a, right, size, (c, c_stride)) }.run::<V>();
        }
    }
}
