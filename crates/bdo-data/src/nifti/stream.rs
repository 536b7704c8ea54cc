//! The decompressed bytes of an image file, in order, counted and hashed, and how much a file may claim.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::gzip::Gzip;
use crate::durable::{FileError, InFile};
use crate::problem::{InContent, Problem, ReadError, ensure};

/// Most bytes a scan may hold once decompressed: a guard against nonsense, since images are read piece by piece and a whole one
/// is never held.
const MOST_SCAN_BYTES: u64 = 1 << 40;
/// Most decompressed bytes per byte of the file. Measured images lie between 2 and 10; deflate can do 1032.
const MOST_COMPRESSION: u64 = 200;
/// Below this size the ratio is not looked at: an empty mask compresses a thousandfold and harms nobody.
const RATIO_FREE_BYTES: u64 = 64 << 20;
/// Most bytes after the image data; some writers leave a few.
const MOST_TRAILING_BYTES: u64 = 16 << 20;

/// Input is taken in pieces of this size: large enough that calls do not matter, small enough to stay in the cache.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes that nobody asked for are skipped in pieces of this size.
const SKIP_BYTES: usize = 64 << 10;

pub(crate) struct ByteStream {
    path: PathBuf,
    file: BufReader<Hashed>,
    gzip: Option<Box<Gzip>>,
    file_bytes: u64,
}

/// Hashes the file as it is read, so that the hash is of the very bytes the values came from.
struct Hashed {
    file: File,
    hasher: blake3::Hasher,
}

impl Read for Hashed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        self.hasher.update(&out[..read]);
        Ok(read)
    }
}

/// Most bytes that so many compressed ones are believed to become.
pub(crate) fn most_inflated(compressed: u64) -> u64 {
    RATIO_FREE_BYTES.max(MOST_COMPRESSION.saturating_mul(compressed))
}

impl ByteStream {
    /// Opens a file; whether it is gzipped is told by its first bytes, not by its name.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).in_file("read", path)?;
        let metadata = file.metadata().in_file("read", path)?;
        if !metadata.is_file() {
            // A pipe has no size to check a header against, and opening a folder only fails later.
            return Err(ReadError::content(path, Problem::new("kind", "a regular file", "another kind")));
        }
        let mut file = BufReader::with_capacity(BUFFER_BYTES, Hashed { file, hasher: blake3::Hasher::new() });
        let gzipped = file.fill_buf().in_file("read", path)?.starts_with(&[0x1f, 0x8b]);
        let gzip = gzipped.then(|| Box::new(Gzip::new()));
        Ok(Self { path: path.to_path_buf(), file, gzip, file_bytes: metadata.len() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks a claimed number of decompressed bytes against the file and the limits, before anything is allocated.
    pub(crate) fn check_claim(&self, claimed: u64) -> Result<(), Problem> {
        if claimed > MOST_SCAN_BYTES {
            let found = format!("{claimed} in the header");
            return Err(Problem::new("size", format!("at most {MOST_SCAN_BYTES} bytes"), found));
        }
        if self.gzip.is_none() && claimed > self.file_bytes {
            let expected = format!("{claimed} bytes, as in the header");
            return Err(Problem::new("size of the file", expected, self.file_bytes));
        }
        if self.gzip.is_some() && claimed > most_inflated(self.file_bytes) {
            let expected = format!("at most {MOST_COMPRESSION} bytes a compressed byte");
            return Err(Problem::new("compression", expected, format!("{claimed} bytes from {}", self.file_bytes)));
        }
        Ok(())
    }

    /// Fills as much of `out` as there still is; fewer bytes than asked for mean the verified end.
    fn read(&mut self, out: &mut [u8]) -> Result<usize, ReadError> {
        let mut filled = 0;
        while filled < out.len() {
            let read = match &mut self.gzip {
                Some(gzip) => gzip.read(&mut self.file, &mut out[filled..]),
                None => self.file.read(&mut out[filled..]),
            };
            match read {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(match e.downcast::<Problem>() {
                        Ok(problem) => ReadError::content(&self.path, problem),
                        Err(e) => FileError::new("read", &self.path, e).into(),
                    });
                }
            }
        }
        Ok(filled)
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
            let expected = format_args!("at most {MOST_TRAILING_BYTES} bytes after the data");
            ensure(trailing <= MOST_TRAILING_BYTES, "size", expected, "more").in_content(&self.path)?;
            if read < SKIP_BYTES as u64 {
                return Ok((self.file.get_ref().hasher.finalize().to_hex().to_string(), trailing));
            }
        }
    }

    pub(crate) fn problem(&self, problem: Problem) -> ReadError {
        ReadError::content(&self.path, problem)
    }
}
