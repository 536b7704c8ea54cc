//! A MATLAB file (version 5, the default of `save` up to v7; those of v7.3 are HDF5) that holds one matrix of numbers.

use super::series_file::{MOST_BYTES, SeriesTable, inflate, only, shown};
use super::series_hdf5;
use crate::nifti::{ByteOrder, Datatype, most_inflated};
use crate::problem::{Problem, at_most, ensure};

/// Variables of a file that are looked at.
const MOST_VARIABLES: usize = 1000;
/// Element types and array classes of the format.
const COMPRESSED: u32 = 15;
const MATRIX: u32 = 14;
const COMPLEX_FLAG: u32 = 0x800;
/// Types of number by their code; values are stored in whatever type is short enough for them.
const NUMBERS: [&str; 14] = ["", "i1", "u1", "i2", "u2", "i4", "u4", "f4", "", "f8", "", "", "i8", "u8"];

/// Reads the one real matrix with more than one row and column; scalars, texts and cells beside it are passed over.
pub(super) fn parse(bytes: &[u8]) -> Result<SeriesTable, Problem> {
    let header = bytes.get(..128).ok_or_else(|| Problem::new("header", "128 bytes", bytes.len()))?;
    if header.starts_with(b"MATLAB 7.3") {
        return series_hdf5::parse(bytes);
    }
    let order = match &header[124..128] {
        [0x00, 0x01, b'I', b'M'] => ByteOrder::Little,
        [0x01, 0x00, b'M', b'I'] => ByteOrder::Big,
        _ => return Err(Problem::new("first bytes", "a MATLAB version 5 file", "others")),
    };
    let mut found = vec![];
    let mut rest = Elements { bytes: &bytes[128..], order };
    let mut budget = MOST_BYTES;
    for _ in 0..MOST_VARIABLES {
        let Some((kind, content)) = rest.next()? else { break };
        let inflated;
        let variable = if kind == COMPRESSED {
            let most = most_inflated(content.len() as u64).min(budget);
            let damaged = || Problem::new("variable", "compressed data", "other bytes");
            inflated = inflate(content, true, most).ok_or_else(damaged)?;
            at_most("variable", inflated.len() as u64, most)?;
            budget -= inflated.len() as u64;
            Elements { bytes: &inflated, order }.next()?
        } else {
            Some((kind, content))
        };
        if let Some((MATRIX, content)) = variable {
            found.extend(matrix(Elements { bytes: content, order })?);
        }
    }
    Ok(only("variables", found)?.1)
}

/// A sequence of tagged pieces.
struct Elements<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Elements<'a> {
    fn next(&mut self) -> Result<Option<(u32, &'a [u8])>, Problem> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let truncated = || Problem::new("element", "its bytes", "the end of the file");
        let first = self.number(self.bytes).ok_or_else(truncated)?;
        // Short pieces keep their size in the upper half of the type and their content in the tag.
        if first >> 16 != 0 {
            let content = self.bytes.get(4..8).and_then(|b| b.get(..(first >> 16) as usize)).ok_or_else(truncated)?;
            self.bytes = &self.bytes[8..];
            return Ok(Some((first & 0xffff, content)));
        }
        let size = self.number(&self.bytes[4..]).ok_or_else(truncated)? as usize;
        let content = self.bytes.get(8..).and_then(|b| b.get(..size)).ok_or_else(truncated)?;
        let padded = if first == COMPRESSED { size } else { size.next_multiple_of(8) };
        self.bytes = self.bytes.get(8 + padded..).unwrap_or_default();
        Ok(Some((first, content)))
    }

    fn expect(&mut self) -> Result<(u32, &'a [u8]), Problem> {
        self.next()?.ok_or_else(|| Problem::new("array", "flags, sizes, name and values", "fewer pieces"))
    }

    /// The number at the start of some bytes.
    fn number(&self, bytes: &[u8]) -> Option<u32> {
        let bytes = *bytes.first_chunk()?;
        Some(if self.order == ByteOrder::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }
}

fn matrix(mut pieces: Elements) -> Result<Option<(String, SeriesTable)>, Problem> {
    let Some((_, flags)) = pieces.next()? else { return Ok(None) };
    let flags = pieces.number(flags).unwrap_or(0);
    let (_, sizes) = pieces.expect()?;
    let sizes: Vec<usize> = sizes.chunks_exact(4).filter_map(|b| Some(pieces.number(b)? as usize)).collect();
    let (_, name) = pieces.expect()?;
    let name = shown(&String::from_utf8_lossy(name));
    let [frames, columns] = sizes[..] else { return Ok(None) };
    // Classes 6 to 15 are numbers; texts, cells, structures and sparse matrices are not series.
    if !(6..=15).contains(&(flags & 0xff)) || frames < 2 || columns < 2 {
        return Ok(None);
    }
    ensure(flags & COMPLEX_FLAG == 0, &name, "real numbers", "complex numbers")?;
    let (kind, values) = pieces.expect()?;
    let datatype = NUMBERS.get(kind as usize).and_then(|number| Datatype::named(number));
    let datatype = datatype.ok_or_else(|| Problem::new(&name, "numbers", format_args!("type {kind}")))?;
    let values = datatype.values(pieces.order, values);
    let whole = frames.checked_mul(columns) == Some(values.len());
    ensure(whole, &name, format_args!("{frames} x {columns} numbers"), values.len())?;
    // MATLAB keeps columns together.
    Ok(Some((name, SeriesTable::of_numbers(frames, columns, values, true))))
}
