//! A CIFTI file opened up to its data.

use std::path::Path;

use super::xml::Axis;
use super::xml::{Axes, axes};
use crate::nifti::{ByteStream, Header, Limits, for_each_value, open_header};
use crate::problem::{InContent, Problem, ReadError, ensure};

const CIFTI_CODE: i32 = 32;

/// A CIFTI-2 file whose XML and header agree. The data is read row by row, a row being one index of the second axis.
pub struct CiftiFile {
    axes: Axes,
    header: Header,
    stream: ByteStream,
    rows_read: u64,
    raw: Vec<u8>,
}

impl CiftiFile {
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, ReadError> {
        let (header, extensions, stream, _) = open_header(path, limits)?;
        let problem = |p| ReadError::content(path, p);
        let xml = extensions.iter().find(|e| e.code == CIFTI_CODE);
        let xml = xml.ok_or_else(|| problem(Problem::new("extension", "the XML of CIFTI-2", "none")))?;
        let axes = axes(&xml.bytes).map_err(problem)?;
        let lengths = [axes[0].len(), axes[1].len()];
        let expected = [1, 1, 1, 1, lengths[0], lengths[1]];
        let found = format_args!("{:?} in the header", header.dims);
        ensure(header.dims == expected, "dimensions", format_args!("{expected:?} as in the XML"), found)
            .in_content(path)?;
        let row_bytes = lengths[0].saturating_mul(8);
        ensure(
            row_bytes <= limits.volume_bytes,
            "size of a row",
            format_args!("at most {}", limits.volume_bytes),
            row_bytes,
        )
        .in_content(path)?;
        Ok(Self { axes, header, stream, rows_read: 0, raw: vec![] })
    }

    pub fn axes(&self) -> &[Axis; 2] {
        &self.axes
    }

    pub fn path(&self) -> &Path {
        self.stream.path()
    }

    pub fn row_len(&self) -> usize {
        self.axes[0].len() as usize
    }

    /// The next row, scaled; false when there is none left.
    pub fn next_row(&mut self, out: &mut Vec<f64>) -> Result<bool, ReadError> {
        if self.rows_read == self.axes[1].len() {
            return Ok(false);
        }
        let mut raw = std::mem::take(&mut self.raw);
        raw.resize(self.row_len() * self.header.datatype.bytes(), 0);
        self.stream.read_exact("matrix", &mut raw)?;
        out.clear();
        for_each_value!(self.header.datatype, self.header.byte_order, raw, |values| {
            match self.header.scaling {
                Some(s) => out.extend(values.map(|x| x * s.slope + s.intercept)),
                None => out.extend(values),
            }
        });
        self.raw = raw;
        self.rows_read += 1;
        Ok(true)
    }

    /// Reads the file to its end; returns its BLAKE3.
    pub fn finish(self) -> Result<String, ReadError> {
        Ok(self.stream.finish()?.0)
    }

    pub(super) fn problem(&self, problem: Problem) -> ReadError {
        self.stream.problem(problem)
    }
}
