//! Arrays of numpy: a .npy file with one of two dimensions, or a .npz archive that holds one.

use flate2::Crc;

use super::series_file::{MOST_BYTES, SeriesTable, inflate, shown};
use crate::nifti::{ByteOrder, Datatype, most_inflated};
use crate::problem::{Problem, at_most, ensure, listed};

/// Longest header of a .npy file; real ones have about 100 bytes.
const MOST_HEADER: usize = 4096;
/// Most arrays of an archive; real ones have a handful.
const MOST_ENTRIES: u16 = 1000;
/// The end record is the last 22 bytes plus a comment of at most this many.
const LONGEST_COMMENT: usize = 65_535;

/// Reads a two-dimensional array of numbers. The header is checked for its few fixed keys and never evaluated.
pub(super) fn parse(bytes: &[u8]) -> Result<SeriesTable, Problem> {
    let truncated = || Problem::new("header", "a .npy file", "too few bytes");
    ensure(bytes.starts_with(b"\x93NUMPY"), "first bytes", "a .npy file", "others")?;
    let (length, start) = match bytes.get(6).ok_or_else(truncated)? {
        1 => (u16_at(bytes, 8).map(usize::from), 10),
        2 | 3 => (u32_at(bytes, 8).map(|length| length as usize), 12),
        other => return Err(Problem::new("version", "1, 2 or 3", other)),
    };
    let length = length.ok_or_else(truncated)?;
    ensure(length <= MOST_HEADER, "header", format_args!("at most {MOST_HEADER} bytes"), length)?;
    let header = bytes.get(start..start + length).ok_or_else(truncated)?;
    let header = std::str::from_utf8(header).map_err(|_| Problem::new("header", "text", "other bytes"))?;
    let value_of = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    let kind = value_of("descr").and_then(|v| v.split('\'').nth(1)).unwrap_or("none");
    let columns_first = value_of("fortran_order").is_some_and(|v| v.starts_with("True"));
    let shape = value_of("shape").and_then(|v| v.strip_prefix('(')?.split_once(')')).map_or("none", |(s, _)| s);
    let sizes: Option<Vec<usize>> =
        shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().ok()).collect();
    let &[frames, columns] = sizes.as_deref().unwrap_or_default() else {
        return Err(Problem::new("shape", "two sizes, frames and regions", format!("({shape})")));
    };
    let (order, number) = kind.split_at_checked(1).unwrap_or((kind, ""));
    let byte_order = match order {
        "<" | "|" => Some(ByteOrder::Little),
        ">" => Some(ByteOrder::Big),
        _ => None,
    };
    let Some((datatype, byte_order)) = Datatype::named(number).zip(byte_order) else {
        return Err(Problem::new("type of number", "f4, f8 or whole numbers of either byte order", kind));
    };
    let (data, width) = (&bytes[start + length..], datatype.bytes());
    let whole = frames.checked_mul(columns).and_then(|n| n.checked_mul(width)) == Some(data.len());
    let expected = format_args!("{frames} x {columns} numbers of {width} bytes");
    ensure(whole, "size", expected, format_args!("{} bytes", data.len()))?;
    Ok(SeriesTable::of_numbers(frames, columns, datatype.values(byte_order, data), columns_first))
}

/// Reads the one array of numbers in two dimensions; arrays of other kinds beside it are passed over.
pub(super) fn parse_archive(bytes: &[u8]) -> Result<SeriesTable, Problem> {
    let mut found: Option<(String, SeriesTable)> = None;
    let mut passed_over = vec![];
    let mut budget = MOST_BYTES;
    for entry in entries(bytes)? {
        match (parse(&entry.read(bytes, &mut budget)?), &found) {
            (Ok(_), Some((name, _))) => {
                return Err(Problem::new("arrays", "one of two dimensions", format!("{name} and {}", entry.name)));
            }
            (Ok(table), None) => found = Some((entry.name, table)),
            (Err(problem), _) => passed_over.push(format!("{} ({})", entry.name, problem.what)),
        }
    }
    found.map(|(_, table)| table).ok_or_else(|| {
        let others = if passed_over.is_empty() { "none".into() } else { listed(passed_over.iter()) };
        Problem::new("arrays", "one of <f4 or <f8 in two dimensions", others)
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

/// One file of the archive, as its directory describes it.
struct Entry {
    name: String,
    method: u16,
    crc: u32,
    stored_bytes: usize,
    bytes: usize,
    header_at: usize,
}

fn entries(bytes: &[u8]) -> Result<Vec<Entry>, Problem> {
    let malformed = || Problem::new("archive", "a zip directory", "other bytes");
    let earliest = bytes.len().saturating_sub(22 + LONGEST_COMMENT);
    let end = (earliest..bytes.len().saturating_sub(21)).rev().find(|at| bytes[*at..].starts_with(b"PK\x05\x06"));
    let end = end.ok_or_else(|| Problem::new("archive", "the end of a zip directory", "none"))?;
    let count = u16_at(bytes, end + 10).ok_or_else(malformed)?;
    ensure(count <= MOST_ENTRIES, "archive", format_args!("at most {MOST_ENTRIES} arrays"), count)?;
    let mut at = u32_at(bytes, end + 16).ok_or_else(malformed)? as usize;
    let mut found = vec![];
    for _ in 0..count {
        let record = bytes.get(at..).filter(|r| r.starts_with(b"PK\x01\x02")).ok_or_else(malformed)?;
        let short = |at: usize| u16_at(record, at).ok_or_else(malformed);
        let long = |at: usize| u32_at(record, at).ok_or_else(malformed);
        let name_bytes = usize::from(short(28)?);
        let name = record.get(46..46 + name_bytes).ok_or_else(malformed)?;
        found.push(Entry {
            name: shown(&String::from_utf8_lossy(name)),
            method: short(10)?,
            crc: long(16)?,
            stored_bytes: long(20)? as usize,
            bytes: long(24)? as usize,
            header_at: long(42)? as usize,
        });
        at += 46 + name_bytes + usize::from(short(30)?) + usize::from(short(32)?);
    }
    Ok(found)
}

impl Entry {
    /// The file's bytes, with their checksum verified. Never allocates more than is left of `budget`.
    fn read(&self, archive: &[u8], budget: &mut u64) -> Result<Vec<u8>, Problem> {
        let malformed = || Problem::new(&self.name, "the bytes its directory entry promises", "fewer or others");
        let header = archive.get(self.header_at..).filter(|h| h.starts_with(b"PK\x03\x04")).ok_or_else(malformed)?;
        let skip = |at: usize| u16_at(header, at).map(usize::from).ok_or_else(malformed);
        let start = 30 + skip(26)? + skip(28)?;
        let end = start.checked_add(self.stored_bytes);
        let stored = end.and_then(|end| header.get(start..end)).ok_or_else(malformed)?;
        let bytes = self.bytes as u64;
        at_most(&self.name, bytes, most_inflated(self.stored_bytes as u64).min(*budget))?;
        *budget -= bytes;
        let out = match self.method {
            0 => Some(stored.to_vec()),
            8 => inflate(stored, false, bytes),
            other => return Err(Problem::new(&self.name, "stored or deflated", format!("method {other}"))),
        };
        let out = out.filter(|out| out.len() == self.bytes).ok_or_else(malformed)?;
        let mut crc = Crc::new();
        crc.update(&out);
        let (expected, found) = (format_args!("checksum {:08x}", self.crc), format_args!("{:08x}", crc.sum()));
        ensure(crc.sum() == self.crc, &self.name, expected, found)?;
        Ok(out)
    }
}
