//! The fixed part of a NIfTI file, and the extensions between it and the data.

use super::datatype::Datatype;
use crate::problem::{Problem, ensure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

impl Version {
    pub fn header_bytes(self) -> usize {
        match self {
            Self::One => 348,
            Self::Two => 540,
        }
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
    pub intent_code: i32,
}

struct Fields<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
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

    fn i16(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.array(at))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.array(at))
    }

    fn i64(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.array(at))
    }

    fn f32(&self, at: usize) -> f64 {
        f64::from(f32::from_le_bytes(self.array(at)))
    }

    fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.array(at))
    }

    /// Consecutive floats: 32-bit in version one, 64-bit in version two.
    fn floats<const N: usize>(&self, version: Version, at: usize) -> [f64; N] {
        std::array::from_fn(|i| match version {
            Version::One => self.f32(at + 4 * i),
            Version::Two => self.f64(at + 8 * i),
        })
    }
}

/// Largest single size accepted: NIfTI-1 cannot say more, and no scanner does.
const MOST_ALONG_A_DIMENSION: i64 = i32::MAX as i64;

/// Version and byte order from the first twelve bytes: the size of the header must fit in one of the two orders.
pub(super) fn recognise(start: &[u8]) -> Result<(Version, ByteOrder), Problem> {
    let size: [u8; 4] = start
        .get(..4)
        .and_then(|b| b.try_into().ok())
        .ok_or_else(|| Problem::new("size of the file", "at least 352 bytes", start.len()))?;
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
        ensure(
            bytes.len() >= version.header_bytes(),
            "size of the file",
            format_args!("at least {}", version.header_bytes()),
            bytes.len(),
        )?;
        let fields = Fields { bytes, order: byte_order };
        check_magic(bytes, version)?;
        let (at, one) =
            (|one: usize, two: usize| if version == Version::One { one } else { two }, version == Version::One);
        let dims =
            dims(std::array::from_fn(
                |i| {
                    if one { i64::from(fields.i16(40 + 2 * i)) } else { fields.i64(16 + 8 * i) }
                },
            ))?;
        let datatype = Datatype::from_code(fields.i16(at(70, 12)))?;
        let bits = fields.i16(at(72, 14));
        ensure(
            usize::try_from(bits) == Ok(8 * datatype.bytes()),
            "bitpix",
            format_args!("{} for {datatype:?}", 8 * datatype.bytes()),
            bits,
        )?;
        let data_offset = if one { integer_offset(fields.f32(108))? } else { fields.i64(168) };
        let least = version.header_bytes() as i64 + 4;
        ensure(data_offset >= least, "vox_offset", format_args!("at least {least}"), data_offset)?;
        let [slope, intercept] = fields.floats(version, at(112, 176));
        let code = |one_at: usize, two_at: usize| if one { i32::from(fields.i16(one_at)) } else { fields.i32(two_at) };
        Ok(Self {
            version,
            byte_order,
            dims,
            datatype,
            data_offset: data_offset as u64,
            pixdim: fields.floats(version, at(76, 104)),
            scaling: scaling(slope, intercept, warnings)?,
            xyzt_units: if one { i32::from(bytes[123]) } else { fields.i32(500) },
            qform_code: valid_code("qform_code", code(252, 344), warnings),
            sform_code: valid_code("sform_code", code(254, 348), warnings),
            quaternion: fields.floats(version, at(256, 352)),
            quaternion_offset: fields.floats(version, at(268, 376)),
            sform: std::array::from_fn(|row| fields.floats(version, at(280 + 16 * row, 400 + 32 * row))),
            intent_code: code(68, 504),
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
    ensure(
        intercept.is_finite(),
        "scl_inter",
        format_args!("a finite number, because scl_slope is {slope}"),
        intercept,
    )?;
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

/// Splits the bytes from the extension flag to the data. The first four say whether there is any.
pub(super) fn extensions(bytes: &[u8], order: ByteOrder) -> Result<Vec<Extension>, Problem> {
    let mut found = vec![];
    let Some((flag, mut rest)) = bytes.split_first_chunk::<4>() else { return Ok(found) };
    if flag[0] == 0 {
        return Ok(found);
    }
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
