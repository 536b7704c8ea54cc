//! Grey pictures inside a page.

use std::io::Write;

/// A PNG of `width` x `height` grey pixels as a data address.
pub(super) fn data_address(pixels: &[u8], width: usize, height: usize) -> String {
    format!("data:image/png;base64,{}", base64(&png(pixels, width, height)))
}

fn png(pixels: &[u8], width: usize, height: usize) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = vec![];
    header.extend((width as u32).to_be_bytes());
    header.extend((height as u32).to_be_bytes());
    // Eight bits of grey, no interlacing.
    header.extend([8, 0, 0, 0, 0]);
    chunk(&mut out, *b"IHDR", &header);
    let mut encoder = flate2::write::ZlibEncoder::new(vec![], flate2::Compression::new(6));
    let rows: Vec<u8> =
        pixels.chunks(width.max(1)).flat_map(|row| std::iter::once(0).chain(row.iter().copied())).collect();
    // Writing to memory does not fail; an empty picture would be the worst outcome.
    let _ = encoder.write_all(&rows);
    chunk(&mut out, *b"IDAT", &encoder.finish().unwrap_or_default());
    chunk(&mut out, *b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    out.extend((content.len() as u32).to_be_bytes());
    let mut crc = flate2::Crc::new();
    crc.update(&kind);
    crc.update(content);
    out.extend(kind);
    out.extend(content);
    out.extend(crc.sum().to_be_bytes());
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, b| (bits << 8) | u32::from(*b)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= group.len() { digit as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_standard() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|t| base64(t.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
