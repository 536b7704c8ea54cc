//! One file of region series: a table of numbers, frames down, regions across.

use std::io::Read;
use std::path::Path;

use super::{files, series_hdf5, series_mat, series_npz, series_text};
use crate::durable::InFile;
use crate::nifti::{ByteOrder, Datatype};
use crate::problem::{InContent, Problem, ReadError, ensure};

/// Largest file read: a day of scanning at a thousand regions as text is still far below.
const MOST_BYTES: u64 = 1 << 30;
/// Longest header of a .npy file; real ones have about 100 bytes.
const MOST_NPY_HEADER: usize = 4096;

/// A table as read: perhaps with names, row-major `[frames, columns]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeriesTable {
    pub names: Option<Vec<String>>,
    pub frames: usize,
    pub columns: usize,
    /// The values; NaN for `n/a`.
    pub values: Vec<f32>,
    /// Time of every row, where a column of the file says it.
    pub times_seconds: Option<Vec<f64>>,
    pub blake3: String,
}

/// Reads a .npy, .npz, .mat, .h5 or .hdf5 file by its ending, anything else as text, gzipped or not.
pub fn read_series(path: &Path) -> Result<SeriesTable, ReadError> {
    let size = std::fs::metadata(path).in_file("read", path)?.len();
    let content = |problem: Problem| ReadError::content(path, problem);
    ensure(size <= MOST_BYTES, "size", format_args!("at most {MOST_BYTES} bytes"), size).in_content(path)?;
    let bytes = std::fs::read(path).in_file("read", path)?;
    let parsed = match files::ending(path).as_str() {
        "gz" => inflated(&bytes).and_then(|text| series_text::parse(&text)),
        "npy" => parse_npy(&bytes),
        "npz" => series_npz::parse(&bytes, MOST_BYTES),
        "mat" => series_mat::parse(&bytes, MOST_BYTES),
        "h5" | "hdf5" => series_hdf5::parse(&bytes, MOST_BYTES),
        _ => series_text::parse(&bytes),
    };
    let mut table = parsed.map_err(content)?;
    table.blake3 = blake3::hash(&bytes).to_hex().to_string();
    let found = format_args!("{} rows of {} columns", table.frames, table.columns);
    ensure(table.frames > 0 && table.columns > 0, "table", "rows of numbers", found).in_content(path)?;
    Ok(table)
}

/// The content of a gzipped table, its checksum verified; a bomb ends at the limit.
fn inflated(bytes: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut text = vec![];
    let mut reader = flate2::read::MultiGzDecoder::new(bytes).take(MOST_BYTES + 1);
    reader.read_to_end(&mut text).map_err(|e| Problem::new("gzip", "a whole, undamaged file", e))?;
    ensure(text.len() as u64 <= MOST_BYTES, "size", format_args!("at most {MOST_BYTES} bytes"), "more")?;
    Ok(text)
}

