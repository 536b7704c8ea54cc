//! One file of region series: a table of numbers, frames down, regions across.

use std::io::Read;
use std::path::Path;

use flate2::{Decompress, FlushDecompress, Status};

use super::{files, series_hdf5, series_mat, series_npy, series_text};
use crate::problem::{InContent, Problem, ReadError, ensure, read_at_most};

/// Largest file read: a day of scanning at a thousand regions as text is still far below.
pub(super) const MOST_BYTES: u64 = 1 << 30;

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

impl SeriesTable {
    /// Columns without names, whose numbers lie column by column or frame by frame.
    pub(super) fn of_numbers(frames: usize, columns: usize, mut values: Vec<f32>, by_column: bool) -> Self {
        if by_column {
            values = (0..frames * columns).map(|i| values[i % columns * frames + i / columns]).collect();
        }
        Self { frames, columns, values, ..Self::default() }
    }
}

/// Reads a .npy, .npz, .mat, .h5 or .hdf5 file by its ending, anything else as text, gzipped or not.
pub fn read_series(path: &Path) -> Result<SeriesTable, ReadError> {
    let bytes = read_at_most(path, MOST_BYTES)?;
    let parsed = match files::ending(path).as_str() {
        "gz" => inflated(&bytes).and_then(|text| series_text::parse(&text)),
        "npy" => series_npy::parse(&bytes),
        "npz" => series_npy::parse_archive(&bytes),
        "mat" => series_mat::parse(&bytes),
        "h5" | "hdf5" => series_hdf5::parse(&bytes),
        _ => series_text::parse(&bytes),
    };
    let mut table = parsed.in_content(path)?;
    table.blake3 = blake3::hash(&bytes).to_hex().to_string();
    let found = format_args!("{} rows of {} columns", table.frames, table.columns);
    ensure(table.frames > 0 && table.columns > 0, "table", "rows of numbers", found).in_content(path)?;
    Ok(table)
}

/// A name in a file as messages show it: short, without control characters.
pub(super) fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// The only one of the arrays of a file, by their names.
pub(super) fn only<T>(what: &str, found: Vec<(String, T)>) -> Result<(String, T), Problem> {
    if let [(first, _), (second, _), ..] = found.as_slice() {
        return Err(Problem::new(what, "one matrix", format!("{first} and {second}")));
    }
    found.into_iter().next().ok_or_else(|| Problem::new(what, "one matrix of real numbers", "none"))
}

/// Inflates to the verified end of a stream, with or without zlib's frame, growing with what really comes out; `None` where it is
/// damaged. More than `most` bytes are not gone on with.
pub(super) fn inflate(bytes: &[u8], zlib: bool, most: u64) -> Option<Vec<u8>> {
    let mut inflate = Decompress::new(zlib);
    let mut out: Vec<u8> = vec![];
    while out.len() as u64 <= most {
        let before = (inflate.total_in(), out.len());
        out.reserve(64 << 10);
        let input = &bytes[before.0 as usize..];
        let status = inflate.decompress_vec(input, &mut out, FlushDecompress::None).ok()?;
        if status == Status::StreamEnd {
            break;
        }
        if before == (inflate.total_in(), out.len()) {
            return None;
        }
    }
    Some(out)
}

/// The content of a gzipped table, its checksum verified; a bomb ends at the limit.
fn inflated(bytes: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut text = vec![];
    let mut reader = flate2::read::MultiGzDecoder::new(bytes).take(MOST_BYTES + 1);
    reader.read_to_end(&mut text).map_err(|e| Problem::new("gzip", "a whole, undamaged file", e))?;
    ensure(text.len() as u64 <= MOST_BYTES, "size", format_args!("at most {MOST_BYTES} bytes"), "more")?;
    Ok(text)
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
