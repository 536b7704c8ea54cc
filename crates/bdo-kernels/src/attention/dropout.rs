//! Dropout of probabilities by masks that are computed where they are used, so that none is stored.

use crate::reference;
use crate::vector::Vector;

/// Sets a share of the probabilities to zero and raises the others. The mask of `[batch, heads, length, length]` is that of a
/// random stream in this order: eight bytes of `ChaCha12` for each probability, which is dropped if their upper 53 bits, as a
/// number in [0, 1), are below the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    pub(crate) key: [u32; 8],
    /// The smallest eight bytes, as a number, that keep a probability.
    pub(crate) least: u64,
    /// What kept probabilities are multiplied by.
    pub(crate) kept: f32,
}

/// Blocks of the stream computed side by side, whatever the instruction set.
const BLOCKS: usize = 16;
/// Eight masks in each.
const MASKS: usize = 8 * BLOCKS;

impl Dropout {
    /// The stream of a key; `rate` is from 0 to below 1.
    pub fn new(key: [u8; 32], rate: f64) -> Self {
        assert!((0.0..1.0).contains(&rate), "rate: expected 0 <= rate < 1, found {rate}");
        let word = |i: usize| u32::from_le_bytes([key[4 * i], key[4 * i + 1], key[4 * i + 2], key[4 * i + 3]]);
        // `(x >> 11) * 2^-53 < rate` without leaving integers: scaling by a power of two is exact.
        let least = ((rate * (1u64 << 53) as f64).ceil() as u64) << 11;
        Self { key: std::array::from_fn(word), least, kept: (1.0 / (1.0 - rate)) as f32 }
    }

    /// Factors of the probabilities from `first` on, counted over the whole `[batch, heads, length, length]`.
    #[inline(always)]
    pub(super) fn factors<V: Vector>(&self, first: usize, out: &mut [f32]) {
        let (mut block, mut skip, mut done) = ((first / 8) as u64, first % 8, 0);
        while done < out.len() {
            let masks = self.masks::<V>(block);
            let count = (MASKS - skip).min(out.len() - done);
            out[done..done + count].copy_from_slice(&masks[skip..skip + count]);
            (block, skip, done) = (block + BLOCKS as u64, 0, done + count);
        }
    }

    /// The factors of sixteen blocks.
    #[inline(always)]
    #[allow(clippy::needless_bitwise_bool)] // A branch for each lane would cost more than the stream.
    fn masks<V: Vector>(&self, block: u64) -> [f32; MASKS] {
        let words = blocks(&self.key, block);
        let (least_low, least_high) = (self.least as u32, (self.least >> 32) as u32);
        let mut across = [[0.0f32; BLOCKS]; 8];
        for (j, row) in across.iter_mut().enumerate() {
            let (low, high) = (&words[2 * j], &words[2 * j + 1]);
            for (lane, factor) in row.iter_mut().enumerate() {
                let keep = (high[lane] > least_high) | ((high[lane] == least_high) & (low[lane] >= least_low));
                *factor = if keep { self.kept } else { 0.0 };
            }
        }
        let mut along = [0.0f32; MASKS];
        for lanes in (0..BLOCKS).step_by(8) {
            // SAFETY: eight rows of eight values from column `lanes`, sixteen apart; 64 values from 8 * lanes; two arrays.
            unsafe {
                V::transpose8(across.as_ptr().cast::<f32>().add(lanes), BLOCKS, along.as_mut_ptr().add(8 * lanes), 8);
            }
        }
        along
    }
}

/// Sixteen blocks of `ChaCha12` from this one on, word by word. The loop over blocks has one straight body, which compilers turn
/// into vectors.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // A lane is a column of what is returned.
fn blocks(key: &[u32; 8], first: u64) -> [[u32; BLOCKS]; 16] {
    macro_rules! quarter {
        ($s:ident: $a:literal $b:literal $c:literal $d:literal) => {
            $s[$a] = $s[$a].wrapping_add($s[$b]);
            $s[$d] = ($s[$d] ^ $s[$a]).rotate_left(16);
            $s[$c] = $s[$c].wrapping_add($s[$d]);
            $s[$b] = ($s[$b] ^ $s[$c]).rotate_left(12);
            $s[$a] = $s[$a].wrapping_add($s[$b]);
            $s[$d] = ($s[$d] ^ $s[$a]).rotate_left(8);
            $s[$c] = $s[$c].wrapping_add($s[$d]);
            $s[$b] = ($s[$b] ^ $s[$c]).rotate_left(7);
        };
    }
    macro_rules! two_rounds {
        ($s:ident: $($time:literal)+) => {
            $(let _: i32 = $time;
            quarter!($s: 0 4 8 12);
            quarter!($s: 1 5 9 13);
            quarter!($s: 2 6 10 14);
            quarter!($s: 3 7 11 15);
            quarter!($s: 0 5 10 15);
            quarter!($s: 1 6 11 12);
            quarter!($s: 2 7 8 13);
            quarter!($s: 3 4 9 14);)+
        };
    }
    let mut out = [[0; BLOCKS]; 16];
    for lane in 0..BLOCKS {
        let start = reference::chacha_start(key, first + lane as u64);
        let mut s = start;
        two_rounds!(s: 1 2 3 4 5 6);
        for word in 0..16 {
            out[word][lane] = s[word].wrapping_add(start[word]);
        }
    }
    out
}