/// Reads a two-dimensional .npy array of floats. The header is checked for its few fixed keys and never evaluated.
pub(super) fn parse_npy(bytes: &[u8]) -> Result<SeriesTable, Problem> {
    let truncated = || Problem::new("header", "a .npy file", "too few bytes");
    ensure(bytes.starts_with(b"\x93NUMPY"), "first bytes", "a .npy file", "others")?;
    let (length, start) = match bytes.get(6).ok_or_else(truncated)? {
        1 => (u16::from_le_bytes(bytes.get(8..10).and_then(|b| b.try_into().ok()).ok_or_else(truncated)?) as usize, 10),
        2 | 3 => {
            (u32::from_le_bytes(bytes.get(8..12).and_then(|b| b.try_into().ok()).ok_or_else(truncated)?) as usize, 12)
        }
        other => return Err(Problem::new("version", "1, 2 or 3", other)),
    };
    ensure(length <= MOST_NPY_HEADER, "header", "at most 4096 bytes", length)?;
    let header = bytes.get(start..start + length).ok_or_else(truncated)?;
    let header = std::str::from_utf8(header).map_err(|_| Problem::new("header", "text", "other bytes"))?;
    let value_of = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    let kind = value_of("descr").and_then(|v| v.split('\'').nth(1)).unwrap_or("none");
    let columns_first = value_of("fortran_order").is_some_and(|v| v.starts_with("True"));
    let shape = value_of("shape").and_then(|v| v.strip_prefix('(')?.split_once(')')).map_or("none", |(s, _)| s);
    let sizes: Option<Vec<usize>> =
        shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().ok()).collect();
    let [frames, columns] = sizes.as_deref().unwrap_or_default() else {
        return Err(Problem::new("shape", "two sizes, frames and regions", format!("({shape})")));
    };
    let unknown = || Problem::new("type of number", "f4, f8 or whole numbers of either byte order", kind);
    let (order, number) = kind.split_at_checked(1).unwrap_or((kind, ""));
    let datatype = match number {
        "f4" => Datatype::F32,
        "f8" => Datatype::F64,
        "i1" => Datatype::I8,
        "u1" => Datatype::U8,
        "i2" => Datatype::I16,
        "u2" => Datatype::U16,
        "i4" => Datatype::I32,
        "u4" => Datatype::U32,
        "i8" => Datatype::I64,
        "u8" => Datatype::U64,
        _ => return Err(unknown()),
    };
    let byte_order = match order {
        "<" | "|" => ByteOrder::Little,
        ">" => ByteOrder::Big,
        _ => return Err(unknown()),
    };
    let (data, width) = (&bytes[start + length..], datatype.bytes());
    let whole = frames.checked_mul(*columns).and_then(|n| n.checked_mul(width)) == Some(data.len());
    let expected = format_args!("{frames} x {columns} numbers of {width} bytes");
    ensure(whole, "size", expected, format_args!("{} bytes", data.len()))?;
    let mut values = datatype.values(byte_order, data);
    if columns_first {
        values = (0..frames * columns).map(|i| values[i % columns * frames + i / columns]).collect();
    }
    Ok(SeriesTable { frames: *frames, columns: *columns, values, ..SeriesTable::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, bytes: &[u8]) -> Result<SeriesTable, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        read_series(&path).map_err(|e| e.to_string().rsplit_once('/').unwrap().1.to_owned())
    }

    #[test]
    fn tables_with_and_without_header() {
        let one_d = read("a.1D", b"#1\t#2\n0.5\t-1\n2e1\t3\n").unwrap();
        assert_eq!(one_d.names.as_deref(), Some(&["1".to_owned(), "2".to_owned()][..]));
        assert_eq!(one_d.values, [0.5, -1.0, 20.0, 3.0]);
        let bare = read("a.txt", b"  1.5 2  3\n4 5 6\r\n\n").unwrap();
        assert_eq!((bare.names, bare.frames, bare.columns), (None, 2, 3));
        assert!(read("a.csv", b"x,y\n1,n/a\n").unwrap().values[1].is_nan());
    }

    #[test]
    fn malformed_files_are_named_with_what_is_wrong() {
        assert_eq!(read("a.tsv", b"1\t2\n3\n").unwrap_err(), "a.tsv: line 2: expected 2 columns, found 1");
        assert_eq!(read("a.tsv", b"1\t2\n3\tx\n").unwrap_err(), "a.tsv: line 2: expected numbers, found \"x\"");
        assert_eq!(
            read("a.tsv", b"").unwrap_err(),
            "a.tsv: table: expected rows of numbers, found 0 rows of 0 columns"
        );
        assert_eq!(
            read("a.tsv", b"a\tb\n").unwrap_err(),
            "a.tsv: table: expected rows of numbers, found 0 rows of 2 columns"
        );
        assert_eq!(read("a.tsv", b"\xff").unwrap_err(), "a.tsv: text: expected UTF-8, found other bytes at offset 0");
        assert_eq!(read("a.npy", b"PK\x03\x04").unwrap_err(), "a.npy: first bytes: expected a .npy file, found others");
    }

    #[test]
    fn npy_arrays() {
        let header_in = |shape: &str, kind: &str, fortran: &str| {
            let text = format!("{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
            [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
        };
        let header = |shape: &str, kind: &str| header_in(shape, kind, "False");
        let data: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let table = read("a.npy", &[header("(2, 3)", "<f4"), data.clone()].concat()).unwrap();
        assert_eq!((table.frames, table.columns, table.values[5]), (2, 3, 6.0));
        let turned = read("a.npy", &[header_in("(2, 3)", "<f4", "True"), data.clone()].concat()).unwrap();
        assert_eq!((turned.frames, turned.columns), (2, 3));
        assert_eq!(turned.values, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0], "columns lie one after the other in Fortran order");
        let swapped: Vec<u8> = [258_i16, -2, 0, 4].iter().flat_map(|x| x.to_be_bytes()).collect();
        let whole = read("a.npy", &[header("(2, 2)", ">i2"), swapped].concat()).unwrap();
        assert_eq!(whole.values, [258.0, -2.0, 0.0, 4.0]);
        let small = read("a.npy", &[header("(2, 2)", "|u1"), vec![255, 0, 1, 128]].concat()).unwrap();
        assert_eq!(small.values, [255.0, 0.0, 1.0, 128.0]);
        let error = |shape, kind| read("a.npy", &[header(shape, kind), data.clone()].concat()).unwrap_err();
        assert_eq!(error("(2, 4)", "<f4"), "a.npy: size: expected 2 x 4 numbers of 4 bytes, found 24 bytes");
        assert_eq!(error("(6,)", "<f4"), "a.npy: shape: expected two sizes, frames and regions, found (6,)");
        assert_eq!(
            error("(2, 3)", "|O"),
            "a.npy: type of number: expected f4, f8 or whole numbers of either byte order, found |O"
        );
        assert!(error("(18446744073709551615, 3)", "<f4").contains("expected 18446744073709551615 x 3"));
    }
}
