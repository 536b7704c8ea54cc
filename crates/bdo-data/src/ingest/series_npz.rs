//! A .npz archive that holds one two-dimensional array.

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::series_file::{SeriesTable, parse_npy};
use crate::problem::{Problem, ensure};

/// Most arrays of an archive; real ones have a handful.
const MOST_ENTRIES: u16 = 1000;
/// The end record is the last 22 bytes plus a comment of at most this many.
const LONGEST_COMMENT: usize = 65_535;

/// Reads the one array of numbers in two dimensions; arrays of other kinds beside it are passed over.
pub(super) fn parse(bytes: &[u8], most_bytes: u64) -> Result<SeriesTable, Problem> {
    let mut found: Option<(String, SeriesTable)> = None;
    let mut passed_over = vec![];
    let mut budget = most_bytes;
    for entry in entries(bytes)? {
        let array = entry.read(bytes, &mut budget)?;
        match parse_npy(&array) {
            Ok(table) => {
                if let Some((name, _)) = &found {
                    return Err(Problem::new("arrays", "one of two dimensions", format!("{name} and {}", entry.name)));
                }
                found = Some((entry.name, table));
            }
            Err(problem) => passed_over.push(format!("{} ({})", entry.name, problem.what)),
        }
    }
    found.map(|(_, table)| table).ok_or_else(|| {
        let others = passed_over.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        Problem::new(
            "arrays",
            "one of <f4 or <f8 in two dimensions",
            if others.is_empty() { "none".into() } else { others },
        )
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
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
    ensure(count <= MOST_ENTRIES, "archive", "at most 1000 arrays", count)?;
    let mut at = u32_at(bytes, end + 16).ok_or_else(malformed)? as usize;
    let mut found = vec![];
    for _ in 0..count {
        let record = bytes.get(at..).filter(|r| r.starts_with(b"PK\x01\x02")).ok_or_else(malformed)?;
        let short = |at: usize| u16_at(record, at).ok_or_else(malformed);
        let long = |at: usize| u32_at(record, at).map(|n| n as usize).ok_or_else(malformed);
        let name_bytes = usize::from(short(28)?);
        let name = record.get(46..46 + name_bytes).ok_or_else(malformed)?;
        found.push(Entry {
            name: String::from_utf8_lossy(name).chars().filter(|c| !c.is_control()).take(80).collect(),
            method: short(10)?,
            crc: u32_at(record, 16).ok_or_else(malformed)?,
            stored_bytes: long(20)?,
            bytes: long(24)?,
            header_at: long(42)?,
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
        let stored =
            start.checked_add(self.stored_bytes).and_then(|end| header.get(start..end)).ok_or_else(malformed)?;
        // Series are noise and hardly compress; a small file that claims much is not one.
        let most = (*budget).min((64 << 20).max(200 * self.stored_bytes as u64));
        ensure(self.bytes as u64 <= most, &self.name, format_args!("at most {most} bytes"), self.bytes)?;
        *budget -= self.bytes as u64;
        let out = match self.method {
            0 if self.bytes == self.stored_bytes => stored.to_vec(),
            8 => inflate(stored, self.bytes).ok_or_else(malformed)?,
            0 => return Err(malformed()),
            other => return Err(Problem::new(&self.name, "stored or deflated", format!("method {other}"))),
        };
        let mut crc = Crc::new();
        crc.update(&out);
        ensure(
            crc.sum() == self.crc,
            &self.name,
            format_args!("checksum {:08x}", self.crc),
            format_args!("{:08x}", crc.sum()),
        )?;
        Ok(out)
    }
}

fn inflate(stored: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; bytes];
    let mut inflate = Decompress::new(false);
    let status = inflate.decompress(stored, &mut out, FlushDecompress::Finish).ok()?;
    (status == Status::StreamEnd && inflate.total_out() == bytes as u64).then_some(out)
}
