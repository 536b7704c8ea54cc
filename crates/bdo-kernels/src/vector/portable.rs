//! Eight lanes in plain Rust, left to the compiler to map onto whatever the machine has.

use super::Vector;
use crate::gemm::tile::{Tile, run};
use crate::precision::bf16_bits;

/// Eight lanes in an array.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 8]);

/// Methods that do the same in every lane.
macro_rules! lanewise {
    ($(fn $name:ident($x:ident $(, $y:ident)*) = $e:expr;)*) => {
        $(#[inline(always)]
        fn $name(self $(, $y: Self)*) -> Self {
            let mut out = [0.0f32; 8];
            for i in 0..8 {
                let $x = self.0[i];
                $(let $y = $y.0[i];)*
                out[i] = $e;
            }
            Self(out)
        })*
    };
}

/// Adding it leaves no bits for a fraction, so the sum is rounded as the hardware rounds: 1.5 * 2^23.
const SHIFT: f32 = 12_582_912.0;

// SAFETY: loads and stores copy exactly the values they name.
unsafe impl Vector for Portable {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 4;
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self([x; 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller promises eight readable values.
        Self(unsafe { p.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_partial(p: *const f32, n: usize) -> Self {
        let mut out = [0.0; 8];
        // SAFETY: the caller promises n readable values, n <= 8.
        unsafe { std::ptr::copy_nonoverlapping(p, out.as_mut_ptr(), n) };
        Self(out)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller promises eight writable values.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f32, n: usize) {
        // SAFETY: the caller promises n writable values, n <= 8.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), p, n) }
    }
    lanewise! {
        fn add(x, y) = x + y;
        fn sub(x, y) = x - y;
        fn mul(x, y) = x * y;
        fn div(x, y) = x / y;
        // Not `mul_add`: without hardware support that is a slow library call.
        fn fma(x, factor, addend) = x * factor + addend;
        fn max(x, y) = if x > y { x } else { y };
        fn min(x, y) = if x < y { x } else { y };
        fn sqrt(x) = x.sqrt();
        fn abs(x) = x.abs();
        fn round(x) = (x + SHIFT) - SHIFT;
        fn pow2(x) = f32::from_bits((((x as i32) + 127) << 23) as u32);
        fn select_less(x, bound, yes, no) = if x < bound { yes } else { no };
        fn rounded_to_bf16(x) = f32::from_bits(u32::from(bf16_bits(x)) << 16);
        fn bf16_pairs(x, next) = f32::from_bits(u32::from(bf16_bits(x)) | u32::from(bf16_bits(next)) << 16);
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let v = self.0;
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        let mut best = self.0[0];
        for &x in &self.0[1..] {
            best = if x > best { x } else { best };
        }
        best
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // SAFETY: the caller promises eight writable values.
        unsafe { p.cast::<[u16; 8]>().write_unaligned(self.0.map(bf16_bits)) }
    }
    #[inline(always)]
    unsafe fn transpose8(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
        for i in 0..8 {
            for j in 0..8 {
                // SAFETY: the caller promises both 8 x 8 blocks are in bounds.
                unsafe { *dst.add(j * dst_stride + i) = *src.add(i * src_stride + j) };
            }
        }
    }
    #[inline(always)]
    unsafe fn tile(rows: usize, tile: &Tile) {
        // SAFETY: this type exists only where its features are enabled; the contract of `Tile` is passed on.
        unsafe { rows_of_tile(rows, tile) }
    }
}

tile_of!(Portable: 4 3 2);
