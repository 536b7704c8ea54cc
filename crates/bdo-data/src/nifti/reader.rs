//! A NIfTI image as a stream of volumes.

use std::path::{Path, PathBuf};

use super::datatype::for_each_value;
use super::grid::{Affine, AffineSource, Grid};
use super::header::{self, Extension, Header};
use super::stream::ByteStream;
use crate::problem::{InContent, ReadError, at_most, ensure};

/// Most bytes of one volume, counted with at least four bytes a voxel because volumes are handed out as `f32`.
pub(crate) const MOST_VOLUME_BYTES: u64 = 256 << 20;
/// Most bytes of extensions, which hold the XML of a CIFTI file (a few MiB in real ones).
const MOST_EXTENSION_BYTES: u64 = 64 << 20;

/// An open image: its header has been checked against the file, its data has not been read yet.
pub struct NiftiReader {
    pub header: Header,
    pub grid: Grid,
    pub affine_source: AffineSource,
    pub extensions: Vec<Extension>,
    /// What is odd but harmless.
    pub warnings: Vec<String>,
    stream: ByteStream,
    volumes_read: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSummary {
    pub blake3: String,
    pub trailing_bytes: u64,
}

/// A three-dimensional image in memory, x fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    pub path: PathBuf,
    pub grid: Grid,
    pub affine_source: AffineSource,
    pub values: Vec<f32>,
    pub blake3: String,
    pub warnings: Vec<String>,
}

impl NiftiReader {
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let (header, extensions, stream, mut warnings) = open_header(path)?;
        let volume_bytes = header.voxels() as u64 * header.datatype.bytes().max(4) as u64;
        at_most("size of a volume", volume_bytes, MOST_VOLUME_BYTES).in_content(path)?;
        let found = format_args!("sizes {:?}", header.dims);
        ensure(header.dims.iter().skip(4).all(|d| *d == 1), "dimensions", "three of space and one of time", found)
            .in_content(path)?;
        let (affine, affine_source) = Affine::of_header(&header, &mut warnings).in_content(path)?;
        let grid = Grid { shape: header.shape(), affine };
        Ok(Self { header, grid, affine_source, extensions, warnings, stream, volumes_read: 0 })
    }

    pub fn path(&self) -> &Path {
        self.stream.path()
    }

    /// Decodes the next volume into `out` (x fastest, scaled); false when there is none left. NaN and infinity stay.
    pub fn next_volume(&mut self, out: &mut [f32]) -> Result<bool, ReadError> {
        if self.volumes_read == self.header.volumes() {
            return Ok(false);
        }
        let voxels = self.header.voxels();
        ensure(out.len() == voxels, "room for a volume", voxels, out.len()).in_content(self.path())?;
        let mut raw = vec![0; voxels * self.header.datatype.bytes()];
        self.next_bytes(&mut raw)?;
        decode(&self.header, &raw, out);
        self.volumes_read += 1;
        Ok(true)
    }

    pub(crate) fn next_bytes(&mut self, out: &mut [u8]) -> Result<(), ReadError> {
        self.stream.read_exact("image data", out)
    }

    /// Reads what follows the data, so that checksums are verified. Values must not be used before this has succeeded.
    pub fn finish(mut self) -> Result<ImageSummary, ReadError> {
        let mut skipped = vec![0.0; if self.volumes_read < self.header.volumes() { self.header.voxels() } else { 0 }];
        while self.next_volume(&mut skipped)? {}
        self.end()
    }

    /// As [`NiftiReader::finish`], where the data has been taken as bytes.
    pub(crate) fn end(self) -> Result<ImageSummary, ReadError> {
        let (blake3, trailing_bytes) = self.stream.finish()?;
        Ok(ImageSummary { blake3, trailing_bytes })
    }

    pub fn read_single(path: &Path) -> Result<Volume, ReadError> {
        let mut reader = Self::open(path)?;
        let found = format_args!("{} volumes", reader.header.volumes());
        ensure(reader.header.volumes() == 1, "image", "a single volume", found).in_content(path)?;
        let mut values = vec![0.0; reader.header.voxels()];
        reader.next_volume(&mut values)?;
        let (path, grid, affine_source) = (path.to_path_buf(), reader.grid, reader.affine_source);
        let warnings = std::mem::take(&mut reader.warnings);
        Ok(Volume { path, grid, affine_source, values, blake3: reader.finish()?.blake3, warnings })
    }
}

/// Opens any NIfTI file, CIFTI included, up to the first byte of its data.
pub(crate) fn open_header(path: &Path) -> Result<(Header, Vec<Extension>, ByteStream, Vec<String>), ReadError> {
    let mut stream = ByteStream::open(path)?;
    let mut start = [0; 12];
    stream.read_exact("header", &mut start)?;
    let (version, order) = header::recognise([start[0], start[1], start[2], start[3]]).in_content(path)?;
    let mut bytes = start.to_vec();
    bytes.resize(version.header_bytes(), 0);
    stream.read_exact("header", &mut bytes[12..])?;
    let mut warnings = vec![];
    let header = Header::parse(&bytes, version, order, &mut warnings).in_content(path)?;
    stream.check_claim(header.data_offset.saturating_add(header.data_bytes())).in_content(path)?;
    let between = header.data_offset - version.header_bytes() as u64;
    let expected = format_args!("at most {MOST_EXTENSION_BYTES} bytes of extensions");
    ensure(between <= MOST_EXTENSION_BYTES, "vox_offset", expected, between).in_content(path)?;
    let mut flag = [0; 4];
    stream.read_exact("header", &mut flag)?;
    let mut extensions = vec![];
    if flag[0] == 0 {
        stream.skip("room before the data", between - 4)?;
    } else {
        let mut bytes = vec![0; between as usize - 4];
        stream.read_exact("extensions", &mut bytes)?;
        extensions = header::extensions(&bytes, order).in_content(path)?;
    }
    Ok((header, extensions, stream, warnings))
}

fn decode(header: &Header, raw: &[u8], out: &mut [f32]) {
    for_each_value!(header.datatype, header.byte_order, raw, |values| match header.scaling {
        Some(s) => out.iter_mut().zip(values).for_each(|(out, x)| *out = (x * s.slope + s.intercept) as f32),
        None => out.iter_mut().zip(values).for_each(|(out, x)| *out = x as f32),
    });
}
