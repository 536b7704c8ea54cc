//! A gzip stream that is only believed once its checksums hold.
//!
//! Python's readers stop at the last byte they need and so never see the checksum; a flipped bit then passes as data.

use std::io::{self, BufRead, Read};

use crate::problem::{Problem, ensure};
use flate2::{Crc, CrcReader, Decompress, FlushDecompress, Status};

const LONGEST_NAME_BYTES: usize = 64 << 10;

/// Decompresses one or more gzip members, one after the other.
pub(super) struct Gzip {
    inflate: Decompress,
    crc: Crc,
    in_member: bool,
    members: u64,
}

impl Gzip {
    pub(super) fn new() -> Self {
        Self { inflate: Decompress::new(false), crc: Crc::new(), in_member: false, members: 0 }
    }

    /// Decompresses some of `input` into `out`; no byte means its verified end.
    pub(super) fn read(&mut self, input: &mut impl BufRead, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_member && !self.start_member(input)? {
                return Ok(0);
            }
            let produced = self.inflate(input, out)?;
            if produced > 0 || out.is_empty() {
                return Ok(produced);
            }
        }
    }

    fn inflate(&mut self, input: &mut impl BufRead, out: &mut [u8]) -> io::Result<usize> {
        let piece = input.fill_buf()?;
        ensure(!piece.is_empty(), "gzip stream", "its end", "the end of the file")?;
        let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(piece, out, FlushDecompress::None);
        let status = status.map_err(|e| Problem::new("gzip stream", "deflated data", e))?;
        let consumed = (self.inflate.total_in() - before_in) as usize;
        let produced = (self.inflate.total_out() - before_out) as usize;
        input.consume(consumed);
        self.crc.update(&out[..produced]);
        if status == Status::StreamEnd {
            self.end_member(input)?;
        } else if consumed == 0 && produced == 0 {
            // Neither side moved though both had room: the stream cannot go on.
            return Err(Problem::new("gzip stream", "deflated data", "a stream that does not go on").into());
        }
        Ok(produced)
    }

    /// Reads a member's header; false if only padding or nothing is left.
    fn start_member(&mut self, input: &mut impl BufRead) -> io::Result<bool> {
        if self.members > 0 && only_padding_is_left(input)? {
            return Ok(false);
        }
        // A header may carry its own checksum.
        let mut header = CrcReader::new(input);
        let [first, second, method, flags, _, _, _, _, effort, system] = array(&mut header)?;
        ensure((first, second) == (0x1f, 0x8b), "gzip header", "1f 8b", format_args!("{first:02x} {second:02x}"))?;
        // No checksum covers these bytes, so a value that no writer of binary files leaves is taken as damage.
        let is_known =
            method == 8 && flags & 0xe1 == 0 && matches!(effort, 0 | 2 | 4) && matches!(system, 0..=13 | 255);
        let found = format_args!("method {method}, flags {flags:#04x}, effort {effort}, system {system}");
        ensure(is_known, "gzip header", "method 8 (deflate) and known flags", found)?;
        if flags & 4 != 0 {
            for _ in 0..u16::from_le_bytes(array(&mut header)?) {
                array::<1>(&mut header)?;
            }
        }
        // File name and comment end with a zero byte.
        for _ in [8, 16].into_iter().filter(|flag| flags & flag != 0) {
            let mut length = 0;
            while array::<1>(&mut header)? != [0] {
                length += 1;
                let expected = format_args!("a name or comment of at most {LONGEST_NAME_BYTES} bytes");
                ensure(length <= LONGEST_NAME_BYTES, "gzip header", expected, "a longer one")?;
            }
        }
        if flags & 2 != 0 {
            let computed = header.crc().sum() as u16;
            let stored = u16::from_le_bytes(array(&mut header)?);
            let (expected, found) = (format_args!("checksum {stored:04x}"), format_args!("{computed:04x}"));
            ensure(computed == stored, "gzip header", expected, found)?;
        }
        self.inflate.reset(false);
        self.crc.reset();
        self.members += 1;
        self.in_member = true;
        Ok(true)
    }

    fn end_member(&mut self, input: &mut impl BufRead) -> io::Result<()> {
        let (crc, length) = (u32::from_le_bytes(array(input)?), u32::from_le_bytes(array(input)?));
        let (expected, found) = (format_args!("checksum {crc:08x}"), format_args!("{:08x}", self.crc.sum()));
        ensure(crc == self.crc.sum(), "gzip stream", expected, found)?;
        // The stored length is modulo 2^32 by definition.
        let expected = format_args!("a length of {length} modulo 2^32");
        ensure(length == self.inflate.total_out() as u32, "gzip stream", expected, self.inflate.total_out())?;
        self.in_member = false;
        Ok(())
    }
}

/// Tapes and some tools pad with zeros; anything else after a member must be another member.
fn only_padding_is_left(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let piece = input.fill_buf()?;
        let (all, zeros) = (piece.len(), piece.iter().take_while(|b| **b == 0).count());
        input.consume(zeros);
        if all == 0 || zeros < all {
            return Ok(all == 0);
        }
    }
}

fn array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => Problem::new("gzip stream", "its end", "the end of the file").into(),
        _ => e,
    })?;
    Ok(bytes)
}
