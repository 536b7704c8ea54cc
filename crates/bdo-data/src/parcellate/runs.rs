//! Sums over regions, straight from the stored bytes of an image.

use crate::nifti::{Header, for_each_value};

/// Voxels of one region that lie one after the other in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// First voxel, counted from the start of the piece.
    pub(super) start: u32,
    pub(super) length: u32,
    pub(super) region: u32,
}

/// Voxels of one piece of a volume. A piece of 16-bit voxels fills half of a second-level cache.
pub(super) const PIECE_VOXELS: usize = 128 << 10;

/// The runs of every piece of a volume, from the column (from 1; 0 is none) of every voxel.
pub(super) fn runs_of(columns: &[u16]) -> Vec<Vec<Run>> {
    let piece = |columns: &[u16]| {
        let mut runs: Vec<Run> = vec![];
        for (i, column) in columns.iter().enumerate() {
            let Some(region) = column.checked_sub(1).map(u32::from) else { continue };
            match runs.last_mut() {
                Some(run) if run.region == region && run.start + run.length == i as u32 => run.length += 1,
                _ => runs.push(Run { start: i as u32, length: 1, region }),
            }
        }
        runs
    };
    columns.chunks(PIECE_VOXELS).map(piece).collect()
}

/// What one volume adds up to, region by region.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    /// Sum of the stored numbers that are finite.
    pub(super) stored: Vec<f64>,
    /// How many were not finite.
    pub(super) non_finite: Vec<u32>,
}

impl Sums {
    pub(super) fn new(regions: usize) -> Self {
        Self { stored: vec![0.0; regions], non_finite: vec![0; regions] }
    }

    pub(super) fn clear(&mut self) {
        self.stored.fill(0.0);
        self.non_finite.fill(0);
    }

    pub(super) fn add(&mut self, header: &Header, bytes: &[u8], runs: &[Run]) {
        let width = header.datatype.bytes();
        let is_float = header.datatype.is_float();
        for run in runs {
            let (start, end) = (run.start as usize * width, (run.start + run.length) as usize * width);
            let (bytes, region) = (&bytes[start..end], run.region as usize);
            for_each_value!(header.datatype, header.byte_order, bytes, |values| {
                let (mut sum, mut bad) = (0.0, 0);
                if is_float {
                    for x in values {
                        let good = x.is_finite();
                        sum += if good { x } else { 0.0 };
                        bad += u32::from(!good);
                    }
                } else {
                    sum = values.sum::<f64>();
                }
                self.stored[region] += sum;
                self.non_finite[region] += bad;
            });
        }
    }
}

/// The voxels of one piece that are exactly zero, as all are outside a skull-stripped brain or the field of view: where they
/// are, and their regions.
pub(super) fn zero_voxels(header: &Header, bytes: &[u8], runs: &[Run]) -> Vec<(u32, u32)> {
    let width = header.datatype.bytes();
    let mut found = vec![];
    for run in runs {
        let (start, end) = (run.start as usize * width, (run.start + run.length) as usize * width);
        for_each_value!(header.datatype, header.byte_order, &bytes[start..end], |values| {
            let zeros = values.enumerate().filter(|(_, x)| *x == 0.0);
            found.extend(zeros.map(|(i, _)| (run.start + i as u32, run.region)));
        });
    }
    found
}

/// Whether one voxel of a piece is exactly zero.
pub(super) fn is_zero(header: &Header, bytes: &[u8], voxel: u32) -> bool {
    let width = header.datatype.bytes();
    let bytes = &bytes[voxel as usize * width..(voxel as usize + 1) * width];
    for_each_value!(header.datatype, header.byte_order, bytes, |values| values.into_iter().all(|x| x == 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_follow_the_labels_and_stop_at_the_piece() {
        let mut columns = vec![0_u16; PIECE_VOXELS + 3];
        columns[1..4].copy_from_slice(&[2, 2, 1]);
        columns[PIECE_VOXELS - 1..=PIECE_VOXELS].copy_from_slice(&[7, 7]);
        let run = |start, length, region| Run { start, length, region };
        let last = PIECE_VOXELS as u32 - 1;
        assert_eq!(runs_of(&columns), [vec![run(1, 2, 1), run(3, 1, 0), run(last, 1, 6)], vec![run(0, 1, 6)]]);
    }
}
