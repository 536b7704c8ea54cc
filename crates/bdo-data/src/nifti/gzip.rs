//! A gzip stream that is only believed once its checksums hold.
//!
//! Python's readers stop at the last byte they need and so never see the checksum; a flipped bit then passes as data.

use std::io::{self, BufRead, BufReader, Read};

use crate::problem::{Problem, ensure};
use flate2::{Crc, Decompress, FlushDecompress, Status};

/// Input is taken in pieces of this size: large enough that calls do not matter, small enough to stay in the cache.
const INPUT_BYTES: usize = 256 << 10;

const LONGEST_NAME_BYTES: usize = 64 << 10;

/// Decompresses one or more gzip members, one after the other.
pub(super) struct Gzip<R> {
    input: BufReader<R>,
    inflate: Decompress,
    crc: Crc,
    state: State,
    members: u64,
}

#[derive(PartialEq)]
enum State {
    BetweenMembers,
    InMember,
    Ended,
}

impl<R: Read> Gzip<R> {
    pub(super) fn new(file: R) -> Self {
        Self {
            input: BufReader::with_capacity(INPUT_BYTES, file),
            inflate: Decompress::new(false),
            crc: Crc::new(),
            state: State::BetweenMembers,
            members: 0,
        }
    }

    pub(super) fn file(&self) -> &R {
        self.input.get_ref()
    }

    /// Fills as much of `out` as the stream still holds; fewer bytes than asked for mean its verified end.
    pub(super) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            match self.state {
                State::Ended => break,
                State::BetweenMembers => self.start_member()?,
                State::InMember => filled += self.inflate(&mut out[filled..])?,
            }
        }
        Ok(filled)
    }

    fn inflate(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let input = self.input.fill_buf()?;
        ensure(!input.is_empty(), "gzip stream", "its end", "the end of the file")?;
        let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(input, out, FlushDecompress::None);
        let status = status.map_err(|e| Problem::new("gzip stream", "deflated data", e))?;
        let consumed = (self.inflate.total_in() - before_in) as usize;
        let produced = (self.inflate.total_out() - before_out) as usize;
        self.input.consume(consumed);
        self.crc.update(&out[..produced]);
        if status == Status::StreamEnd {
            self.end_member()?;
        } else if consumed == 0 && produced == 0 {
            // Neither side moved though both had room: the stream cannot go on.
            return Err(Problem::new("gzip stream", "deflated data", "a stream that does not go on").into());
        }
        Ok(produced)
    }

    /// Reads a member's header, or finds that only padding or nothing is left.
    fn start_member(&mut self) -> io::Result<()> {
        if self.members > 0 && self.only_padding_is_left()? {
            self.state = State::Ended;
            return Ok(());
        }
        let mut header = Counted { input: &mut self.input, crc: Crc::new() };
        let [first, second, method, flags, _, _, _, _, effort, system] = header.array::<10>()?;
        ensure((first, second) == (0x1f, 0x8b), "gzip header", "1f 8b", format_args!("{first:02x} {second:02x}"))?;
        // No checksum covers these bytes, so a value that no writer of binary files leaves is taken as damage.
        let is_known =
            method == 8 && flags & 0xe1 == 0 && matches!(effort, 0 | 2 | 4) && matches!(system, 0..=13 | 255);
        let found = format_args!("method {method}, flags {flags:#04x}, effort {effort}, system {system}");
        ensure(is_known, "gzip header", "method 8 (deflate) and known flags", found)?;
        if flags & 4 != 0 {
            let length = u16::from_le_bytes(header.array()?);
            for _ in 0..length {
                header.array::<1>()?;
            }
        }
        for flag in [8, 16] {
            // File name and comment end with a zero byte.
            if flags & flag != 0 {
                let mut length = 0;
                while header.array::<1>()? != [0] {
                    length += 1;
                    let expected = format_args!("a name or comment of at most {LONGEST_NAME_BYTES} bytes");
                    ensure(length <= LONGEST_NAME_BYTES, "gzip header", expected, "a longer one")?;
                }
            }
        }
        if flags & 2 != 0 {
            let computed = header.crc.sum() as u16;
            let stored = u16::from_le_bytes(header.array()?);
            let (expected, found) = (format_args!("checksum {stored:04x}"), format_args!("{computed:04x}"));
            ensure(computed == stored, "gzip header", expected, found)?;
        }
        self.inflate.reset(false);
        self.crc.reset();
        self.members += 1;
        self.state = State::InMember;
        Ok(())
    }

    fn end_member(&mut self) -> io::Result<()> {
        let mut trailer = Counted { input: &mut self.input, crc: Crc::new() };
        let (crc, length) = (u32::from_le_bytes(trailer.array()?), u32::from_le_bytes(trailer.array()?));
        let (expected, found) = (format_args!("checksum {crc:08x}"), format_args!("{:08x}", self.crc.sum()));
        ensure(crc == self.crc.sum(), "gzip stream", expected, found)?;
        // The stored length is modulo 2^32 by definition.
        let expected = format_args!("a length of {length} modulo 2^32");
        ensure(length == self.inflate.total_out() as u32, "gzip stream", expected, self.inflate.total_out())?;
        self.state = State::BetweenMembers;
        Ok(())
    }

    /// Tapes and some tools pad with zeros; anything else after a member must be another member.
    fn only_padding_is_left(&mut self) -> io::Result<bool> {
        loop {
            let input = self.input.fill_buf()?;
            let Some(first) = input.iter().position(|b| *b != 0) else {
                let zeros = input.len();
                if zeros == 0 {
                    return Ok(true);
                }
                self.input.consume(zeros);
                continue;
            };
            self.input.consume(first);
            return Ok(false);
        }
    }
}

/// Reads small pieces of a member's frame and sums them, because a header may carry its own checksum.
struct Counted<'a, R> {
    input: &'a mut BufReader<R>,
    crc: Crc,
}

impl<R: Read> Counted<'_, R> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => Problem::new("gzip stream", "its end", "the end of the file").into(),
            _ => e,
        })?;
        self.crc.update(&bytes);
        Ok(bytes)
    }
}
