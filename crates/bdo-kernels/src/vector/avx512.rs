//! Sixteen lanes in a 512-bit register.

use super::Vector;
use super::avx2::transpose8;
use crate::gemm::tile::{Tile, run};
use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _CMP_LT_OQ, _CMP_UNORD_Q, _mm256_storeu_si256, _mm512_abs_ps,
    _mm512_add_epi32 as add_words, _mm512_add_ps as add, _mm512_and_si512 as and_words,
    _mm512_castps_si512 as floats_as_words, _mm512_castsi512_ps as words_as_floats, _mm512_cmp_ps_mask,
    _mm512_cvtepi32_epi16, _mm512_cvtps_epi32 as floats_to_words, _mm512_div_ps as div, _mm512_fmadd_ps as fma,
    _mm512_loadu_ps as load, _mm512_mask_blend_epi16, _mm512_mask_blend_ps, _mm512_mask_or_epi32,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps as max, _mm512_min_ps as min, _mm512_mul_ps as mul,
    _mm512_reduce_add_ps, _mm512_reduce_max_ps, _mm512_roundscale_ps, _mm512_set1_epi32 as splat_word,
    _mm512_set1_ps as splat, _mm512_slli_epi32 as shift_left, _mm512_sqrt_ps as sqrt, _mm512_srli_epi32 as shift_right,
    _mm512_storeu_ps as store, _mm512_sub_ps as sub,
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
        let bits = floats_as_words(x);
        let odd = and_words(shift_right::<16>(bits), splat_word(1));
        let rounded = add_words(add_words(bits, splat_word(0x7fff)), odd);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        _mm512_mask_or_epi32(rounded, nan, bits, splat_word(0x40_0000))
    })
}

// SAFETY: loads and stores touch exactly the lanes they name; masked-off lanes are neither read nor written.
unsafe impl Vector for Avx512 {
    const LANES: usize = 16;
    // 24 accumulators, 3 columns of the right operand and a broadcast: 28 of 32 registers.
    const TILE_ROWS: usize = 8;
    const TILE_VECTORS: usize = 3;

    shared_methods! { add sub mul div max min }

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
            let low = shift_right::<16>(rounded_to_upper_half(self.0));
            words_as_floats(_mm512_mask_blend_epi16(0xaaaa_aaaa, low, rounded_to_upper_half(next.0)))
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
            let halves = shift_right::<16>(rounded_to_upper_half(self.0));
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(halves));
        }
    }
}

tile_of!(#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")] Avx512: 8 7 6 5 4 3 2);
