//! The decompressed bytes of an image file, in order, counted and hashed, and how much a file may claim.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use super::gzip::Gzip;
use crate::durable::{FileError, InFile};
use crate::problem::{InContent, Problem, ReadError, ensure};

/// Bounds that are checked before anything is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes a scan may hold once decompressed: a guard against nonsense, since images are read piece by piece and a
    /// whole one is never held.
    pub scan_bytes: u64,
    /// Most bytes of one volume, counted with at least four bytes a voxel because volumes are handed out as `f32`.
    pub volume_bytes: u64,
    /// Most decompressed bytes per byte of the file. Measured images lie between 2 and 10; deflate can do 1032.
    pub compression_ratio: u64,
    /// Below this size the ratio is not looked at: an empty mask compresses a thousandfold and harms nobody.
    pub ratio_free_bytes: u64,
    /// Most bytes after the image data; some writers leave a few.
    pub trailing_bytes: u64,
    /// Most bytes of extensions, which hold the XML of a CIFTI file (a few MiB in real ones).
    pub extension_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            scan_bytes: 1 << 40,
            volume_bytes: 256 << 20,
            compression_ratio: 200,
            ratio_free_bytes: 64 << 20,
            trailing_bytes: 16 << 20,
            extension_bytes: 64 << 20,
        }
    }
}

const PLAIN_BUFFER_BYTES: usize = 256 << 10;
/// Bytes that nobody asked for are skipped in pieces of this size.
const SKIP_BYTES: usize = 64 << 10;

pub(crate) struct ByteStream {
    path: PathBuf,
    bytes: Bytes,
    file_bytes: u64,
    limits: Limits,
}

enum Bytes {
    Plain(Box<BufReader<Hashed<File>>>),
    Gzip(Box<Gzip<Hashed<File>>>),
}

/// Hashes the file as it is read, so that the hash is of the very bytes the values came from.
struct Hashed<R> {
    inner: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.hasher.update(&out[..read]);
        Ok(read)
    }
}

impl ByteStream {
    /// Opens a file; whether it is gzipped is told by its first bytes, not by its name.
    pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Self, ReadError> {
        let mut file = File::open(path).in_file("read", path)?;
        let metadata = file.metadata().in_file("read", path)?;
        if !metadata.is_file() {
            // A pipe has no size to check a header against, and opening a folder only fails later.
            return Err(ReadError::content(path, Problem::new("kind", "a regular file", "another kind")));
        }
        let mut start = [0; 2];
        let read = file.read(&mut start).in_file("read", path)?;
        file.rewind().in_file("read", path)?;
        let hashed = Hashed { inner: file, hasher: blake3::Hasher::new() };
        let bytes = if read == 2 && start == [0x1f, 0x8b] {
            Bytes::Gzip(Box::new(Gzip::new(hashed)))
        } else {
            Bytes::Plain(Box::new(BufReader::with_capacity(PLAIN_BUFFER_BYTES, hashed)))
        };
        Ok(Self { path: path.to_path_buf(), bytes, file_bytes: metadata.len(), limits: *limits })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks a claimed number of decompressed bytes against the file and the limits, before anything is allocated.
    pub(crate) fn check_claim(&self, claimed: u64) -> Result<(), ReadError> {
        let limits = &self.limits;
        let refuse = |what, expected, found| Err(self.problem(Problem::new(what, expected, found)));
        if claimed > limits.scan_bytes {
            return refuse("size", format!("at most {} bytes", limits.scan_bytes), format!("{claimed} in the header"));
        }
        match self.bytes {
            Bytes::Plain(_) if claimed > self.file_bytes => {
                refuse("size of the file", format!("{claimed} bytes, as in the header"), self.file_bytes.to_string())
            }
            Bytes::Gzip(_)
                if claimed > limits.ratio_free_bytes && claimed / limits.compression_ratio.max(1) > self.file_bytes =>
            {
                let expected = format!("at most {} bytes a compressed byte", limits.compression_ratio);
                refuse("compression", expected, format!("{claimed} bytes from {}", self.file_bytes))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, ReadError> {
        match &mut self.bytes {
            Bytes::Gzip(gzip) => gzip.read(out).map_err(|e| match e.downcast::<Problem>() {
                Ok(problem) => ReadError::content(&self.path, problem),
                Err(e) => FileError::new("read", &self.path, e).into(),
            }),
            Bytes::Plain(file) => {
                let mut filled = 0;
                while filled < out.len() {
                    match file.read(&mut out[filled..]) {
                        Ok(0) => break,
                        Ok(n) => filled += n,
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(source) => return Err(FileError::new("read", &self.path, source).into()),
                    }
                }
                Ok(filled)
            }
        }
    }

    /// Fills all of `out`, or says of what (`what`) there was too little.
    pub(crate) fn read_exact(&mut self, what: &str, out: &mut [u8]) -> Result<(), ReadError> {
        let read = self.read(out)?;
        if read < out.len() {
            return Err(self.problem(Problem::new(what, format!("{} bytes", out.len()), format!("{read} at the end"))));
        }
        Ok(())
    }

    pub(crate) fn skip(&mut self, what: &str, mut count: u64) -> Result<(), ReadError> {
        let mut buffer = vec![0; SKIP_BYTES];
        while count > 0 {
            let piece = count.min(SKIP_BYTES as u64) as usize;
            self.read_exact(what, &mut buffer[..piece])?;
            count -= piece as u64;
        }
        Ok(())
    }

    /// Reads what is left after the data, so that checksums are verified; returns the file's BLAKE3 and how much was left.
    pub(crate) fn finish(mut self) -> Result<(String, u64), ReadError> {
        let mut buffer = vec![0; SKIP_BYTES];
        let mut trailing = 0;
        loop {
            let read = self.read(&mut buffer)? as u64;
            trailing += read;
            let expected = format_args!("at most {} bytes after the data", self.limits.trailing_bytes);
            ensure(trailing <= self.limits.trailing_bytes, "size", expected, "more").in_content(&self.path)?;
            if read < SKIP_BYTES as u64 {
                break;
            }
        }
        let hasher = match &self.bytes {
            Bytes::Plain(file) => &file.get_ref().hasher,
            Bytes::Gzip(gzip) => &gzip.file().hasher,
        };
        Ok((hasher.finalize().to_hex().to_string(), trailing))
    }

    pub(crate) fn problem(&self, problem: Problem) -> ReadError {
        ReadError::content(&self.path, problem)
    }
}
