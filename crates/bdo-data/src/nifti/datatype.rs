//! The types of number a voxel can have.

use super::header::ByteOrder;
use crate::problem::Problem;

/// A scalar type of voxel, as NIfTI numbers them. Complex and colour images have no region mean and are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datatype {
    U8 = 2,
    I16 = 4,
    I32 = 8,
    F32 = 16,
    F64 = 64,
    I8 = 256,
    U16 = 512,
    U32 = 768,
    I64 = 1024,
    U64 = 1280,
}

impl Datatype {
    /// Each with the name numpy has for it: its kind and its bytes.
    const ALL: [(Self, &str); 10] = [
        (Self::U8, "u1"),
        (Self::I8, "i1"),
        (Self::U16, "u2"),
        (Self::I16, "i2"),
        (Self::U32, "u4"),
        (Self::I32, "i4"),
        (Self::U64, "u8"),
        (Self::I64, "i8"),
        (Self::F32, "f4"),
        (Self::F64, "f8"),
    ];

    pub(super) fn from_code(code: i16) -> Result<Self, Problem> {
        let refused = |name: &str| Problem::new("datatype", "real numbers", format!("{name} (code {code})"));
        match code {
            1 => Err(refused("single bits")),
            32 | 1792 | 2048 => Err(refused("complex numbers")),
            128 | 2304 => Err(refused("colours")),
            1536 => Err(refused("128-bit floats")),
            _ => {
                let found = Self::ALL.into_iter().find(|(datatype, _)| *datatype as i16 == code);
                found.map(|(datatype, _)| datatype).ok_or_else(|| Problem::new("datatype", "a NIfTI code", code))
            }
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(datatype, _)| datatype)
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// True for floats, which alone can be NaN or infinite.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

/// Runs `$body` with `$values` bound to an iterator over the numbers of `$bytes`, whatever their type and byte order, each
/// already widened to `f64` (exact for all types but 64-bit integers beyond 2^53).
macro_rules! for_each_value {
    ($datatype:expr, $order:expr, $bytes:expr, |$values:ident| $body:expr) => {{
        use $crate::nifti::{ByteOrder, Datatype};
        macro_rules! typed {
            ($type:ty, $read:ident) => {{
                #[allow(clippy::cast_lossless, trivial_numeric_casts)]
                let $values = $bytes.as_chunks().0.iter().map(|b| <$type>::$read(*b) as f64);
                $body
            }};
        }
        match ($datatype, $order) {
            (Datatype::U8, _) => typed!(u8, from_le_bytes),
            (Datatype::I8, _) => typed!(i8, from_le_bytes),
            (Datatype::U16, ByteOrder::Little) => typed!(u16, from_le_bytes),
            (Datatype::U16, ByteOrder::Big) => typed!(u16, from_be_bytes),
            (Datatype::I16, ByteOrder::Little) => typed!(i16, from_le_bytes),
            (Datatype::I16, ByteOrder::Big) => typed!(i16, from_be_bytes),
            (Datatype::U32, ByteOrder::Little) => typed!(u32, from_le_bytes),
            (Datatype::U32, ByteOrder::Big) => typed!(u32, from_be_bytes),
            (Datatype::I32, ByteOrder::Little) => typed!(i32, from_le_bytes),
            (Datatype::I32, ByteOrder::Big) => typed!(i32, from_be_bytes),
            (Datatype::U64, ByteOrder::Little) => typed!(u64, from_le_bytes),
            (Datatype::U64, ByteOrder::Big) => typed!(u64, from_be_bytes),
            (Datatype::I64, ByteOrder::Little) => typed!(i64, from_le_bytes),
            (Datatype::I64, ByteOrder::Big) => typed!(i64, from_be_bytes),
            (Datatype::F32, ByteOrder::Little) => typed!(f32, from_le_bytes),
            (Datatype::F32, ByteOrder::Big) => typed!(f32, from_be_bytes),
            (Datatype::F64, ByteOrder::Little) => typed!(f64, from_le_bytes),
            (Datatype::F64, ByteOrder::Big) => typed!(f64, from_be_bytes),
        }
    }};
}
pub(crate) use for_each_value;

impl Datatype {
    /// All numbers of these bytes, in single precision.
    pub(crate) fn values(self, order: ByteOrder, bytes: &[u8]) -> Vec<f32> {
        for_each_value!(self, order, bytes, |values| values.map(|x| x as f32).collect())
    }
}
