//! The fixed part of a NIfTI file, and the extensions between it and the data.

use super::datatype::Datatype;
use crate::problem::{Problem, ensure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One = 348,
    Two = 540,
}

impl Version {
    pub(super) fn header_bytes(self) -> usize {
        self as usize
    }
}

/// The order of bytes in a number, which the header decides for the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    Little,
    Big,
}

/// What stored numbers have to go through to become values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    pub slope: f64,
    pub intercept: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    pub version: Version,
    pub byte_order: ByteOrder,
    /// One to seven sizes, each at least 1.
    pub dims: Vec<u64>,
    pub datatype: Datatype,
    /// Where the data starts in the (decompressed) file.
    pub data_offset: u64,
    /// `qfac` and the grid spacings, as stored.
    pub pixdim: [f64; 8],
    /// Scaling of stored numbers; absent where the header asks for none.
    pub scaling: Option<Scaling>,
    /// Units of space and time, as stored.
    pub xyzt_units: i32,
    /// Which space the quaternion leads to; 0 for none.
    pub qform_code: i32,
    pub sform_code: i32,
    /// Quaternion b, c and d.
    pub quaternion: [f64; 3],
    pub quaternion_offset: [f64; 3],
    pub sform: [[f64; 4]; 3],
}

/// The fields of a header, by where they stand in version one and in version two.
struct Fields<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    version: Version,
}

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        if self.order == ByteOrder::Big {
            out.reverse();
        }
        out
    }

    fn is_one(&self) -> bool {
        self.version == Version::One
    }

    fn i16(&self, one: usize, two: usize) -> i16 {
        i16::from_le_bytes(self.array(if self.is_one() { one } else { two }))
    }

    /// 16 bits in version one, 32 in version two.
    fn code(&self, one: usize, two: usize) -> i32 {
        if self.is_one() { self.i16(one, two).into() } else { i32::from_le_bytes(self.array(two)) }
    }

    /// Consecutive floats: 32-bit in version one, 64-bit in version two.
    fn floats<const N: usize>(&self, one: usize, two: usize) -> [f64; N] {
        std::array::from_fn(|i| match self.version {
            Version::One => f32::from_le_bytes(self.array(one + 4 * i)).into(),
            Version::Two => f64::from_le_bytes(self.array(two + 8 * i)),
        })
    }
}

/// Largest single size accepted: NIfTI-1 cannot say more, and no scanner does.
const MOST_ALONG_A_DIMENSION: i64 = i32::MAX as i64;

/// Version and byte order: the size of the header, its first number, must fit in one of the two orders.
pub(super) fn recognise(size: [u8; 4]) -> Result<(Version, ByteOrder), Problem> {
    match (i32::from_le_bytes(size), i32::from_be_bytes(size)) {
        (348, _) => Ok((Version::One, ByteOrder::Little)),
        (_, 348) => Ok((Version::One, ByteOrder::Big)),
        (540, _) => Ok((Version::Two, ByteOrder::Little)),
        (_, 540) => Ok((Version::Two, ByteOrder::Big)),
        (little, _) => Err(Problem::new("size of the header", "348 (NIfTI-1) or 540 (NIfTI-2)", little)),
    }
}

