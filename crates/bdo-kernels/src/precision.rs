//! Precision of the operands of matrix products.

use crate::amx;
use crate::isa::{Isa, vectorised};
use crate::threads::{ELEMENTS_PER_TASK, map_chunks};
use std::mem::MaybeUninit;

/// Precision of the operands of linear layers and of the products inside attention; sums, softmax and master weights are always
/// `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Full single precision.
    F32,
    /// Operands rounded to bfloat16. On a machine without AMX the same rounding is applied and the sums run in `f32`
    /// code: equal up to the order of summation, without the gain in speed.
    Bf16,
}

impl Precision {
    /// The faster precision on this machine: bfloat16 where there are AMX tiles.
    pub fn fastest() -> Self {
        if amx::is_available() { Self::Bf16 } else { Self::F32 }
    }
}

/// The nearest bfloat16, ties to even, as the upper half of an `f32`; NaN stays NaN.
#[inline(always)]
pub(crate) fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // Adding to a NaN could carry it into infinity or zero.
    (if x.is_nan() { (bits >> 16) | 0x40 } else { rounded }) as u16
}

/// Every value rounded to bfloat16 and widened again.
pub(crate) fn rounded_to_bf16(isa: Isa, x: &[f32]) -> Vec<f32> {
    map_chunks(x, ELEMENTS_PER_TASK, |x, y| round_chunk(isa, x, y))
}

vectorised! {
    fn round_chunk<V>(x: &[f32], y: &mut [MaybeUninit<f32>]) {
        // Plain integer code: the wrapper's features let the compiler vectorise it.
        let _ = V::LANES;
        for (y, &x) in y.iter_mut().zip(x) {
            y.write(f32::from_bits(u32::from(bf16_bits(x)) << 16));
        }
    }
}
