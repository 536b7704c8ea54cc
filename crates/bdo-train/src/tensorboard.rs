//! Event files that `TensorBoard` reads: length-framed records with CRC-32C, each holding a small protocol buffer.

use bdo_data::durable::{self, FileError, InFile};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct EventFile {
    file: File,
    path: PathBuf,
}

impl EventFile {
    /// Starts a file in a folder, named by the time of the first event as readers expect.
    pub fn create(folder: &Path, wall_seconds: f64) -> Result<Self, FileError> {
        durable::create_folder(folder)?;
        let path = folder.join(format!("events.out.tfevents.{:.0}.{}.bdo", wall_seconds, std::process::id()));
        let file = OpenOptions::new().create(true).append(true).open(&path).in_file("write", &path)?;
        let mut events = Self { file, path };
        let mut event = event_header(wall_seconds, None);
        bytes_field(&mut event, 3, b"brain.Event:2");
        events.write(&event)?;
        Ok(events)
    }

    pub fn scalars(&mut self, wall_seconds: f64, step: u64, values: &[(String, f64)]) -> Result<(), FileError> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut entry = Vec::new();
            bytes_field(&mut entry, 1, tag.as_bytes());
            entry.push(2 << 3 | 5);
            entry.extend((*value as f32).to_le_bytes());
            bytes_field(&mut summary, 1, &entry);
        }
        let mut event = event_header(wall_seconds, Some(step));
        bytes_field(&mut event, 5, &summary);
        self.write(&event)
    }

    fn write(&mut self, event: &[u8]) -> Result<(), FileError> {
        self.file.write_all(&record(event)).in_file("write", &self.path)
    }
}

/// Wall time is field 1 (double), the step field 2 (varint).
fn event_header(wall_seconds: f64, step: Option<u64>) -> Vec<u8> {
    let mut event = vec![1 << 3 | 1];
    event.extend(wall_seconds.to_le_bytes());
    if let Some(step) = step {
        event.push(2 << 3);
        varint(&mut event, step);
    }
    event
}

fn bytes_field(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Length, masked checksum of the length, data, masked checksum of the data.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut out = length.to_vec();
    out.extend(masked(&length).to_le_bytes());
    out.extend(data);
    out.extend(masked(data).to_le_bytes());
    out
}

fn masked(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: events are a few hundred bytes.
fn crc32c(data: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // RFC 3720, B.4: 32 bytes of zeros, 32 of ones; and the check value of the polynomial.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn numbers_are_framed_as_protocol_buffers() {
        let mut out = Vec::new();
        varint(&mut out, 300);
        assert_eq!(out, [0xac, 2]);
        assert_eq!(event_header(0.0, Some(1)), [9, 0, 0, 0, 0, 0, 0, 0, 0, 16, 1]);
    }
}
