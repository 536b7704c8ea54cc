//! Eight lanes in a 256-bit register.

use super::Vector;
use crate::gemm::tile::{Tile, run};
use std::arch::x86_64::{
    __m256, __m256i, _CMP_LT_OQ, _CMP_UNORD_Q, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm_add_ps, _mm_add_ss,
    _mm_castps_pd, _mm_cvtss_f32, _mm_max_ps, _mm_max_ss, _mm_movehl_ps, _mm_shuffle_ps, _mm_store_ss, _mm_storel_pd,
    _mm_storeu_ps, _mm_storeu_si128, _mm256_add_epi32 as add_words, _mm256_add_ps as add, _mm256_and_ps,
    _mm256_and_si256 as and_words, _mm256_blend_epi16, _mm256_blendv_epi8, _mm256_blendv_ps,
    _mm256_castps_si256 as floats_as_words, _mm256_castps256_ps128, _mm256_castsi256_ps as words_as_floats,
    _mm256_castsi256_si128, _mm256_cmp_ps, _mm256_cvtps_epi32 as floats_to_words, _mm256_div_ps as div,
    _mm256_extractf128_ps, _mm256_fmadd_ps as fma, _mm256_loadu_ps as load, _mm256_loadu_si256, _mm256_maskload_ps,
    _mm256_max_ps as max, _mm256_min_ps as min, _mm256_mul_ps as mul, _mm256_or_si256, _mm256_packus_epi32,
    _mm256_permute2f128_ps, _mm256_permute4x64_epi64, _mm256_round_ps, _mm256_set1_epi32 as splat_word,
    _mm256_set1_ps as splat, _mm256_shuffle_ps, _mm256_slli_epi32 as shift_left, _mm256_sqrt_ps as sqrt,
    _mm256_srli_epi32 as shift_right, _mm256_storeu_ps as store, _mm256_sub_ps as sub, _mm256_unpackhi_ps,
    _mm256_unpacklo_ps,
};

/// Eight lanes; exists only inside a wrapper that enabled AVX2 and FMA.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256);

/// Sliding window over a run of ones and a run of zeros: eight words from `8 - n` mask the first `n` lanes.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// Mask of the first `n <= 8` lanes.
#[inline(always)]
fn mask(n: usize) -> __m256i {
    debug_assert!(n <= 8);
    // SAFETY: 8 - n + 8 <= 16 words.
    unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast()) }
}

// SAFETY: loads and stores touch exactly the lanes they name; masked-off lanes are neither read nor written.
unsafe impl Vector for Avx2 {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;
    const TILE_VECTORS: usize = 2;

    shared_methods! { add sub mul div max min }

    #[inline(always)]
    unsafe fn load_partial(p: *const f32, n: usize) -> Self {
        // SAFETY: only the first n lanes are read.
        Self(unsafe { _mm256_maskload_ps(p, mask(n)) })
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f32, n: usize) {
        // A masked store is microcoded on several AMD cores; four, two and one lanes in turn are not.
        let mut at = p;
        // SAFETY: the pieces add up to n writable values.
        unsafe {
            if n >= 8 {
                return self.store(p);
            }
            let mut low = _mm256_castps256_ps128(self.0);
            if n & 4 != 0 {
                _mm_storeu_ps(at, low);
                at = at.add(4);
                low = _mm256_extractf128_ps::<1>(self.0);
            }
            if n & 2 != 0 {
                _mm_storel_pd(at.cast(), _mm_castps_pd(low));
                at = at.add(2);
                low = _mm_movehl_ps(low, low);
            }
            if n & 1 != 0 {
                _mm_store_ss(at, low);
            }
        }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(pure!(_mm256_and_ps(self.0, words_as_floats(splat_word(i32::MAX)))))
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(pure!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)))
    }
    #[inline(always)]
    fn select_less(self, bound: Self, yes: Self, no: Self) -> Self {
        Self(pure!(_mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, bound.0))))
    }
    #[inline(always)]
    fn bf16_pairs(self, next: Self) -> Self {
        Self(pure!({
            let low = shift_right::<16>(rounded_to_upper_half(self.0));
            words_as_floats(_mm256_blend_epi16::<0b1010_1010>(low, rounded_to_upper_half(next.0)))
        }))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        pure!({
            let four = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        })
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        pure!({
            let four = _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        })
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // SAFETY: the caller promises eight writable values.
        unsafe {
            let halves = shift_right::<16>(rounded_to_upper_half(self.0));
            // Packing works within each half of the register; the two good quarters are then brought together.
            let packed = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi32(halves, halves));
            _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(packed));
        }
    }
}

