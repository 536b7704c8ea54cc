//! A CIFTI file opened up to its data.

use std::path::Path;

use super::xml::{Axes, Axis, parse_axes};
use crate::nifti::{ByteStream, Header, MOST_VOLUME_BYTES, for_each_value, open_header};
use crate::problem::{InContent, Problem, ReadError, at_most, ensure};

const CIFTI_CODE: i32 = 32;

/// A CIFTI-2 file whose XML and header agree. The data is read row by row, a row being one index of the second axis.
pub struct CiftiFile {
    pub(super) axes: Axes,
    header: Header,
    stream: ByteStream,
    rows_read: u64,
    raw: Vec<u8>,
}

impl CiftiFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let (header, extensions, stream, _) = open_header(path)?;
        let xml = extensions.iter().find(|e| e.code == CIFTI_CODE);
        let xml = xml.ok_or_else(|| Problem::new("extension", "the XML of CIFTI-2", "none")).in_content(path)?;
        let axes = parse_axes(&xml.bytes).in_content(path)?;
        let lengths = [axes[0].len(), axes[1].len()];
        let expected = [1, 1, 1, 1, lengths[0], lengths[1]];
        let found = format_args!("{:?} in the header", header.dims);
        ensure(header.dims == expected, "dimensions", format_args!("{expected:?} as in the XML"), found)
            .in_content(path)?;
        at_most("size of a row", lengths[0].saturating_mul(8), MOST_VOLUME_BYTES).in_content(path)?;
        Ok(Self { axes, header, stream, rows_read: 0, raw: vec![] })
    }

    /// The step between frames, where one of the axes is over time.
    pub(crate) fn step_seconds(&self) -> Option<f64> {
        self.axes
            .iter()
            .find_map(|axis| if let Axis::Series { step_seconds, .. } = axis { *step_seconds } else { None })
    }

    /// What messages call the axes.
    pub(super) fn kinds(&self) -> String {
        format!("{} and {}", self.axes[0].kind(), self.axes[1].kind())
    }

    /// The next row, scaled; false when there is none left.
    pub(super) fn next_row(&mut self, out: &mut Vec<f64>) -> Result<bool, ReadError> {
        if self.rows_read == self.axes[1].len() {
            return Ok(false);
        }
        let mut raw = std::mem::take(&mut self.raw);
        raw.resize(self.axes[0].len() as usize * self.header.datatype.bytes(), 0);
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
    pub(super) fn finish(self) -> Result<String, ReadError> {
        Ok(self.stream.finish()?.0)
    }

    pub(super) fn problem(&self, problem: Problem) -> ReadError {
        self.stream.problem(problem)
    }
}
