//! Vectors of `f32`, one type per instruction set, and the elementary functions built on them.

/// An intrinsic without memory operands.
#[cfg(target_arch = "x86_64")]
macro_rules! pure {
    ($e:expr) => {
        // SAFETY: values of a vector type exist only where its instruction set is enabled, and the intrinsic touches no memory.
        unsafe { $e }
    };
}

/// The methods the two x86 vector types share: each module imports its intrinsics under the names used here.
#[cfg(target_arch = "x86_64")]
macro_rules! shared_methods {
    ($($binary:ident)+) => {
        #[inline(always)]
        fn splat(x: f32) -> Self {
            Self(pure!(splat(x)))
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            // SAFETY: the caller promises `LANES` readable values.
            Self(unsafe { load(p) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: the caller promises `LANES` writable values.
            unsafe { store(p, self.0) }
        }
        $(#[inline(always)]
        fn $binary(self, other: Self) -> Self {
            Self(pure!($binary(self.0, other.0)))
        })+
        #[inline(always)]
        fn fma(self, factor: Self, addend: Self) -> Self {
            Self(pure!(fma(self.0, factor.0, addend.0)))
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            Self(pure!(sqrt(self.0)))
        }
        #[inline(always)]
        fn pow2(self) -> Self {
            Self(pure!(words_as_floats(shift_left::<23>(add_words(floats_to_words(self.0), splat_word(127))))))
        }
        #[inline(always)]
        fn rounded_to_bf16(self) -> Self {
            let upper_half = pure!(splat_word(0xffff_0000_u32 as i32));
            Self(pure!(words_as_floats(and_words(rounded_to_upper_half(self.0), upper_half))))
        }
        #[inline(always)]
        unsafe fn transpose8(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
            // SAFETY: both instruction sets include AVX2; the caller promises both 8 x 8 blocks are in bounds.
            unsafe { transpose8(src, src_stride, dst, dst_stride) }
        }
        #[inline(always)]
        unsafe fn tile(rows: usize, tile: &Tile) {
            // SAFETY: this type exists only where its features are enabled; the contract of `Tile` is passed on.
            unsafe { rows_of_tile(rows, tile) }
        }
    };
}

/// The register tile of a vector type, as a function of its own: inlined into each kernel it would be most of the compiled crate.
macro_rules! tile_of {
    ($(#[$features:meta])* $vector:ty: $($rows:literal)+) => {
        $(#[$features])*
        #[inline(never)]
        unsafe fn rows_of_tile(rows: usize, tile: &Tile) {
            // SAFETY: the contract of `Tile` is passed on.
            unsafe {
                match rows {
                    $($rows => run::<$vector, $rows, { <$vector>::TILE_VECTORS }>(tile),)+
                    _ => run::<$vector, 1, { <$vector>::TILE_VECTORS }>(tile),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod elementary;
pub(crate) mod portable;

use crate::gemm::tile::Tile;
use std::mem::MaybeUninit;

/// A register of `f32` lanes.
///
/// Arithmetic methods are safe to name but may be called only inside a [`crate::isa::vectorised`] wrapper, which has
/// checked that the machine has the instruction set; nothing outside this crate can reach the trait.
///
/// # Safety
/// An implementation must touch exactly the memory that `load`, `store` and their partial forms name.
pub(crate) unsafe trait Vector: Copy {
    /// Lanes in a register.
    const LANES: usize;
    /// Rows of the register tile of the matrix product.
    const TILE_ROWS: usize;
    /// Registers per row of that tile.
    const TILE_VECTORS: usize;
    /// Columns of that tile.
    const TILE_COLUMNS: usize = Self::LANES * Self::TILE_VECTORS;

    fn splat(x: f32) -> Self;
    /// # Safety
    /// `p` must be readable for `LANES` values.
    unsafe fn load(p: *const f32) -> Self;
    /// The first `n <= LANES` lanes from memory, zero in the others.
    /// # Safety
    /// `p` must be readable for `n` values.
    unsafe fn load_partial(p: *const f32, n: usize) -> Self;
    /// # Safety
    /// `p` must be writable for `LANES` values.
    unsafe fn store(self, p: *mut f32);
    /// # Safety
    /// `p` must be writable for `n <= LANES` values.
    unsafe fn store_partial(self, p: *mut f32, n: usize);

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `self * factor + addend`; fused where the instruction set fuses.
    fn fma(self, factor: Self, addend: Self) -> Self;
    /// The larger; `other` if either is NaN, in every implementation.
    fn max(self, other: Self) -> Self;
    /// The smaller; `other` if either is NaN, in every implementation.
    fn min(self, other: Self) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    /// To the nearest integer, ties to even, for magnitudes below 2^22.
    fn round(self) -> Self;
    /// 2^self for integral lanes in -126..=127.
    fn pow2(self) -> Self;
    /// Lane by lane `if self < bound { yes } else { no }`.
    fn select_less(self, bound: Self, yes: Self, no: Self) -> Self;
    /// Sum of the lanes in a fixed order.
    fn sum(self) -> f32;
    /// Largest lane, for lanes without NaN.
    fn largest(self) -> f32;

    /// Writes the lanes rounded to the nearest bfloat16, ties to even; NaN stays NaN.
    /// # Safety
    /// `p` must be writable for `LANES` values.
    unsafe fn store_bf16(self, p: *mut u16);
    /// The lanes rounded to the nearest bfloat16, ties to even; NaN stays NaN.
    fn rounded_to_bf16(self) -> Self;
    /// Lane by lane one word: `self` rounded to bfloat16 in its lower half, `next` in its upper half. The result is bits, not
    /// numbers: it may only be stored or moved.
    fn bf16_pairs(self, next: Self) -> Self;

    /// Copies an 8 x 8 block transposed: `dst[j * dst_stride + i] = src[i * src_stride + j]`.
    /// # Safety
    /// Both blocks must be in bounds and must not overlap.
    unsafe fn transpose8(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize);

    /// Runs the register tile of the matrix product with `rows <= TILE_ROWS` rows.
    /// # Safety
    /// See [`Tile`].
    unsafe fn tile(rows: usize, tile: &Tile);

    /// Asks for the cache line of `p`, which need not be readable.
    #[inline(always)]
    fn prefetch(p: *const f32) {
        prefetch_into::<false>(p);
    }

    /// Asks for the cache line at `p` in the second-level cache only.
    #[inline(always)]
    fn prefetch_second(p: *const f32) {
        prefetch_into::<true>(p);
    }

    #[inline(always)]
    fn zero() -> Self {
        Self::splat(0.0)
    }

    /// As [`Vector::load_partial`], of as many lanes as there are where `n` is more.
    /// # Safety
    /// `p` must be readable for `n` values.
    #[inline(always)]
    unsafe fn load_up_to(p: *const f32, n: usize) -> Self {
        // SAFETY: passed on from the caller.
        unsafe { if n >= Self::LANES { Self::load(p) } else { Self::load_partial(p, n) } }
    }

    /// Stores what [`Vector::load_up_to`] would load.
    /// # Safety
    /// `p` must be writable for `n` values.
    #[inline(always)]
    unsafe fn store_up_to(self, p: *mut f32, n: usize) {
        // SAFETY: passed on from the caller.
        unsafe { if n >= Self::LANES { self.store(p) } else { self.store_partial(p, n) } }
    }

    /// `LANES` values from `at`, or as many as the slice still has, zero in the others.
    #[inline(always)]
    fn read(s: &[f32], at: usize) -> Self {
        if at + Self::LANES <= s.len() {
            // SAFETY: just checked.
            unsafe { Self::load(s.as_ptr().add(at)) }
        } else {
            let from = at.min(s.len());
            // SAFETY: these values are the end of the slice, fewer than LANES of them.
            unsafe { Self::load_partial(s.as_ptr().add(from), s.len() - from) }
        }
    }

    /// Writes the lanes from `at`, dropping those beyond the end of the slice.
    #[inline(always)]
    fn write(self, s: &mut [f32], at: usize) {
        // SAFETY: f32 and MaybeUninit<f32> have the same layout, and `write_new` only ever writes initialised values.
        self.write_new(unsafe { &mut *(std::ptr::from_mut::<[f32]>(s) as *mut [MaybeUninit<f32>]) }, at);
    }

    /// As [`Vector::write`], into memory that need not be initialised yet.
    #[inline(always)]
    fn write_new(self, s: &mut [MaybeUninit<f32>], at: usize) {
        if at + Self::LANES <= s.len() {
            // SAFETY: just checked.
            unsafe { self.store(s.as_mut_ptr().add(at).cast()) }
        } else {
            let from = at.min(s.len());
            // SAFETY: these values are the end of the slice, fewer than LANES of them.
            unsafe { self.store_partial(s.as_mut_ptr().add(from).cast(), s.len() - from) }
        }
    }
}

/// Asks for a cache line, in the second-level cache only if `SECOND`.
#[inline(always)]
fn prefetch_into<const SECOND: bool>(p: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and every x86-64 machine has the instruction.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        if SECOND { _mm_prefetch::<_MM_HINT_T1>(p.cast()) } else { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