/// The nearest bfloat16 in the upper half of every lane, the lower half undefined; see [`crate::precision::bf16_bits`].
#[inline(always)]
fn rounded_to_upper_half(x: __m256) -> __m256i {
    pure!({
        let bits = floats_as_words(x);
        let odd = and_words(shift_right::<16>(bits), splat_word(1));
        let rounded = add_words(add_words(bits, splat_word(0x7fff)), odd);
        let quiet = _mm256_or_si256(bits, splat_word(0x40_0000));
        _mm256_blendv_epi8(rounded, quiet, floats_as_words(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)))
    })
}

tile_of!(#[target_feature(enable = "avx2,fma")] Avx2: 6 5 4 3 2);

/// The transposition both x86 vector types use.
#[inline(always)]
pub(super) unsafe fn transpose8(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
    // SAFETY: the caller promises AVX2 and that both 8 x 8 blocks are in bounds.
    unsafe {
        let r0 = load(src);
        let r1 = load(src.add(src_stride));
        let r2 = load(src.add(2 * src_stride));
        let r3 = load(src.add(3 * src_stride));
        let r4 = load(src.add(4 * src_stride));
        let r5 = load(src.add(5 * src_stride));
        let r6 = load(src.add(6 * src_stride));
        let r7 = load(src.add(7 * src_stride));
        // Pairs of rows interleaved, then pairs of pairs, then the two halves.
        let (a0, a1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
        let (a2, a3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
        let (a4, a5) = (_mm256_unpacklo_ps(r4, r5), _mm256_unpackhi_ps(r4, r5));
        let (a6, a7) = (_mm256_unpacklo_ps(r6, r7), _mm256_unpackhi_ps(r6, r7));
        let (b0, b1) = (_mm256_shuffle_ps::<0x44>(a0, a2), _mm256_shuffle_ps::<0xee>(a0, a2));
        let (b2, b3) = (_mm256_shuffle_ps::<0x44>(a1, a3), _mm256_shuffle_ps::<0xee>(a1, a3));
        let (b4, b5) = (_mm256_shuffle_ps::<0x44>(a4, a6), _mm256_shuffle_ps::<0xee>(a4, a6));
        let (b6, b7) = (_mm256_shuffle_ps::<0x44>(a5, a7), _mm256_shuffle_ps::<0xee>(a5, a7));
        store(dst, _mm256_permute2f128_ps::<0x20>(b0, b4));
        store(dst.add(dst_stride), _mm256_permute2f128_ps::<0x20>(b1, b5));
        store(dst.add(2 * dst_stride), _mm256_permute2f128_ps::<0x20>(b2, b6));
        store(dst.add(3 * dst_stride), _mm256_permute2f128_ps::<0x20>(b3, b7));
        store(dst.add(4 * dst_stride), _mm256_permute2f128_ps::<0x31>(b0, b4));
        store(dst.add(5 * dst_stride), _mm256_permute2f128_ps::<0x31>(b1, b5));
        store(dst.add(6 * dst_stride), _mm256_permute2f128_ps::<0x31>(b2, b6));
        store(dst.add(7 * dst_stride), _mm256_permute2f128_ps::<0x31>(b3, b7));
    }
}
