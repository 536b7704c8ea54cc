//! Extensions between the header and the data.

use super::header::ByteOrder;
use crate::problem::Problem;

/// One extension: a code that says what it is, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Registered code; 32 is CIFTI.
    pub code: i32,
    /// Content, perhaps padded with zeros.
    pub bytes: Vec<u8>,
}

/// Splits the bytes from the extension flag to the data. The first four say whether there is any.
pub(super) fn parse(bytes: &[u8], order: ByteOrder) -> Result<Vec<Extension>, Problem> {
    let mut found = vec![];
    let Some((flag, mut rest)) = bytes.split_first_chunk::<4>() else { return Ok(found) };
    if flag[0] == 0 {
        return Ok(found);
    }
    while rest.len() >= 16 {
        let number = |at: usize| {
            let raw = [rest[at], rest[at + 1], rest[at + 2], rest[at + 3]];
            if order == ByteOrder::Little { i32::from_le_bytes(raw) } else { i32::from_be_bytes(raw) }
        };
        let size = usize::try_from(number(0)).ok().filter(|n| *n >= 16 && n.is_multiple_of(16));
        let size = size.ok_or_else(|| Problem::new("extension", "a size of a multiple of 16 bytes", number(0)))?;
        let content = rest.get(8..size).ok_or_else(|| {
            Problem::new("extension", format!("at most {} bytes, which is where the data starts", rest.len()), size)
        })?;
        found.push(Extension { code: number(4), bytes: content.to_vec() });
        rest = &rest[size..];
    }
    Ok(found)
}
