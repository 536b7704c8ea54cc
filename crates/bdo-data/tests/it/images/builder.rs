//! Images as bytes, written field by field so that any field can be wrong.

use std::io::Write;

/// A NIfTI file in the making.
#[derive(Clone)]
pub(crate) struct Builder {
    pub(crate) two: bool,
    pub(crate) big: bool,
    pub(crate) dims: Vec<i64>,
    pub(crate) datatype: i16,
    pub(crate) bitpix: i16,
    pub(crate) vox_offset: f64,
    pub(crate) slope: f64,
    pub(crate) intercept: f64,
    pub(crate) sform: [[f64; 4]; 3],
    pub(crate) sform_code: i32,
    pub(crate) extension: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

impl Builder {
    /// 16-bit voxels counting up.
    pub(crate) fn new(shape: [i64; 4]) -> Self {
        let count = shape.iter().product::<i64>();
        Self {
            two: false,
            big: false,
            dims: shape.to_vec(),
            datatype: 4,
            bitpix: 16,
            vox_offset: 0.0,
            slope: 1.0,
            intercept: 0.0,
            sform: [[2.0, 0.0, 0.0, -5.0], [0.0, 2.0, 0.0, -6.0], [0.0, 0.0, 2.0, -7.0]],
            sform_code: 1,
            extension: vec![],
            data: (0..count).flat_map(|i| ((i * 37 % 1000) as i16).to_le_bytes()).collect(),
        }
    }

    fn put<const N: usize>(&self, out: &mut [u8], at: usize, mut bytes: [u8; N]) {
        if self.big {
            bytes.reverse();
        }
        out[at..at + N].copy_from_slice(&bytes);
    }

    fn float(&self, out: &mut [u8], one: usize, two: usize, index: usize, value: f64) {
        if self.two {
            self.put(out, two + 8 * index, value.to_le_bytes());
        } else {
            self.put(out, one + 4 * index, (value as f32).to_le_bytes());
        }
    }

    /// The file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let size = if self.two { 540 } else { 348 };
        let mut out = vec![0; size];
        self.put(&mut out, 0, (size as i32).to_le_bytes());
        let magic: &[u8] = if self.two { b"n+2\0\r\n\x1a\n" } else { b"n+1\0" };
        let at = if self.two { 4 } else { 344 };
        out[at..at + magic.len()].copy_from_slice(magic);
        let stored: Vec<i64> = std::iter::once(self.dims.len() as i64).chain(self.dims.iter().copied()).collect();
        for (i, d) in stored.into_iter().take(8).enumerate() {
            if self.two {
                self.put(&mut out, 16 + 8 * i, d.to_le_bytes());
            } else {
                self.put(&mut out, 40 + 2 * i, (d as i16).to_le_bytes());
            }
        }
        let (datatype_at, bitpix_at) = if self.two { (12, 14) } else { (70, 72) };
        self.put(&mut out, datatype_at, self.datatype.to_le_bytes());
        self.put(&mut out, bitpix_at, self.bitpix.to_le_bytes());
        let offset = if self.vox_offset == 0.0 { (size + 4 + self.extension.len()) as f64 } else { self.vox_offset };
        if self.two {
            self.put(&mut out, 168, (offset as i64).to_le_bytes());
        } else {
            self.put(&mut out, 108, (offset as f32).to_le_bytes());
        }
        self.float(&mut out, 112, 176, 0, self.slope);
        self.float(&mut out, 112, 176, 1, self.intercept);
        for (i, spacing) in [1.0, 2.0, 2.0, 2.0, 0.8].into_iter().enumerate() {
            self.float(&mut out, 76, 104, i, spacing);
        }
        for (i, row) in self.sform.iter().enumerate() {
            for (j, x) in row.iter().enumerate() {
                self.float(&mut out, 280, 400, 4 * i + j, *x);
            }
        }
        if self.two {
            self.put(&mut out, 348, self.sform_code.to_le_bytes());
            self.put(&mut out, 500, 10_i32.to_le_bytes());
        } else {
            self.put(&mut out, 254, (self.sform_code as i16).to_le_bytes());
            out[123] = 10;
        }
        out.extend([u8::from(!self.extension.is_empty()), 0, 0, 0]);
        out.extend(&self.extension);
        let mut data = self.data.clone();
        if self.big {
            data.chunks_mut((self.bitpix.unsigned_abs() as usize / 8).max(1)).for_each(<[u8]>::reverse);
        }
        out.extend(data);
        out
    }
}

/// Compresses as one gzip member.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A small deterministic generator, so that a failing case can be named by its number.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