impl Header {
    /// Parses and checks a header of exactly [`Version::header_bytes`]; adds what is odd but harmless to `warnings`.
    pub(super) fn parse(
        bytes: &[u8],
        version: Version,
        byte_order: ByteOrder,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Problem> {
        let fields = Fields { bytes, order: byte_order, version };
        let one = fields.is_one();
        check_magic(bytes, version)?;
        let size = |i: usize| match version {
            Version::One => fields.i16(40 + 2 * i, 0).into(),
            Version::Two => i64::from_le_bytes(fields.array(16 + 8 * i)),
        };
        let dims = dims(std::array::from_fn(size))?;
        let datatype = Datatype::from_code(fields.i16(70, 12))?;
        let (bits, expected) = (fields.i16(72, 14), 8 * datatype.bytes());
        ensure(usize::try_from(bits) == Ok(expected), "bitpix", format_args!("{expected} for {datatype:?}"), bits)?;
        let data_offset = match version {
            Version::One => integer_offset(f32::from_le_bytes(fields.array(108)).into())?,
            Version::Two => i64::from_le_bytes(fields.array(168)),
        };
        let least = version.header_bytes() as i64 + 4;
        ensure(data_offset >= least, "vox_offset", format_args!("at least {least}"), data_offset)?;
        let [slope, intercept] = fields.floats(112, 176);
        Ok(Self {
            version,
            byte_order,
            dims,
            datatype,
            data_offset: data_offset as u64,
            pixdim: fields.floats(76, 104),
            scaling: scaling(slope, intercept, warnings)?,
            xyzt_units: if one { bytes[123].into() } else { i32::from_le_bytes(fields.array(500)) },
            qform_code: valid_code("qform_code", fields.code(252, 344), warnings),
            sform_code: valid_code("sform_code", fields.code(254, 348), warnings),
            quaternion: fields.floats(256, 352),
            quaternion_offset: fields.floats(268, 376),
            sform: std::array::from_fn(|row| fields.floats(280 + 16 * row, 400 + 32 * row)),
        })
    }

    /// The three spatial sizes, 1 where the image has fewer dimensions.
    pub fn shape(&self) -> [usize; 3] {
        std::array::from_fn(|i| self.dims.get(i).map_or(1, |d| *d as usize))
    }

    pub fn volumes(&self) -> usize {
        self.dims.iter().skip(3).product::<u64>() as usize
    }

    pub fn voxels(&self) -> usize {
        self.shape().into_iter().product()
    }

    /// Bytes of the data. Parsing has checked that the product does not overflow.
    pub fn data_bytes(&self) -> u64 {
        self.dims.iter().product::<u64>() * self.datatype.bytes() as u64
    }

    pub fn has_unit_of_time(&self) -> bool {
        self.xyzt_units & 0x38 != 0
    }

    /// Time between volumes in seconds as the header states it, whatever it is worth.
    pub fn tr_seconds(&self) -> Option<f64> {
        let per_second = match self.xyzt_units & 0x38 {
            // Without a unit, seconds are what every tool assumes.
            0 | 8 => 1.0,
            16 => 1e3,
            24 => 1e6,
            _ => return None,
        };
        let tr = self.pixdim[4] / per_second;
        (self.dims.len() > 3 && tr.is_finite() && tr > 0.0).then_some(tr)
    }
}

fn check_magic(bytes: &[u8], version: Version) -> Result<(), Problem> {
    let (found, single, pair): (&[u8], &[u8], &[u8]) = match version {
        Version::One => (&bytes[344..348], b"n+1\0", b"ni1\0"),
        Version::Two => (&bytes[4..12], b"n+2\0\r\n\x1a\n", b"ni2\0\r\n\x1a\n"),
    };
    ensure(found != pair, "layout", "one .nii file", "the header of an .hdr/.img pair: convert it to .nii.gz")?;
    if found != single {
        return Err(Problem::new("magic", single.escape_ascii(), found.escape_ascii()));
    }
    Ok(())
}

fn dims(stored: [i64; 8]) -> Result<Vec<u64>, Problem> {
    let count = usize::try_from(stored[0]).ok().filter(|n| (1..=7).contains(n));
    let count = count.ok_or_else(|| Problem::new("number of dimensions", "1 to 7", stored[0]))?;
    let sizes = &stored[1..=count];
    if let Some(bad) = sizes.iter().find(|d| !(1..=MOST_ALONG_A_DIMENSION).contains(*d)) {
        return Err(Problem::new("dimensions", format!("sizes of 1 to {MOST_ALONG_A_DIMENSION}"), bad));
    }
    // Eight bytes is the widest voxel, so the size in bytes cannot overflow either.
    let product = sizes.iter().try_fold(8_i64, |n, d| n.checked_mul(*d));
    product.ok_or_else(|| Problem::new("dimensions", "a size that can be counted", format!("{sizes:?}")))?;
    Ok(sizes.iter().map(|d| *d as u64).collect())
}

/// NIfTI-1 keeps the offset as a float.
fn integer_offset(offset: f64) -> Result<i64, Problem> {
    if !(offset.is_finite() && offset.fract() == 0.0 && offset.abs() < 9e15) {
        return Err(Problem::new("vox_offset", "a whole number", offset));
    }
    Ok(offset as i64)
}

fn scaling(slope: f64, intercept: f64, warnings: &mut Vec<String>) -> Result<Option<Scaling>, Problem> {
    if !slope.is_finite() || slope == 0.0 {
        warnings.push(format!("scl_slope is {slope}: the stored numbers are taken as they are"));
        return Ok(None);
    }
    let expected = format_args!("a finite number, because scl_slope is {slope}");
    ensure(intercept.is_finite(), "scl_inter", expected, intercept)?;
    Ok((slope != 1.0 || intercept != 0.0).then_some(Scaling { slope, intercept }))
}

/// Codes beyond the known ones mean nothing, as in nibabel.
fn valid_code(what: &str, code: i32, warnings: &mut Vec<String>) -> i32 {
    if (0..=5).contains(&code) {
        return code;
    }
    warnings.push(format!("{what} is {code}, which is not a code: taken as 0"));
    0
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    pub code: i32,
    /// Content, perhaps padded with zeros.
    pub bytes: Vec<u8>,
}

/// Splits the bytes between the flag that says there are extensions and the data.
pub(super) fn extensions(mut rest: &[u8], order: ByteOrder) -> Result<Vec<Extension>, Problem> {
    let mut found = vec![];
    while rest.len() >= 16 {
        let number = |at: usize| {
            let raw = [rest[at], rest[at + 1], rest[at + 2], rest[at + 3]];
            if order == ByteOrder::Little { i32::from_le_bytes(raw) } else { i32::from_be_bytes(raw) }
        };
        let size = usize::try_from(number(0)).ok().filter(|n| *n >= 16 && n.is_multiple_of(16));
        let size = size.ok_or_else(|| Problem::new("extension", "a size of a multiple of 16 bytes", number(0)))?;
        let content = rest.get(8..size).ok_or_else(|| {
            Problem::new("extension", format!("at most {} bytes, which is where the data starts", rest.len()), size)
        })?;
        found.push(Extension { code: number(4), bytes: content.to_vec() });
        rest = &rest[size..];
    }
    Ok(found)
}
