//! A MATLAB file (version 5, the default of `save` up to v7; those of v7.3 are HDF5) that holds one matrix of numbers.

use flate2::{Decompress, FlushDecompress, Status};

use super::series_file::SeriesTable;
use super::series_hdf5;
use crate::nifti::{ByteOrder, Datatype};
use crate::problem::{Problem, ensure};

/// Variables of a file that are looked at.
const MOST_VARIABLES: usize = 1000;
/// Element types and array classes of the format.
const COMPRESSED: u32 = 15;
const MATRIX: u32 = 14;
const COMPLEX_FLAG: u32 = 0x800;

/// Reads the one real matrix with more than one row and column; scalars, texts and cells beside it are passed over.
pub(super) fn parse(bytes: &[u8], most_bytes: u64) -> Result<SeriesTable, Problem> {
    let header = bytes.get(..128).ok_or_else(|| Problem::new("header", "128 bytes", bytes.len()))?;
    if header.starts_with(b"MATLAB 7.3") {
        return series_hdf5::parse(bytes, most_bytes);
    }
    let big_endian = match &header[124..128] {
        [0x00, 0x01, b'I', b'M'] => false,
        [0x01, 0x00, b'M', b'I'] => true,
        _ => return Err(Problem::new("first bytes", "a MATLAB version 5 file", "others")),
    };
    let mut found: Option<Matrix> = None;
    let mut rest = Elements { bytes: &bytes[128..], big_endian };
    let mut budget = most_bytes;
    for _ in 0..MOST_VARIABLES {
        let Some((kind, content)) = rest.next()? else { break };
        let inflated;
        let (kind, content) = if kind == COMPRESSED {
            inflated = inflate(content, &mut budget)?;
            match (Elements { bytes: &inflated, big_endian }).next()? {
                Some(inner) => inner,
                None => continue,
            }
        } else {
            (kind, content)
        };
        if kind != MATRIX {
            continue;
        }
        if let Some(matrix) = matrix(content, big_endian)? {
            if let Some(other) = &found {
                return Err(Problem::new("variables", "one matrix", format!("{} and {}", other.name, matrix.name)));
            }
            found = Some(matrix);
        }
    }
    let Matrix { frames, columns, values, .. } =
        found.ok_or_else(|| Problem::new("variables", "one matrix of real numbers", "none"))?;
    // MATLAB keeps columns together; series keep frames together.
    let values = (0..frames).flat_map(|t| (0..columns).map(move |c| (t, c))).map(|(t, c)| values[c * frames + t]);
    Ok(SeriesTable { names: None, frames, columns, values: values.collect(), ..SeriesTable::default() })
}

struct Matrix {
    name: String,
    frames: usize,
    columns: usize,
    values: Vec<f32>,
}

/// A sequence of tagged pieces.
struct Elements<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Elements<'a> {
    fn next(&mut self) -> Result<Option<(u32, &'a [u8])>, Problem> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let truncated = || Problem::new("element", "its bytes", "the end of the file");
        let tag = self.bytes.first_chunk::<4>().ok_or_else(truncated)?;
        let first = number(*tag, self.big_endian);
        // Short pieces keep their size in the upper half of the type and their content in the tag.
        if first >> 16 != 0 {
            let content = self.bytes.get(4..8).and_then(|b| b.get(..(first >> 16) as usize)).ok_or_else(truncated)?;
            self.bytes = &self.bytes[8..];
            return Ok(Some((first & 0xffff, content)));
        }
        let size = self.bytes.get(4..8).and_then(|b| b.first_chunk::<4>()).ok_or_else(truncated)?;
        let size = number(*size, self.big_endian) as usize;
        let content = self.bytes.get(8..).and_then(|b| b.get(..size)).ok_or_else(truncated)?;
        let padded = if first == COMPRESSED { size } else { size.next_multiple_of(8) };
        self.bytes = self.bytes.get(8 + padded..).unwrap_or_default();
        Ok(Some((first, content)))
    }

    fn expect(&mut self) -> Result<(u32, &'a [u8]), Problem> {
        self.next()?.ok_or_else(|| Problem::new("array", "flags, sizes, name and values", "fewer pieces"))
    }
}

fn number(bytes: [u8; 4], big_endian: bool) -> u32 {
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

fn matrix(content: &[u8], big_endian: bool) -> Result<Option<Matrix>, Problem> {
    let mut pieces = Elements { bytes: content, big_endian };
    let Some((_, flags)) = pieces.next()? else { return Ok(None) };
    let flags = flags.first_chunk::<4>().map_or(0, |b| number(*b, big_endian));
    let (_, sizes) = pieces.expect()?;
    let sizes: Vec<usize> = sizes.as_chunks::<4>().0.iter().map(|b| number(*b, big_endian) as usize).collect();
    let (_, name) = pieces.expect()?;
    let name: String = String::from_utf8_lossy(name).chars().filter(|c| !c.is_control()).take(80).collect();
    let [frames, columns] = sizes[..] else { return Ok(None) };
    // Classes 6 to 15 are numbers; texts, cells, structures and sparse matrices are not series.
    if !(6..=15).contains(&(flags & 0xff)) || frames < 2 || columns < 2 {
        return Ok(None);
    }
    ensure(flags & COMPLEX_FLAG == 0, &name, "real numbers", "complex numbers")?;
    let (kind, values) = pieces.expect()?;
    let datatype = datatype(kind).ok_or_else(|| Problem::new(&name, "numbers", format_args!("type {kind}")))?;
    let values = datatype.values(if big_endian { ByteOrder::Big } else { ByteOrder::Little }, values);
    ensure(
        frames.checked_mul(columns) == Some(values.len()),
        &name,
        format_args!("{frames} x {columns} numbers"),
        values.len(),
    )?;
    Ok(Some(Matrix { name, frames, columns, values }))
}

/// Values are stored in whatever type is short enough for them.
fn datatype(kind: u32) -> Option<Datatype> {
    Some(match kind {
        1 => Datatype::I8,
        2 => Datatype::U8,
        3 => Datatype::I16,
        4 => Datatype::U16,
        5 => Datatype::I32,
        6 => Datatype::U32,
        7 => Datatype::F32,
        9 => Datatype::F64,
        12 => Datatype::I64,
        13 => Datatype::U64,
        _ => return None,
    })
}

/// Inflates one variable, growing with what really comes out and never beyond `budget`.
fn inflate(bytes: &[u8], budget: &mut u64) -> Result<Vec<u8>, Problem> {
    // Series are noise and hardly compress; a small file that claims much is not one.
    let most = (*budget).min((64 << 20).max(200 * bytes.len() as u64));
    let damaged = || Problem::new("variable", "compressed data", "other bytes");
    let mut inflate = Decompress::new(true);
    let mut out: Vec<u8> = vec![];
    loop {
        let before = (inflate.total_in(), out.len());
        out.reserve(64 << 10);
        let input = &bytes[before.0 as usize..];
        let status = inflate.decompress_vec(input, &mut out, FlushDecompress::None).map_err(|_| damaged())?;
        if out.len() as u64 > most {
            return Err(Problem::new("variable", format!("at most {most} bytes"), "more"));
        }
        if status == Status::StreamEnd {
            *budget -= out.len() as u64;
            return Ok(out);
        }
        if before == (inflate.total_in(), out.len()) {
            return Err(damaged());
        }
    }
}
