//! Sixteen lanes in a 512-bit register.

use super::Vector;
use super::avx2::transpose8;
use crate::gemm::tile::{Tile, run};
use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _CMP_LT_OQ, _CMP_UNORD_Q, _mm256_storeu_si256, _mm512_abs_ps, _mm512_add_epi32,
    _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask,
    _mm512_cvtepi32_epi16, _mm512_cvtps_epi32, _mm512_div_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_blend_epi16, _mm512_mask_blend_ps, _mm512_mask_or_epi32, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_reduce_add_ps, _mm512_reduce_max_ps, _mm512_roundscale_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32, _mm512_sqrt_ps, _mm512_srli_epi32, _mm512_storeu_ps,
    _mm512_sub_ps,
};

/// Sixteen lanes; exists only inside a wrapper that enabled AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

/// Mask of the first `n <= 16` lanes.
#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    debug_assert!(n <= 16);
    ((1u32 << n) - 1) as __mmask16
}

/// The nearest bfloat16 in the upper half of every lane, the lower half undefined; see [`crate::precision::bf16_bits`].
#[inline(always)]
fn rounded_to_upper_half(x: __m512) -> __m512i {
    pure!({
        let bits = _mm512_castps_si512(x);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x40_0000))
    })
}

// SAFETY: loads and stores touch exactly the lanes they name; masked-off lanes are neither read nor written.
unsafe impl Vector for Avx512 {
    const LANES: usize = 16;
    // 24 accumulators, 3 columns of the right operand and a broadcast: 28 of 32 registers.
    const TILE_ROWS: usize = 8;
    const TILE_VECTORS: usize = 3;

    shared_methods! {
        splat _mm512_set1_ps, load _mm512_loadu_ps, store _mm512_storeu_ps, sqrt _mm512_sqrt_ps, fma _mm512_fmadd_ps,
        binary {
            add _mm512_add_ps, sub _mm512_sub_ps, mul _mm512_mul_ps, div _mm512_div_ps, max _mm512_max_ps, min _mm512_min_ps
        },
        integer {
            _mm512_set1_epi32, _mm512_add_epi32, _mm512_and_si512, _mm512_slli_epi32, _mm512_cvtps_epi32, _mm512_castsi512_ps
        }
    }
    #[inline(always)]
    unsafe fn load_partial(p: *const f32, n: usize) -> Self {
        // SAFETY: only the first n lanes are read.
        Self(unsafe { _mm512_maskz_loadu_ps(mask(n), p) })
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f32, n: usize) {
        // SAFETY: only the first n lanes are written.
        unsafe { _mm512_mask_storeu_ps(p, mask(n), self.0) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(pure!(_mm512_abs_ps(self.0)))
    }
    #[inline(always)]
    fn round(self) -> Self {
        // Eight: to nearest even, no exception, no fraction bits.
        Self(pure!(_mm512_roundscale_ps::<8>(self.0)))
    }
    #[inline(always)]
    fn select_less(self, bound: Self, yes: Self, no: Self) -> Self {
        Self(pure!(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, bound.0), no.0, yes.0)))
    }
    #[inline(always)]
    fn bf16_pairs(self, next: Self) -> Self {
        Self(pure!({
            let low = _mm512_srli_epi32::<16>(rounded_to_upper_half(self.0));
            _mm512_castsi512_ps(_mm512_mask_blend_epi16(0xaaaa_aaaa, low, rounded_to_upper_half(next.0)))
        }))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        pure!(_mm512_reduce_add_ps(self.0))
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        pure!(_mm512_reduce_max_ps(self.0))
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // SAFETY: the caller promises sixteen writable values.
        unsafe {
            let halves = _mm512_srli_epi32::<16>(rounded_to_upper_half(self.0));
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(halves));
        }
    }
    #[inline(always)]
    unsafe fn tile(rows: usize, tile: &Tile) {
        // SAFETY: this type exists only where its features are enabled; the contract of `Tile` is passed on.
        unsafe { rows_of_tile(rows, tile) }
    }
}

tile_of!(#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")] Avx512: 8 7 6 5 4 3 2);
