//! A NIfTI image as a stream of volumes.

use std::path::Path;

use super::datatype::for_each_value;
use super::grid::{Affine, AffineSource, Grid};
use super::header::{self, Extension, Header};
use super::stream::ByteStream;
use super::stream::Limits;
use crate::problem::{InContent, ReadError, ensure};

/// An open image: its header has been checked against the file, its data has not been read yet.
pub struct NiftiReader {
    pub header: Header,
    /// From voxels to millimetres, as nibabel computes it.
    pub affine: Affine,
    pub affine_source: AffineSource,
    pub extensions: Vec<Extension>,
    /// What is odd but harmless.
    pub warnings: Vec<String>,
    stream: ByteStream,
    volumes_read: usize,
    raw: Vec<u8>,
    non_finite: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSummary {
    pub blake3: String,
    pub non_finite: u64,
    pub trailing_bytes: u64,
}

/// A three-dimensional image in memory, x fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    pub shape: [usize; 3],
    pub affine: Affine,
    pub affine_source: AffineSource,
    pub values: Vec<f32>,
    pub blake3: String,
    pub warnings: Vec<String>,
}

impl NiftiReader {
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, ReadError> {
        let (header, extensions, stream, mut warnings) = open_header(path, limits)?;
        let problem = |p| ReadError::content(path, p);
        let volume_bytes = header.voxels() as u64 * header.datatype.bytes().max(4) as u64;
        ensure(
            volume_bytes <= limits.volume_bytes,
            "size of a volume",
            format_args!("at most {} bytes", limits.volume_bytes),
            volume_bytes,
        )
        .in_content(path)?;
        let found = format_args!("sizes {:?}", header.dims);
        ensure(header.dims.iter().skip(4).all(|d| *d == 1), "dimensions", "three of space and one of time", found)
            .in_content(path)?;
        let (affine, affine_source) = Affine::of_header(&header, &mut warnings).map_err(problem)?;
        let raw = vec![];
        Ok(Self { header, affine, affine_source, extensions, warnings, stream, volumes_read: 0, raw, non_finite: 0 })
    }

    pub fn grid(&self) -> Grid {
        Grid { shape: self.header.shape(), affine: self.affine }
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
        let mut raw = std::mem::take(&mut self.raw);
        raw.resize(voxels * self.header.datatype.bytes(), 0);
        self.next_bytes(&mut raw)?;
        self.non_finite += decode(&self.header, &raw, out);
        self.raw = raw;
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
        Ok(ImageSummary { blake3, non_finite: self.non_finite, trailing_bytes })
    }

    pub fn read_single(path: &Path, limits: &Limits) -> Result<Volume, ReadError> {
        let mut reader = Self::open(path, limits)?;
        let found = format_args!("{} volumes", reader.header.volumes());
        ensure(reader.header.volumes() == 1, "image", "a single volume", found).in_content(path)?;
        let mut values = vec![0.0; reader.header.voxels()];
        reader.next_volume(&mut values)?;
        let (shape, affine, affine_source) = (reader.header.shape(), reader.affine, reader.affine_source);
        let warnings = std::mem::take(&mut reader.warnings);
        let blake3 = reader.finish()?.blake3;
        Ok(Volume { shape, affine, affine_source, values, blake3, warnings })
    }
}

/// Opens any NIfTI file, CIFTI included, up to the first byte of its data.
pub(crate) fn open_header(
    path: &Path,
    limits: &Limits,
) -> Result<(Header, Vec<Extension>, ByteStream, Vec<String>), ReadError> {
    let mut stream = ByteStream::open(path, limits)?;
    let mut bytes = vec![0; 12];
    stream.read_exact("header", &mut bytes)?;
    let problem = |p| ReadError::content(path, p);
    let (version, order) = header::recognise(&bytes).map_err(problem)?;
    bytes.resize(version.header_bytes(), 0);
    stream.read_exact("header", &mut bytes[12..])?;
    let mut warnings = vec![];
    let header = Header::parse(&bytes, version, order, &mut warnings).map_err(problem)?;
    let claimed = header.data_offset.checked_add(header.data_bytes());
    stream.check_claim(claimed.unwrap_or(u64::MAX))?;
    let between = header.data_offset - version.header_bytes() as u64;
    let expected = format_args!("at most {} bytes of extensions", limits.extension_bytes);
    ensure(between <= limits.extension_bytes, "vox_offset", expected, between).in_content(path)?;
    let mut flag = [0; 4];
    stream.read_exact("header", &mut flag)?;
    let extensions = if flag[0] == 0 {
        stream.skip("room before the data", between - 4)?;
        vec![]
    } else {
        let mut bytes = flag.to_vec();
        bytes.resize(between as usize, 0);
        stream.read_exact("extensions", &mut bytes[4..])?;
        header::extensions(&bytes, order).map_err(problem)?
    };
    Ok((header, extensions, stream, warnings))
}

fn decode(header: &Header, raw: &[u8], out: &mut [f32]) -> u64 {
    let (slope, intercept) = header.scaling.map_or((1.0, 0.0), |s| (s.slope, s.intercept));
    for_each_value!(header.datatype, header.byte_order, raw, |values| {
        if header.scaling.is_some() {
            out.iter_mut().zip(values).for_each(|(out, x)| *out = (x * slope + intercept) as f32);
        } else {
            out.iter_mut().zip(values).for_each(|(out, x)| *out = x as f32);
        }
    });
    if !header.datatype.is_float() && header.scaling.is_none() {
        return 0;
    }
    out.iter().filter(|x| !x.is_finite()).count() as u64
}
